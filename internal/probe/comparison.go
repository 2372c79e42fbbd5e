package probe

import "time"

// Comparison is what differs between two runs that were measured one after the other,
// such as before and after an upgrade. Its JSON form is a contract: names are only ever
// added.
type Comparison struct {
	Old   Run            `json:"old"`
	New   Run            `json:"new"`
	Tests []ComparedTest `json:"tests"`
	// Notes are what else a reader must know, each a sentence.
	Notes []string `json:"notes,omitempty"`
}

// Run says which run it is.
type Run struct {
	Name    string    `json:"name"`
	Started time.Time `json:"started"`
	From    string    `json:"from,omitempty"`
	To      string    `json:"to,omitempty"`
	// Incomplete says why the run ended before its time; empty for a whole one.
	Incomplete string `json:"incomplete,omitempty"`
}

// ComparedTest is one test on one path, in both runs.
type ComparedTest struct {
	Test         Test      `json:"name"`
	Direction    Direction `json:"direction,omitempty"`
	Path         string    `json:"path"`
	MessageBytes int       `json:"message_bytes,omitempty"`
	Streams      int       `json:"streams,omitempty"`
	Mode         Mode      `json:"mode,omitempty"`
	// Old and New are medians over trials, in the test's unit.
	Old float64 `json:"old"`
	New float64 `json:"new"`
	// OldTrials and NewTrials are how many there were.
	OldTrials int `json:"old_trials"`
	NewTrials int `json:"new_trials"`
	// Verdict is of the new run against the old one.
	Verdict Verdict `json:"verdict"`
}

// LowerIsBetter tells which way the test's figure improves: that of a latency falls.
func (t Test) LowerIsBetter() bool {
	return t == TCPLatency || t == UDPLatency || t == Connect
}
