package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"
)

// Prediction is what ways to balance would make of a live service, found by simulating
// services that it may well be. The first arm is today's, which the others are compared
// with.
type Prediction struct {
	Service string `json:"service"`
	// Strategy is the arm that the prediction is about.
	Strategy string   `json:"strategy"`
	Observed Observed `json:"observed"`
	Assumed  Assumed  `json:"assumed"`
	// Calibration is how the model was fitted to today's latency; nil without it.
	Calibration *Calibration `json:"calibration,omitempty"`
	// Draws is how many services were simulated, each under every arm, RequestsPerRun with
	// how many requests, and Seed what repeats it.
	Draws          int                 `json:"draws"`
	RequestsPerRun int                 `json:"requests_per_run"`
	Seed           uint64              `json:"seed"`
	Arms           []PredictedArm      `json:"arms"`
	Endpoints      []PredictedEndpoint `json:"endpoints"`
	// Warnings are what a reader has to know before trusting the rest.
	Warnings []string `json:"warnings"`
}

// Observed is what the prediction rests on.
type Observed struct {
	From    time.Time `json:"from"`
	Until   time.Time `json:"until"`
	Windows int       `json:"windows"`
	WindowS float64   `json:"window_s"`
	// Evidence is what demands are computed from: "cpu", "in-flight" or "cpu-only".
	// With "cpu-only" nothing is known of requests, and so nothing of milliseconds.
	Evidence string `json:"evidence"`
	// RatePerS is the service's mean rate, the lowest and the highest of a window; nil if
	// it is not known.
	RatePerS *Estimate `json:"rate_per_s"`
}

// Assumed is what nothing that was measured tells.
type Assumed struct {
	// Policy is how proxies choose today.
	Policy string `json:"policy"`
	// Proxies is how many there are, ProxiesKnown whether somebody said so.
	Proxies      Estimate `json:"proxies"`
	ProxiesKnown bool     `json:"proxies_known"`
	// Sigma is the deviation of the logarithm of what requests cost.
	Sigma Estimate `json:"sigma"`
	// OverheadMS is what network and proxies add to every request.
	OverheadMS float64 `json:"overhead_ms"`
	// Idle is what each endpoint uses without requests, in cores; nil where its history tells.
	Idle *Estimate `json:"idle_cores,omitempty"`
}

// Estimate is a figure that is not known exactly: 90 of 100 such intervals hold it, as far
// as the model is right.
type Estimate struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// Calibration is the model beside today's latency. Sigma and the overhead were chosen for
// it; the rest is what came of that.
type Calibration struct {
	MeasuredP50  float64 `json:"measured_p50_ms"`
	MeasuredP99  float64 `json:"measured_p99_ms"`
	SimulatedP50 float64 `json:"simulated_p50_ms"`
	SimulatedP99 float64 `json:"simulated_p99_ms"`
	Sigma        float64 `json:"sigma"`
	OverheadMS   float64 `json:"overhead_ms"`
}

// PredictedArm is what one way to balance would give.
type PredictedArm struct {
	Name string `json:"name"`
	// Policy is how proxies choose.
	Policy string `json:"policy"`
	// Bound marks an arm that nobody can build: it says what is left to gain.
	Bound bool `json:"bound,omitempty"`
	// P50 and P99 are nil where nothing is known of milliseconds.
	P50 *Estimate `json:"p50_ms"`
	P99 *Estimate `json:"p99_ms"`
	CPU Estimate  `json:"cpu_cores"`
	// Against is the ratio to today, draw by draw; nil for today itself.
	Against *PredictedRatio `json:"against_today,omitempty"`
	// Saturated is the part of the draws, 0..1, in which an endpoint is asked for more than it has.
	Saturated float64 `json:"saturated"`
	// SettlesAfter is how many decisions it takes from equal weights, for an arm with a
	// control loop.
	SettlesAfter int `json:"settles_after_intervals,omitempty"`
}

// PredictedRatio compares an arm with today: below 1 is better.
type PredictedRatio struct {
	P50 Estimate `json:"p50"`
	P99 Estimate `json:"p99"`
	CPU Estimate `json:"cpu"`
}

// PredictedEndpoint is what was learnt of one endpoint. What is not known is nil.
type PredictedEndpoint struct {
	Address  string   `json:"address"`
	DemandMS *float64 `json:"demand_ms"`
	Idle     float64  `json:"idle_cores"`
	Capacity float64  `json:"capacity_cores"`
	// Utilization, 0..1 and above, and Requests, per second, are today's.
	Utilization *float64 `json:"utilization"`
	Requests    *float64 `json:"requests_per_s"`
	// Shares are the fractions of requests that weights would give, by arm.
	Shares map[string]float64 `json:"shares"`
	// Note says what is wrong with what is known of it.
	Note string `json:"note,omitempty"`
}

// WriteJSON writes the prediction as the contract has it.
func (p *Prediction) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(p)
}

// Relative tells whether times are unknown and only ratios can be told.
func (p *Prediction) Relative() bool { return len(p.Arms) > 0 && p.Arms[0].P99 == nil }

// About is the arm that the prediction is about; nil if there is none.
func (p *Prediction) About() *PredictedArm {
	for i := range p.Arms {
		if p.Arms[i].Name == p.Strategy && p.Arms[i].Against != nil {
			return &p.Arms[i]
		}
	}
	return nil
}

// Verdict answers in one sentence what the strategy would bring.
func (p *Prediction) Verdict() string {
	arm := p.About()
	if arm == nil {
		return "No prediction: there is no arm to compare with today."
	}
	if arm.Saturated > certain {
		return fmt.Sprintf("No prediction: with %s weights, too, endpoints are asked for more than they have: queues grow without bound.", arm.Name)
	}
	tail, cpu := arm.Against.P99.change("p99"), arm.Against.CPU.change("CPU")
	name := arm.Name + " weights would "
	switch {
	case tail.verb == "" && cpu.verb == "":
		return fmt.Sprintf("%schange nothing that can be told: %s, %s.", name, tail.phrase, cpu.phrase)
	case tail.verb == "":
		return fmt.Sprintf("%s%s %s; no change of %s can be told.", name, cpu.verb, cpu.phrase, tail.phrase)
	case cpu.verb == "":
		return fmt.Sprintf("%s%s %s; no change of %s can be told.", name, tail.verb, tail.phrase, cpu.phrase)
	case tail.verb == cpu.verb:
		return fmt.Sprintf("%s%s %s and %s.", name, tail.verb, tail.phrase, cpu.phrase)
	}
	return fmt.Sprintf("%s%s %s but %s %s.", name, tail.verb, tail.phrase, cpu.verb, cpu.phrase)
}

// certain is the part of the draws from which on something is taken for so.
const certain = 0.5

// worthTelling is the change below which nobody would call it one, however sure it is.
const worthTelling = 0.02

// Tells whether a ratio differs from 1, and which way that is.
func (e Estimate) Tells() Trend {
	switch {
	case !measured(e.Median) || !measured(e.Low) || !measured(e.High):
	case e.High < 1 && e.Median <= 1-worthTelling:
		return Better
	case e.Low > 1 && e.Median >= 1+worthTelling:
		return Worse
	}
	return Neutral
}

// change puts a ratio into words; the verb is empty where no change can be told.
func (e Estimate) change(name string) change {
	switch e.Tells() {
	case Better:
		return change{cut, fmt.Sprintf("%s by %s %% (%s to %s %%)", name, percent(1-e.Median), percent(1-e.High), percent(1-e.Low))}
	case Worse:
		return change{"raise", fmt.Sprintf("%s by %s %% (%s to %s %%)", name, percent(e.Median-1), percent(e.Low-1), percent(e.High-1))}
	}
	if !measured(e.Median) {
		return change{"", name + " (unknown)"}
	}
	return change{"", fmt.Sprintf("%s (%s to %s %%)", name, signed(e.Low-1), signed(e.High-1))}
}

// percent writes a part in whole per cent; what is not whole is not the whole of it.
func percent(part float64) string {
	if part < 1 {
		part = min(part, 0.99)
	}
	return fmt.Sprintf("%.0f", 100*part)
}

// signed is a relative change in per cent with its sign.
func signed(part float64) string {
	if rounded := math.Round(100 * part); rounded != 0 {
		return fmt.Sprintf("%+.0f", rounded)
	}
	return "0"
}

// Interval writes a figure with its interval.
func (e *Estimate) Interval() string {
	if e == nil {
		return Missing
	}
	digits := decimals(e.Median)
	return fmt.Sprintf("%s (%s–%s)", fixed(e.Median, digits), fixed(e.Low, digits), fixed(e.High, digits))
}

// Basis says in one line what the prediction rests on.
func (p *Prediction) Basis() string {
	o := p.Observed
	text := fmt.Sprintf("%s: %d endpoints", p.Service, len(p.Endpoints))
	if o.RatePerS != nil {
		text += ", " + o.RatePerS.Interval() + " requests/s"
	}
	return text + fmt.Sprintf(", %d windows of %s s until %s, by %s; %d services like it simulated",
		o.Windows, shortest(o.WindowS), o.Until.Format(time.RFC3339), o.Evidence, p.Draws)
}

// Assumptions says in sentences what nothing that was measured tells.
func (p *Prediction) Assumptions() []string {
	a := p.Assumed
	sentences := []string{fmt.Sprintf("%s proxies choose by %s", p.proxies(), a.Policy)}
	if c := p.Calibration; c != nil {
		sentences = append(sentences, fmt.Sprintf("costs are lognormal with sigma %s and every request takes %s ms beside them, which makes today's p50 %s ms and p99 %s ms; measured were %s and %s",
			a.Sigma.Interval(), Number(c.OverheadMS), Number(c.SimulatedP50), Number(c.SimulatedP99), Number(c.MeasuredP50), Number(c.MeasuredP99)))
	} else {
		sentences = append(sentences, fmt.Sprintf("costs are lognormal with sigma %s, and network and proxies take no time: today's p50 and p99 would tell", a.Sigma.Interval()))
	}
	if a.Idle != nil {
		sentences = append(sentences, fmt.Sprintf("each endpoint uses %s cores without requests: rates differ too little today to tell", a.Idle.Interval()))
	}
	return append(sentences,
		"endpoints share their cores between requests, which wait for nothing else",
		"weights are where the control loop comes to rest"+p.settling())
}

func (p *Prediction) proxies() string {
	if p.Assumed.ProxiesKnown {
		return shortest(p.Assumed.Proxies.Median)
	}
	return fmt.Sprintf("%.0f to %.0f (nobody said how many)", p.Assumed.Proxies.Low, p.Assumed.Proxies.High)
}

// settling says how long that takes.
func (p *Prediction) settling() string {
	arm := p.About()
	switch {
	case arm == nil || arm.SettlesAfter == 0:
		return ""
	case arm.SettlesAfter == 1:
		return ", after 1 decision"
	}
	return fmt.Sprintf(", after %d decisions", arm.SettlesAfter)
}
