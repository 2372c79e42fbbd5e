package trap

import (
	"fmt"
	"time"

	"taper.dev/taper/internal/attribution"
)

const (
	// quotaPeriod is how long the kernel accounts CPU time against a limit before it
	// begins anew (cfs_period_us, which the kubelet leaves at 100 ms).
	quotaPeriod = 100 * time.Millisecond
	// leastGap is longer than most own work between two packets, mostGap as long as ten
	// periods without a packet.
	leastGap = 10 * time.Millisecond
	mostGap  = time.Second
	// fewGaps say nothing about a phase.
	fewGaps = 20
	// byChance is how seldom gaps without phase may be reported: in one capture of a
	// million.
	byChance = 1e-6
	// inPhase is the least concentration of ends: a large capture shows weak phases that
	// mean nothing. At 0.5 half of them lie within 17 ms of each other.
	inPhase = 0.5
	// drivenBy is the share of the ends' concentration from which on the gaps' beginnings
	// explain it: something else, such as a load generator, keeps the period.
	drivenBy = 0.7
	// throttledShare of the periods is enough for a cgroup's own count to say who it is.
	throttledShare = 0.01
)

// cpuThrottling sees that own work pauses until a period of the CPU quota begins: gaps
// without packets end in phase with it, while they begin at any time.
type cpuThrottling struct {
	ends, starts phases
	gaps         uint64
	charge       charge
	evidence     evidence
}

func newCPUThrottling() Rule {
	return &cpuThrottling{ends: phases{period: quotaPeriod}, starts: phases{period: quotaPeriod}}
}

func (*cpuThrottling) ID() string { return "cpu-throttling" }

func (c *cpuThrottling) Request(r *attribution.Request) {
	var lost time.Duration
	calls := 0
	for _, s := range r.Slices {
		gap := s.To.Sub(s.From)
		if s.Cause != attribution.Self || gap < leastGap || gap > mostGap {
			continue
		}
		c.gaps++
		lost += gap
		calls++
		c.starts.add(s.From)
		if c.ends.add(s.To) {
			// The gap shows no packet; those of the request do.
			c.evidence.add(r.Request.First.Packet, r.Response.Last.Packet)
		}
	}
	c.charge.add(lost, calls)
}

func (c *cpuThrottling) Findings(s Scene) []Finding {
	c.ends.end()
	c.starts.end()
	concentration := c.ends.concentration()
	if c.ends.moments < fewGaps || concentration < inPhase || c.ends.chance() > byChance {
		return nil
	}
	confirmed, denied := quota(s.Config)
	if denied || confirmed == "" && c.starts.concentration() >= drivenBy*concentration {
		return nil
	}
	// What is not in phase is own work.
	c.charge.lost = time.Duration(float64(c.charge.lost) * concentration)
	c.charge.longest = 0
	return []Finding{{
		ID: c.ID(), Severity: c.charge.severity(s), Cost: c.charge.cost(s), Evidence: c.evidence.sorted(),
		Title: fmt.Sprintf("%d pauses without packets end in phase with a period of %s (agreement %.2f of 1), as under a CPU limit; they cost a request up to %s on average.",
			c.gaps, span(quotaPeriod), concentration, span(c.charge.cost(s))),
		Fix:       "Raise the container's CPU limit or drop it (keep the request), and match the number of threads to it (GOMAXPROCS, -XX:ActiveProcessorCount).",
		Reference: "https://docs.kernel.org/scheduler/sched-bwc.html",
		Confirmed: confirmed,
	}}
}

// quota says what configuration knows of throttling: that there is some, or none.
func quota(c Config) (confirmed string, denied bool) {
	if c.CPU == nil || c.CPU.Periods == 0 {
		return "", c.Pod != nil && len(c.Pod.CPULimit) == 0
	}
	if c.CPU.Throttled == 0 {
		return "", true
	}
	share := float64(c.CPU.Throttled) / float64(c.CPU.Periods)
	if share < throttledShare {
		return "", false
	}
	return fmt.Sprintf("cpu.stat counts %d of %d periods as throttled (%.0f %%), for %s in all",
		c.CPU.Throttled, c.CPU.Periods, 100*share, span(c.CPU.ThrottledTime)), false
}
