package matrix

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/verdict"
)

// place is where a cell is in the matrix.
type place struct {
	from, to int
	path     probe.Path
}

// cell is what the visits of a pair gave on one path. A visit's figure is the median of its
// trials.
type cell struct {
	bandwidth []float64        // bytes per second, one for each visit
	rtt       []float64        // microseconds
	latency   []*probe.Latency // as rtt
	problems  map[probe.Test]string
}

// of are the figures of a test.
func (c *cell) of(t probe.Test) []float64 {
	if t == probe.TCPBandwidth {
		return c.bandwidth
	}
	return c.rtt
}

// shareOf is what a share of the native path is about.
type shareOf struct {
	path probe.Path
	test probe.Test
	pair verdict.Pair
}

// keep takes in what a visit gave.
func (r *run) keep(v visit, attempts []*attempt) {
	native := map[probe.Test]float64{}
	for _, a := range attempts {
		if len(a.figures) == 0 && a.problem == "" {
			continue // it was interrupted, or never begun
		}
		at := place{v.from, a.to, a.path}
		c := r.cells[at]
		if c == nil {
			c = &cell{problems: map[probe.Test]string{}}
			r.cells[at] = c
		}
		if a.problem != "" {
			c.problems[a.spec.Test] = a.problem
		}
		location, ok := verdict.Estimate(a.figures)
		if !ok {
			continue
		}
		if a.spec.Test == probe.TCPBandwidth {
			c.bandwidth = append(c.bandwidth, location.Median)
		} else {
			c.rtt = append(c.rtt, location.Median)
			c.latency = append(c.latency, a.rtt.Summary())
		}
		if a.path == r.native {
			native[a.spec.Test] = location.Median // it is the first in the list
		} else if n, ok := native[a.spec.Test]; ok && a.to == v.to {
			s := shareOf{a.path, a.spec.Test, verdict.Pair{From: v.from, To: v.to}}
			r.shares[s] = append(r.shares[s], location.Median/n)
		}
	}
}

// medianOf is of figures of which there is one at least.
func medianOf(figures []float64) float64 {
	location, _ := verdict.Estimate(figures)
	return location.Median
}

// result tells what was measured. It is an error if there is nothing to tell.
func (r *run) result(ctx context.Context) (*probe.Matrix, error) {
	m := &probe.Matrix{Started: r.started, Notes: append(r.notes, r.partial()...), Native: r.compared(), Cells: r.table()}
	if !slices.ContainsFunc(m.Cells, func(c probe.Cell) bool { return c.BytesPerS > 0 || c.RTT != nil }) {
		return nil, r.nothing(ctx, m.Cells)
	}
	for _, w := range r.rows {
		a := probe.Agent{Name: w.Name, Block: w.Block, Addresses: w.Addresses, Problem: w.problem()}
		if a.Addresses == nil {
			a.Addresses = map[probe.Path]string{}
		}
		m.Agents = append(m.Agents, a)
	}
	r.price(m)
	m.Outliers = r.outliers()
	switch {
	case ctx.Err() != nil:
		m.Incomplete = "interrupted"
	case !r.enough():
		m.Incomplete = "fewer than two agents are left"
	}
	return m, nil
}

// nothing is why there is not one figure.
func (r *run) nothing(ctx context.Context, cells []probe.Cell) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !r.enough() {
		return r.tooFew()
	}
	for _, c := range cells {
		if c.Problem != "" {
			return fmt.Errorf("no pair could be measured; %s→%s on the %s path: %s", c.From, c.To, c.Path, c.Problem)
		}
	}
	return errors.New("no pair could be measured: no two agents have addresses on the same path")
}

// places are those of all cells, in order.
func (r *run) places() []place {
	return slices.SortedFunc(maps.Keys(r.cells), func(a, b place) int {
		return cmp.Or(a.from-b.from, a.to-b.to, slices.Index(measuredPaths, a.path)-slices.Index(measuredPaths, b.path))
	})
}

func (r *run) table() []probe.Cell {
	cells := []probe.Cell{}
	for _, at := range r.places() {
		c := r.cells[at]
		told := probe.Cell{From: r.rows[at.from].Name, To: r.rows[at.to].Name, Path: at.path}
		if len(c.bandwidth) > 0 {
			told.BytesPerS = medianOf(c.bandwidth)
		}
		if len(c.rtt) > 0 {
			told.RTT = c.typical()
		}
		for _, m := range metrics {
			if len(c.of(m.test)) == 0 && told.Problem == "" {
				told.Problem = c.problems[m.test]
			}
		}
		cells = append(cells, told)
	}
	return cells
}

// typical is the latency of that visit whose figure is the median; of two, the lower.
func (c *cell) typical() *probe.Latency {
	sorted := slices.Sorted(slices.Values(c.rtt))
	return c.latency[slices.Index(c.rtt, sorted[(len(sorted)-1)/2])]
}

// compared is what each path gives of the native one, which is the first: the median over
// pairs of the median over visits. There is nothing to tell with one path.
func (r *run) compared() []probe.Share {
	list := []probe.Share{{Path: r.native, Bandwidth: 1, RTT: 1}}
	for _, path := range measuredPaths {
		var bandwidth, rtt []float64
		for s, ratios := range r.shares {
			switch {
			case s.path != path:
			case s.test == probe.TCPBandwidth:
				bandwidth = append(bandwidth, medianOf(ratios))
			default:
				rtt = append(rtt, medianOf(ratios))
			}
		}
		if pairs := max(len(bandwidth), len(rtt)); pairs > 0 {
			list = append(list, probe.Share{Path: path, Bandwidth: medianOf(bandwidth), RTT: medianOf(rtt), Pairs: pairs})
			list[0].Pairs = max(list[0].Pairs, pairs)
		}
	}
	if len(list) == 1 {
		return nil
	}
	return list
}
