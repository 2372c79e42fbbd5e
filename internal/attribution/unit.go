package attribution

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"taper.dev/taper/internal/capture"
)

// call is an exchange that the service asked. What is looked at for each of a window's
// calls stands side by side: their exchanges have left the processor's cache.
type call struct {
	*capture.Exchange
	index      uint64 // on its connection
	template   int32
	start, end capture.Time
	client     netip.Addr
	cause      Cause
	peer       string
	opened     capture.Time // when the connection that was opened for it was; 0 if none was
	settled    bool
}

// unit is calls that belong to one request together: the questions for a name, the
// handshake with one of its addresses, and the first exchange on that connection.
type unit struct {
	calls      []*call // in order; the last one is what it is all about
	start, end capture.Time
	template   int32
	pod        netip.Addr
	// candidates are the requests that were open at the start, by start.
	candidates []*request
	// parent is the request that it is linked to, nil for none.
	parent      *request
	probability float64
	certain     bool
	// counts are how often samples had each candidate as the parent, the last one none.
	counts []float32
	order  int32 // among the units of the window
}

// request is a request of the window.
type request struct {
	out        *Request
	start, end capture.Time
	ready      capture.Time // it had arrived
	answer     capture.Time // the response's first byte, 0 without
	unanswered bool
	cut        bool // its end lies beyond the window
	late       bool
	route      int32
	pod        netip.Addr
	tid        uint32
	keys       capture.Keys
	settled    []*unit // links that are decided
	units      []*unit // links of the window, by start; includes those settled
	likelihood float64 // its logarithm, with these units
	proposed   float64 // with others
	samples    float32 // how many samples were taken while it was in a window
	childless  float32 // how many of them had no unit
}

const (
	// chainGap is how long after a handshake or a name's answer the connection's next
	// step comes at most, to be taken for its continuation.
	chainGap = 50 * time.Millisecond
	// pairGap is how far apart the questions for the IPv4 and IPv6 addresses of a name
	// are at most.
	pairGap = 2 * time.Millisecond
	// searchGap is how long after one name failed the next of a search list is asked for.
	searchGap = 5 * time.Millisecond
	// maxRecent bounds how many earlier questions for names are looked at.
	maxRecent = 8
)

// chains puts calls together to units.
type chains struct {
	units   []*unit
	recent  []*unit                 // the last questions for names
	answers map[netip.Addr][]*unit  // by address of the answer; not yet used
	opened  map[*capture.Conn]*unit // by connection: its TLS handshake
	busy    busyTimes
}

// busyTimes are those at which a request was open: requests by start, each with the
// latest end up to it.
type busyTimes struct{ starts, ends []capture.Time }

func busyWith(requests []*request) (b busyTimes) {
	var end capture.Time
	for _, r := range requests {
		end = max(end, r.end)
		b.starts, b.ends = append(b.starts, r.start), append(b.ends, end)
	}
	return b
}

func (b *busyTimes) at(t capture.Time) bool {
	i, same := slices.BinarySearch(b.starts, t)
	return same || i > 0 && b.ends[i-1] >= t
}

// units puts the calls of the window together, by start.
func (l *Linker) units() []*unit {
	c := chains{units: make([]*unit, 0, len(l.calls)), answers: map[netip.Addr][]*unit{}, opened: map[*capture.Conn]*unit{}, busy: busyWith(l.requests)}
	slab, calls := make([]unit, len(l.calls)), slices.Clone(l.calls)
	for i, k := range calls {
		u := &slab[i]
		*u = unit{calls: calls[i : i+1 : i+1], start: k.start, end: k.end, pod: l.roles.pod(k.client)}
		c.add(u, k)
	}
	units := slices.DeleteFunc(c.units, func(u *unit) bool { return len(u.calls) == 0 })
	slices.SortStableFunc(units, func(a, b *unit) int { return cmp.Compare(a.start, b.start) })
	for i, u := range units {
		main := u.calls[len(u.calls)-1]
		u.order, u.template = int32(i), main.template
	}
	return units
}

func (c *chains) add(u *unit, k *call) {
	switch {
	case k.cause == DNS:
		c.addQuestion(u, k)
		return
	case k.index == 0:
		c.open(u, k)
	case k.index == 1:
		if h := c.opened[k.Conn]; h != nil && k.start.Sub(h.end) <= chainGap {
			h.append(k)
			return
		}
	}
	if k.cause == TLS {
		c.opened[k.Conn] = u
	}
	c.units = append(c.units, u)
}

func (u *unit) append(k *call) {
	u.calls = append(u.calls, k)
	u.end = max(u.end, k.end)
}

// open lets a unit begin with the opening of its connection, and with the questions for
// the name of its server.
func (c *chains) open(u *unit, k *call) {
	conn := k.Conn
	if conn.Mid || len(conn.SYNs) == 0 || conn.Transport != capture.TCP {
		return
	}
	syn, established := conn.SYNs[0].Time, conn.SYNACK.Time
	if established = max(established, conn.Established.Time); established == 0 || u.start.Sub(established) > chainGap {
		return // opened ahead, for a pool
	}
	if !c.busy.at(syn) && c.busy.at(u.start) {
		return // so was this one, and then a request came
	}
	k.opened, u.start = syn, min(u.start, syn)
	q := c.question(k.Server().Addr(), syn)
	if q == nil {
		return
	}
	u.calls = append(q.calls, u.calls...)
	u.start, u.end = min(u.start, q.start), max(u.end, q.end)
	q.calls = nil
}

// question takes out the last one whose answer had the address, shortly before t.
func (c *chains) question(a netip.Addr, t capture.Time) *unit {
	for i := len(c.answers[a]) - 1; i >= 0; i-- {
		q := c.answers[a][i]
		if wait := t.Sub(q.end); len(q.calls) > 0 && wait >= 0 && wait <= chainGap {
			c.answers[a] = slices.Delete(c.answers[a], i, i+1)
			return q
		}
	}
	return nil
}

// addQuestion adds a question to that for the other kind of addresses of the same name,
// or to that for the name before in a search list.
func (c *chains) addQuestion(u *unit, k *call) {
	for _, q := range slices.Backward(c.recent) {
		if len(q.calls) > 0 && continues(q, k) {
			q.append(k)
			u = q
			break
		}
	}
	if len(u.calls) == 1 {
		c.units = append(c.units, u)
		if c.recent = append(c.recent, u); len(c.recent) > maxRecent {
			c.recent = c.recent[1:]
		}
	}
	if k.DNS == nil {
		return
	}
	for _, a := range k.DNS.Addresses {
		if known := c.answers[a]; !slices.Contains(known, u) {
			if len(known) >= maxRecent {
				known = known[1:]
			}
			c.answers[a] = append(known, u)
		}
	}
}

// continues says whether a question belongs to those before it.
func continues(q *unit, k *call) bool {
	if k.start.Sub(q.end) > max(pairGap, searchGap) {
		return false
	}
	before := q.calls[len(q.calls)-1]
	if before.client != k.client {
		return false
	}
	name, last := asked(k.Exchange), asked(before.Exchange)
	if name == last {
		other := before.DNS != nil && k.DNS != nil && before.DNS.Type != k.DNS.Type
		return other && (before.Client() == k.Client() && k.start <= q.end || k.start.Sub(before.start) <= pairGap)
	}
	label, _, _ := strings.Cut(name, ".")
	lastLabel, _, _ := strings.Cut(last, ".")
	wait := k.start.Sub(q.end)
	return label == lastLabel && before.Answered() && !found(before) && wait >= 0 && wait <= searchGap
}

// found says whether a question was answered with addresses.
func found(k *call) bool { return k.DNS != nil && len(k.DNS.Addresses) > 0 }
