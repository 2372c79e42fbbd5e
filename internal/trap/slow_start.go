package trap

import (
	"fmt"

	"taper.dev/taper/internal/capture"
)

// slowStart sees connections that begin anew after idling: what they learnt of the path
// is forgotten, and the first answer goes out in bursts, a round trip apart.
type slowStart struct{ stalls }

func newSlowStart() Rule { return &slowStart{newStalls()} }

func (*slowStart) ID() string { return "slow-start-after-idle" }

func (w *slowStart) Stall(s *capture.Stall) {
	// Less idling than a retransmission timeout does not reset the window.
	if s.Kind == capture.StallSlowStart && s.Idle > leastRTO {
		w.take(s, s.Sender)
	}
}

func (w *slowStart) Findings(s Scene) []Finding {
	if !w.enough(s) {
		return nil
	}
	who, times := w.worst()
	f := w.finding(w.ID(), s)
	f.Title = fmt.Sprintf("Connections that had been idle began slowly again %s, losing %s on average (%s by %s); %s.",
		count(w.n, "time", "times"), span(mean(w.lost, w.n)), count(times, "time", "times"), who, w.charge.atCost(s))
	f.Fix = "Set net.ipv4.tcp_slow_start_after_idle=0 in the pod that sends (a sysctl of its securityContext)."
	f.Reference = "https://www.rfc-editor.org/rfc/rfc5681#section-4.1"
	return []Finding{f}
}
