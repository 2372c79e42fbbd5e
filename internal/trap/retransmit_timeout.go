package trap

import (
	"fmt"
	"time"

	"taper.dev/taper/internal/capture"
)

// leastRTO is the least time after which Linux sends again by timer.
const leastRTO = 200 * time.Millisecond

// retransmitTimeout sees bytes that were sent again by timer, which waits for 200 ms at
// least, and twice as long each further time.
type retransmitTimeout struct{ stalls }

func newRetransmitTimeout() Rule { return &retransmitTimeout{newStalls()} }

func (*retransmitTimeout) ID() string { return "retransmit-timeout" }

func (t *retransmitTimeout) Stall(s *capture.Stall) {
	if s.Kind == capture.StallTimeout && s.Duration() >= leastRTO {
		t.take(s, s.Sender)
	}
}

func (t *retransmitTimeout) Findings(s Scene) []Finding {
	if !t.enough(s) {
		return nil
	}
	who, times := t.worst()
	f := t.finding(t.ID(), s)
	f.Title = fmt.Sprintf("TCP sent again by timer %s on %s, after %s on average and %s at most (%s by %s); %s.",
		count(t.n, "time", "times"), count(uint64(len(t.conns.rows)), "connection", "connections"), span(mean(t.lost, t.n)), span(t.longest),
		count(times, "time", "times"), who, t.charge.atCost(s))
	f.Fix = "Find what drops the packets between the two: interface and queue drops (ip -s link, tc -s qdisc), conntrack and network policy, an overloaded node."
	f.Reference = "https://www.rfc-editor.org/rfc/rfc6298"
	return []Finding{f}
}
