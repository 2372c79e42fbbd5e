package trap

import (
	"strings"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

// nameError is DNS's response code 3: there is no such name.
const nameError = 3

// isLookup says whether the exchange asks a resolver for a name. Multicast DNS is not:
// silence is a good answer there.
func isLookup(x *capture.Exchange) bool {
	return x.DNS != nil && !x.Server().Addr().IsMulticast()
}

// exists says whether the name exists and has records.
func exists(x *capture.Exchange) bool {
	return x.Answered() && x.Status == 0 && len(x.DNS.Addresses) > 0
}

// isUnder says whether a name is a base with a suffix behind it.
func isUnder(name, base string) bool {
	return len(name) > len(base)+1 && name[len(base)] == '.' && base != "" && name[:len(base)] == base
}

// resolver is what configuration says of look-ups: resolv.conf, else the pod's dnsConfig.
func resolver(c Config) *Resolv {
	if c.Resolv != nil {
		return c.Resolv
	}
	if c.Pod != nil {
		return c.Pod.DNS
	}
	return nil
}

// dots counts the dots of a name.
func dots(name string) int { return strings.Count(name, ".") }

// lookupPairs recognises the look-ups of A and AAAA that leave one port together. It keeps the
// last two look-ups of each of the newest connections, by their number.
type lookupPairs struct {
	slots [1024]struct {
		conn uint64
		last [2]lookup
	}
}

type lookup struct {
	kind, name string
	start      capture.Time
	answered   bool
}

func (p *lookupPairs) add(x *capture.Exchange) {
	slot := &p.slots[x.Conn.ID%uint64(len(p.slots))]
	if slot.conn != x.Conn.ID {
		slot.conn, slot.last = x.Conn.ID, [2]lookup{}
	}
	slot.last[0] = slot.last[1]
	slot.last[1] = lookup{kind: x.DNS.Type, name: x.Target, start: x.Start(), answered: x.Answered()}
}

const (
	// resendAfter is when glibc and musl ask again, resendSlack how exactly they do.
	resendAfter = 5 * time.Second
	resendSlack = 200 * time.Millisecond
	// together is how far apart the two questions of a pair leave at most.
	together = 50 * time.Millisecond
)

// raced says whether a look-up lost its packet to its twin: two questions left one port
// together, one was answered, and this one was asked again when the resolver gave up.
func (p *lookupPairs) raced(x *capture.Exchange) bool {
	if len(x.DNS.Resent) == 0 || (x.DNS.Resent[0].Time.Sub(x.Start())-resendAfter).Abs() > resendSlack {
		return false
	}
	slot := &p.slots[x.Conn.ID%uint64(len(p.slots))]
	if slot.conn != x.Conn.ID {
		return false
	}
	for _, twin := range slot.last {
		near := twin.start.Sub(x.Start()).Abs() <= together || twin.start.Sub(x.DNS.Resent[0].Time).Abs() <= together
		if twin.answered && near && twin.name == x.Target && twin.kind != x.DNS.Type {
			return true
		}
	}
	return false
}

// sameName says whether two calls look up one name.
func sameName(a, b *attribution.Link) bool {
	return a.Exchange.DNS != nil && b.Exchange.DNS != nil && a.Exchange.Target == b.Exchange.Target
}
