package trap

import (
	"fmt"
	"time"

	"taper.dev/taper/internal/capture"
)

// closedWindow is longer than a reader that keeps up leaves its buffer full.
const closedWindow = 10 * time.Millisecond

// zeroWindow sees readers that do not read: their buffer is full, and the sender waits.
type zeroWindow struct{ stalls }

func newZeroWindow() Rule { return &zeroWindow{newStalls()} }

func (*zeroWindow) ID() string { return "zero-window" }

func (z *zeroWindow) Stall(s *capture.Stall) {
	if s.Kind == capture.StallZeroWindow && s.Duration() > closedWindow {
		z.take(s, s.Sender.Other())
	}
}

func (z *zeroWindow) Findings(s Scene) []Finding {
	if !z.enough(s) {
		return nil
	}
	reader, times := z.worst()
	f := z.finding(z.ID(), s)
	f.Title = fmt.Sprintf("A reader had no room %s, for %s on average and %s at most (%s %s); %s.",
		count(z.n, "time", "times"), span(mean(z.lost, z.n)), span(z.longest), count(times, "time", "times"), reader, z.charge.atCost(s))
	f.Fix = "Make the reader read sooner: give it CPU or threads, read in a loop of its own, ask for less at once; raise its receive buffer last."
	f.Reference = "https://www.rfc-editor.org/rfc/rfc9293#section-3.8.6"
	return []Finding{f}
}
