package trap

import (
	"fmt"
	"time"

	"taper.dev/taper/internal/capture"
)

// delayedACK is how long Linux delays an acknowledgement at least, 40 ms, less what the
// clocks of captures are off.
const delayedACK = 35 * time.Millisecond

// nagle sees writes in two small pieces: the second one waits until the first is
// acknowledged, and the receiver, having nothing to say, delays that.
type nagle struct{ stalls }

func newNagle() Rule { return &nagle{newStalls()} }

func (*nagle) ID() string { return "nagle-delayed-ack" }

func (n *nagle) Stall(s *capture.Stall) {
	if s.Kind == capture.StallDelayedACK && s.Duration() >= delayedACK {
		n.take(s, s.Sender)
	}
}

func (n *nagle) Findings(s Scene) []Finding {
	if !n.enough(s) {
		return nil
	}
	sender, times := n.worst()
	f := n.finding(n.ID(), s)
	f.Title = fmt.Sprintf("%d small segments waited %s on average for a delayed acknowledgement (%d of them sent by %s); %s.",
		n.n, span(mean(n.lost, n.n)), times, sender, n.charge.atCost(s))
	f.Fix = "Set TCP_NODELAY where this is sent, and write a message at once (headers and body together)."
	f.Reference = "https://www.rfc-editor.org/rfc/rfc1122#page-98"
	return []Finding{f}
}
