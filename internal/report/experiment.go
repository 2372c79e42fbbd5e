// Package report holds the results that taper shows to people and machines.
// [Experiment] is what a balancing experiment measured; its JSON form is a
// contract: names are only ever added. The children draw it: text for a
// terminal, html for a page that opens without a network.
package report

import (
	"encoding/json"
	"io"
	"time"
)

// Experiment is the result of comparing ways to balance one service.
// The first arm is the one that the others are compared with.
type Experiment struct {
	// Scenario is "fibonacci" for the lab, the file's name for a simulation.
	Scenario string    `json:"scenario"`
	Started  time.Time `json:"started"`
	Settings Settings  `json:"settings"`
	Arms     []Arm     `json:"arms"`
	// Ratios compares each arm with the first, keyed "ARM/FIRST": the median over
	// rounds of the ratio within a round.
	Ratios map[string]Ratio `json:"ratios"`
	// Disturbance is set when an endpoint's demand was changed on purpose.
	Disturbance *Disturbance `json:"disturbance,omitempty"`
	// Simulation is set when nothing of it was measured, but all computed.
	Simulation *Simulation `json:"simulation,omitempty"`
}

// Settings say what was run, so that it can be run again.
type Settings struct {
	// EndpointKind is "emulated" or "nginx", or "simulated".
	EndpointKind string `json:"endpoint_kind"`
	Store        string `json:"store"`
	Proxies      int    `json:"proxies"`
	// RatePerS is the load on all proxies together; of a simulation the mean while measured.
	RatePerS float64 `json:"rate_per_s"`
	Rounds   int     `json:"rounds"`
	// MeasureS is how long each arm is measured in each round, after it has settled.
	MeasureS  float64 `json:"measure_s"`
	IntervalS float64 `json:"interval_s"`
	Seed      uint64  `json:"seed"`
	// ProxyVersion is what the proxy says of itself.
	ProxyVersion string `json:"proxy_version"`
}

// Arm is one way to balance and what came of it: medians over rounds, counts
// summed over rounds.
type Arm struct {
	Name string `json:"name"`
	// Bound marks an arm that knows what no proxy can know: what it reaches shows what is
	// left to gain, and is no choice.
	Bound    bool    `json:"bound,omitempty"`
	Requests uint64  `json:"requests"`
	Errors   uint64  `json:"errors"`
	P50      float64 `json:"p50_ms"`
	P90      float64 `json:"p90_ms"`
	P95      float64 `json:"p95_ms"`
	P99      float64 `json:"p99_ms"`
	P999     float64 `json:"p999_ms"`
	// CPU is the sum over all endpoints, in cores.
	CPU float64 `json:"cpu_cores"`
	Simulated
	// Rounds holds each round on its own: the spread behind the medians.
	Rounds    []Round    `json:"rounds"`
	Endpoints []Endpoint `json:"endpoints"`
	// Kinds takes together endpoints that are alike; of a simulation.
	Kinds []Kind `json:"kinds,omitempty"`
	// Percentiles is the whole latency curve over all rounds, rising in quantile.
	Percentiles []Percentile `json:"percentiles"`
	// Weights is what was decided over the time in which this arm's control loop
	// ran, oldest first; empty for an arm without one.
	Weights []WeightsAt `json:"weights,omitempty"`
	// SettledAfter is the number of control intervals after which the shares
	// stayed where they ended; nil for an arm without a control loop, or when
	// they did not settle.
	SettledAfter *int `json:"settled_after_intervals,omitempty"`
	// Series is how the arm's run went from its beginning on, warm-up included, in steps of
	// equal length; of a simulation.
	Series []Step `json:"series,omitempty"`
}

// Round is what one arm measured in one round.
type Round struct {
	Requests uint64  `json:"requests"`
	Errors   uint64  `json:"errors"`
	P50      float64 `json:"p50_ms"`
	P90      float64 `json:"p90_ms"`
	P95      float64 `json:"p95_ms"`
	P99      float64 `json:"p99_ms"`
	P999     float64 `json:"p999_ms"`
	CPU      float64 `json:"cpu_cores"`
	Simulated
}

// Endpoint is what one endpoint did in one arm, while it was measured.
type Endpoint struct {
	Address string `json:"address"`
	// Demand is what the scenario makes of this endpoint, such as "fib(27)".
	Demand   string  `json:"demand,omitempty"`
	Requests float64 `json:"requests_per_s"`
	CPU      float64 `json:"cpu_cores"`
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	// Weight is the last one decided.
	Weight uint32 `json:"weight"`
	// Why says in words how the last share came about.
	Why string `json:"why,omitempty"`
}

// Percentile is one point of a latency curve.
type Percentile struct {
	// Quantile is in 0..1.
	Quantile float64 `json:"quantile"`
	Latency  float64 `json:"latency_ms"`
}

// WeightsAt is one decision.
type WeightsAt struct {
	// At counts seconds in which this arm's control loop ran.
	At float64 `json:"at_s"`
	// Shares has one fraction per endpoint, in the order of [Arm.Endpoints]. A simulation
	// leaves it empty where that would be more than [MaxShares] in all.
	Shares []float64 `json:"shares"`
	// KindShares has one fraction per kind, in the order of [Arm.Kinds].
	KindShares []float64 `json:"kind_shares,omitempty"`
	// Held names the guard that kept the weights, if one did.
	Held string `json:"held,omitempty"`
}

// Ratio compares an arm with the first: below 1 is better.
type Ratio struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	CPU float64 `json:"cpu"`
}

// Disturbance is a change made on purpose while the loops ran.
type Disturbance struct {
	Address string `json:"address"`
	// Factor is what the endpoint's demand was multiplied by.
	Factor float64 `json:"factor"`
	// SettledAfter is, per arm with a control loop, the number of intervals after
	// the change until the shares stayed where they ended; -1 when they did not.
	SettledAfter map[string]int `json:"settled_after_intervals"`
}

// WriteJSON writes the experiment as the contract has it.
func (e *Experiment) WriteJSON(w io.Writer) error { return writeJSON(w, e) }

func writeJSON(w io.Writer, result any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(result)
}
