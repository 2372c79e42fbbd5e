package trap

import (
	"fmt"
	"net/netip"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

const (
	// azureIdle and awsIdle are after how long without data balancers and NAT forget a
	// connection: Azure after 4 minutes, AWS (NLB, NAT gateway) after 350 seconds.
	azureIdle = 240 * time.Second
	awsIdle   = 350 * time.Second
	// maxIdlers bounds the questions whose connection has yet to end.
	maxIdlers = 4096
)

// idleDrop sees questions on connections that were idle for so long that something on
// the way has forgotten them: a reset or silence comes back.
type idleDrop struct {
	ends     lastEnds
	pending  map[uint64]idler // by connection
	order    recent[uint64]
	asked    recent[uint64] // their packets, until their requests are told
	hits     uint64
	least    time.Duration // idling of those that were lost
	server   netip.AddrPort
	peers    peers
	charge   charge
	evidence evidence
}

type idler struct {
	question capture.Mark
	idle     time.Duration
}

func newIdleDrop() Rule {
	return &idleDrop{pending: map[uint64]idler{}, order: newRecent[uint64](maxIdlers), asked: newRecent[uint64](maxIdlers), peers: newPeers()}
}

func (*idleDrop) ID() string { return "idle-drop" }

// lastEnds knows when the newest connections were last used. Connections whose numbers
// fall on one slot forget each other.
type lastEnds [1 << 14]struct {
	conn uint64
	end  capture.Time
}

// idle is how long the connection was idle before the exchange, 0 if that is not known.
func (l *lastEnds) idle(x *capture.Exchange) time.Duration {
	slot := &l[x.Conn.ID%uint64(len(l))]
	var d time.Duration
	if slot.conn == x.Conn.ID {
		d = max(0, x.Start().Sub(slot.end))
	} else {
		slot.conn, slot.end = x.Conn.ID, 0
	}
	slot.end = max(slot.end, x.End())
	return d
}

func (d *idleDrop) Exchange(x *capture.Exchange) {
	if x.Conn.Transport != capture.TCP {
		return
	}
	idle := d.ends.idle(x)
	if idle < azureIdle || x.Answered() {
		return
	}
	if old, full := d.order.replace(x.Conn.ID); full {
		delete(d.pending, old)
	}
	d.pending[x.Conn.ID] = idler{x.Request.First, idle}
	d.asked.add(x.Request.First.Packet)
}

// Conn decides: the question was refused, or sent again and again.
func (d *idleDrop) Conn(c *capture.Conn) {
	q, ok := d.pending[c.ID]
	if !ok {
		return
	}
	delete(d.pending, c.ID)
	refused := c.Reset && c.Closed.Time > q.question.Time
	if !refused && c.Retransmitted[capture.Client] == 0 {
		return
	}
	if d.hits == 0 || q.idle < d.least {
		d.least = q.idle
	}
	d.hits++
	d.server = c.Addr[capture.Server]
	d.evidence.add(q.question.Packet, c.Closed.Packet)
}

// Request charges what it waited for such a question: until the connection's end.
func (d *idleDrop) Request(r *attribution.Request) {
	for i := range r.Links {
		x := r.Links[i].Exchange
		if x.Answered() || !d.asked.has(x.Request.First.Packet) {
			continue
		}
		d.peers.name(x.Server(), r.Links[i].Peer)
		end := x.Conn.Last.Time
		if x.Conn.Closed.Seen() {
			end = x.Conn.Closed.Time
		}
		d.charge.add(within(r, x.Start(), end), 1)
	}
}

func (d *idleDrop) Findings(s Scene) []Finding {
	if d.hits == 0 {
		return nil
	}
	d.charge.failed = true
	whose, limit := "Azure's balancers", azureIdle
	if d.least >= awsIdle {
		whose, limit = "AWS's balancers and NAT gateways", awsIdle
	}
	return []Finding{{
		ID: d.ID(), Severity: d.charge.severity(s), Cost: d.charge.cost(s), Evidence: d.evidence.sorted(),
		Title: fmt.Sprintf("%s on connections to %s that had been idle for %.0f s or more got no answer: %s forget connections after %.0f s; %s.",
			count(d.hits, "request", "requests"), d.peers.of(d.server), d.least.Seconds(), whose, limit.Seconds(), d.charge.atCost(s)),
		Fix:       "Send TCP keepalives, or close idle connections, before the limit (keepalive time of 60 s; the pool's idle timeout below it).",
		Reference: "https://docs.aws.amazon.com/elasticloadbalancing/latest/network/update-idle-timeout.html and https://learn.microsoft.com/azure/load-balancer/load-balancer-tcp-reset",
	}}
}
