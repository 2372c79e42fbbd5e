package measure

import (
	"fmt"
	"slices"
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/verdict"
)

// conditions are those under which a path's figures hold.
func (r *run) conditions(m *measured) probe.Conditions {
	c := probe.Conditions{Near: m.Near, Far: m.Far, Notes: slices.Clone(m.Notes)}
	c.MTU = m.mtu()
	for _, over := range []transport{tcp, udp} {
		if why := m.lost[over]; why != "" && m.gone == "" {
			c.Notes = append(c.Notes, fmt.Sprintf("Tests over %s were %s.", over, why))
		}
	}
	r.noiseFloor(&c)
	m.shaping(&c)
	var step time.Duration
	for _, u := range m.usage {
		c.NearCPUs, c.FarCPUs = append(c.NearCPUs, u.near...), append(c.FarCPUs, u.far...)
		if u.throttled != nil {
			if c.ThrottledS == nil {
				c.ThrottledS = new(float64)
			}
			*c.ThrottledS += u.throttled.Seconds()
		}
		if u.clockStep.Abs() > step.Abs() {
			step = u.clockStep
		}
	}
	c.NearCPUs, c.FarCPUs = distinct(c.NearCPUs), distinct(c.FarCPUs)
	if c.ThrottledS != nil && *c.ThrottledS > 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("A CPU limit stopped one of the ends for %.2g s in all: figures are those of the limit, not of the network.", *c.ThrottledS))
	}
	if step != 0 {
		c.Notes = append(c.Notes, fmt.Sprintf("The time of day jumped by %v meanwhile. Figures are from a clock that does not jump; the times beside them may be wrong.", step))
	}
	return c
}

func distinct(cpus []int) []int {
	slices.Sort(cpus)
	return slices.Compact(cpus)
}

// mtu is the path's, as found, or as the kernel believes.
func (m *measured) mtu() int {
	believed := 0
	for _, rec := range m.records {
		if p := rec.pathMTU; p != nil {
			if p.Out > 0 {
				return p.Out
			}
			believed = p.Believed
		}
		for _, i := range rec.infos {
			believed = max(believed, int(i.PMTU))
		}
	}
	return believed
}

// noiseFloor is by how much the first path differs from itself.
func (r *run) noiseFloor(c *probe.Conditions) {
	for _, rec := range r.paths[0].records {
		goal := r.goal(rec.spec.Test)
		one, two := rec.figures, rec.again
		if len(r.paths) == 1 {
			one, two = alternate(one)
		}
		switch itself := verdict.Compare(one, two, two, goal); {
		case rec.spec.Test == probe.TCPLatency && c.NoiseFloorUS == nil && itself.Difference.Floor > 0:
			c.NoiseFloorUS = &itself.Difference.Floor
		case rec.spec.Test == probe.TCPBandwidth && c.NoiseFloorShare == nil && itself.Ratio.Floor > 1:
			share := itself.Ratio.Floor - 1
			c.NoiseFloorShare = &share
		}
	}
}

// alternate deals a path's trials to two hands.
func alternate(figures []float64) (even, odd []float64) {
	for i, f := range figures {
		if i%2 == 0 {
			even = append(even, f)
		} else {
			odd = append(odd, f)
		}
	}
	return even, odd
}
