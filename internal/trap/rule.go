package trap

import (
	"time"

	"taper.dev/taper/internal/capture"
)

// Severity says how much a finding matters.
type Severity string

// Severities. A finding is high when it costs requests a tenth of their time or at least
// 10 ms each on average, or makes some of them fail or wait for a second; medium when it
// costs something that can be measured; low when it is a risk that the capture shows and
// that has cost nothing in it yet.
const (
	High   Severity = "high"
	Medium Severity = "medium"
	Low    Severity = "low"
)

// Finding is a trap that a capture shows.
type Finding struct {
	// ID is the rule's.
	ID       string
	Severity Severity
	// Title is one sentence, with the figures: what happens, how often, at what cost.
	Title string
	// Cost is what it costs a request on average, over all requests of the capture; zero
	// when there are no requests to charge, or nothing was lost.
	Cost time.Duration
	// Evidence are packets that show it, at most MaxEvidence, in order.
	Evidence []uint64
	// Fix is what to do, in the imperative.
	Fix string
	// Reference is where more is written: a URL, or a name and number in a tracker.
	Reference string
	// Confirmed says what given configuration confirms it; "" without.
	Confirmed string
}

// MaxEvidence bounds the packets that a finding names.
const MaxEvidence = 20

// Rule recognises one trap. The facts of a capture that it listens to are told to it as
// they become known, then Findings is called once. What it listens to is what it has a
// method for: Exchange, Stall, Conn, Request and Orphan, as [Rules] has them.
type Rule interface {
	// ID names the trap, as in docs/traps.md.
	ID() string
	Findings(Scene) []Finding
}

// Scene is what rules are told at the end.
type Scene struct {
	Stats capture.Stats
	// Requests counts the requests, and Time is the sum of their durations.
	Requests uint64
	Time     time.Duration
	Config   Config
}

// Config is configuration of the captured service that its user gave. Nil is not given.
type Config struct {
	Resolv *Resolv
	Pod    *Pod
	CPU    *CPUStat
}
