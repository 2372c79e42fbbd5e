package sim

import "taper.dev/taper/internal/balance"

// Result is what was measured, from the end of the warm-up on.
type Result struct {
	// Seconds is for how long.
	Seconds float64
	// Requests came to an end, answered or not; Errors of them failed.
	Requests, Errors uint64
	// Latency is of the requests that were answered, from their arrival on, in seconds.
	Latency *Histogram
	Servers []ServerResult
	// Series is the run from its beginning, warm-up included, in steps of equal length.
	Series []Step
	// Decisions are the control loop's, from the beginning, without those that only follow
	// membership. Verdicts explain the last of them.
	Decisions []Decided
	Verdicts  []balance.Verdict
	// Left is how many requests had no end long after the measurement; they count in Latency
	// with the time that they had waited, and in Requests.
	Left uint64
	// Saturated are servers that were never without requests, as indices: where a queue grows
	// without bound, latencies tell how long was measured and little else.
	Saturated []int
}

// CPU is the use of all servers together, in cores.
func (r *Result) CPU() float64 {
	var sum float64
	for i := range r.Servers {
		sum += r.Servers[i].CPU
	}
	return sum
}

// ServerResult is what one server did.
type ServerResult struct {
	// Served is how many attempts it answered.
	Served uint64
	// CPU is its mean use, in cores, idling included.
	CPU float64
	// Latency is of the attempts that it answered, in seconds.
	Latency *Histogram
	// Weight is the last one that proxies had; 0 if it is not a member at the end.
	Weight uint32
}

// Step is a stretch of a run, [Result.Series].
type Step struct {
	// At is its beginning, in seconds since the run's.
	At               float64
	Requests, Errors uint64
	Latency          *Histogram
	// CPU is in cores, of all servers.
	CPU float64
	// InFlight is how many requests were under way at its end.
	InFlight int
}

// Decided is a decision of the control loop.
type Decided struct {
	At float64
	// Weights are by server; 0 for one that is not a member.
	Weights []uint32
	Hold    balance.Hold
}
