package balance

import (
	"fmt"
	"strings"
	"time"

	"taper.dev/taper/internal/model"
)

// Verdict says what one endpoint was given and what that rests on.
type Verdict struct {
	Address string
	Weight  uint32
	// Share follows from the weights; Proposed is what the strategy wants, apart
	// from how fast it may be reached and from any hold; 0 when it was not asked.
	Share, Proposed float64
	// Evidence is what the demand was learnt from.
	Evidence Evidence
	// Demand is in CPU-seconds per request, with [FromCPUOnly] in cores for all of the
	// service's requests; 0 when unknown.
	Demand float64
	// Idle is the CPU used without requests, in cores.
	Idle float64
	// Capacity is in cores, idle load included: as configured, or as its latency tells, where
	// Configured differs.
	Capacity, Configured float64
	// Utilization is what Share will make of the endpoint, 0..1 and above; 0 when
	// the demand is unknown.
	Utilization float64
	// Age is that of the newest sample; negative when there never was one.
	Age    time.Duration
	Reason Reason
}

func (s *state) verdicts(weights model.Weights) []Verdict {
	var total float64
	for _, w := range weights {
		total += float64(w)
	}
	verdicts := make([]Verdict, len(s.members))
	for i := range s.members {
		m := &s.members[i]
		w := weights[m.Address]
		v := &verdicts[i]
		*v = Verdict{
			Address: m.Address, Weight: w, Share: float64(w) / total, Proposed: m.target,
			Evidence: s.memory.Evidence, Demand: m.demand, Idle: m.idle, Capacity: m.cores, Configured: m.configured, Age: m.age, Reason: m.reason,
		}
		if m.demand > 0 {
			v.Utilization = (v.Share*s.load*m.demand + m.idle) / v.Capacity
		}
		if v.Reason == "" { // the strategy was not asked
			v.Reason = HeldWithDecision
			if m.lacking != "" {
				v.Reason = m.lacking
			}
		}
	}
	return verdicts
}

// Why tells in a sentence how the share came about.
func (v Verdict) Why() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%.2f %% of requests", 100*v.Share)
	if v.Demand > 0 {
		if v.Evidence == FromCPUOnly {
			fmt.Fprintf(&b, ": all requests would cost %.3g cores here", v.Demand)
		} else {
			fmt.Fprintf(&b, ": a request costs %.3g ms of CPU", 1000*v.Demand)
		}
		if v.Idle > 0 {
			fmt.Fprintf(&b, " above %.3g cores idle", v.Idle)
		}
		fmt.Fprintf(&b, ", which uses %.0f %% of %.3g cores", 100*v.Utilization, v.Capacity)
		if v.Capacity != v.Configured {
			fmt.Fprintf(&b, " by its latency (of %.3g configured)", v.Configured)
		}
	} else {
		b.WriteString(": what a request costs here is not known yet")
	}
	if text, ok := reasonText[v.Reason]; ok {
		b.WriteString("; " + text)
		if v.Proposed > 0 && (v.Reason == StepLimit || v.Reason == Warming) {
			fmt.Fprintf(&b, " %.2f %%", 100*v.Proposed)
		}
	}
	return b.String()
}

var reasonText = map[Reason]string{
	AtUtilization:    "more would pass the utilization limit",
	AtMinShare:       "kept at the minimum share, to stay warm and measured",
	AtMaxShare:       "at the maximum share",
	StepLimit:        "growing in steps towards",
	Warming:          "new, ramping up towards",
	Missing:          "its metrics are missing, so its share is left alone",
	Invalid:          "its metrics are not valid numbers, so its share is left alone",
	StaleSample:      "its newest sample is too old, so its share is left alone",
	Overloaded:       "the load passes the utilization limit everywhere and is spread by capacity",
	HeldWithDecision: "held with the whole decision",
	Released:         "stepping back to equal weights",
}
