package page

import (
	"fmt"
	"time"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/operator/journal"
)

// Levels say how much a state wants to be looked at.
const (
	good = "good"
	calm = "calm" // nothing moves, as it should be
	warn = "warn"
	bad  = "bad"
)

// state is how a policy fares, in words.
type state struct {
	Word  string `json:"word"`
	Level string `json:"level"`
	// Reason is one CamelCase word, empty when there is nothing to explain.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// overdueIntervals is how many intervals may pass without a decision.
const overdueIntervals = 3

// stateOf puts the first of what is wrong first. Held and released policies are
// told from those that keep their weights because nothing better is to be had.
func stateOf(e *journal.Entry, now time.Time) state {
	if c := e.Conditions["Ready"]; c.Status == "False" {
		return state{"refused", bad, c.Reason, c.Message}
	}
	if c := e.Conditions["Applied"]; c.Status == "False" && e.Mode == "Enforce" {
		return state{"not applied", bad, c.Reason, c.Message}
	}
	if e.At.IsZero() {
		return state{"waiting", calm, "", "nothing was decided yet"}
	}
	held := e.Held()
	if silence := now.Sub(e.DecidedAt); held.Reason != journal.Suspended && !e.DecidedAt.IsZero() && e.Interval > 0 && silence > overdueIntervals*e.Interval {
		return state{"overdue", bad, "", fmt.Sprintf("nothing was decided for %s; the interval is %s", silence.Round(time.Second), e.Interval)}
	}
	word, level := wordOf(held.Reason, e.Mode)
	if held.Reason == "" {
		held.Message = "the last decision moved weights"
	}
	return state{word, level, string(held.Reason), held.Message}
}

// wordOf names what a hold does to weights.
func wordOf(hold balance.Reason, mode string) (word, level string) {
	switch hold {
	case "", balance.DeadBand, balance.NoNews, balance.MembershipOnly:
		if mode == "Enforce" {
			return "balancing", good
		}
		return "recommending", good
	case balance.NoEndpoints, balance.SingleEndpoint, balance.Idle, journal.Suspended, journal.Starting:
		return "held", calm
	case balance.Released, balance.RailBreached:
		return "released", bad
	}
	return "held", warn
}

// doubtful tells the reasons of endpoints that are not measured as they should be,
// or have more to do than they can.
func doubtful(r balance.Reason) bool {
	switch r {
	case balance.Missing, balance.Invalid, balance.StaleSample, balance.Overloaded:
		return true
	}
	return false
}
