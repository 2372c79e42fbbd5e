package attribution

import (
	"math"
	"testing"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/random"
)

// seven calls of a knot, in ms.
var seven = []capture.Time{4, 6, 8, 10, 11, 13, 20}

// knot is a busy period of three requests that overlap, one of which has a call in any
// case, and calls of two kinds, with a model that has seen a few requests.
func knot(calls []capture.Time) (*sampler, *period) {
	m := newModel()
	w := m.walks[m.route(Route{})]
	p := &period{}
	for i := range 3 {
		start := t0 + ms*[]capture.Time{0, 3, 7}[i]
		p.requests = append(p.requests, &request{start: start, ready: start, end: start + 25*ms, answer: start + 25*ms})
	}
	for i, at := range calls {
		u := &unit{start: t0 + at*ms, end: t0 + at*ms + 2*ms + at*ms/10, template: int32(i / 2 % 2), order: int32(2 * i)}
		for _, r := range p.requests {
			if r.start <= u.start {
				u.candidates = append(u.candidates, r)
			}
		}
		w.place(u.template)
		u.counts = make([]float32, len(u.candidates)+1)
		p.units = append(p.units, u)
		u.enter(u.candidates[i%len(u.candidates)])
	}
	(&unit{start: t0 + 9*ms, end: t0 + 10*ms, template: 1, order: 5, certain: true}).enter(p.requests[1])
	s := &sampler{Source: random.New(0), model: m, tangled: p.units, touch: p.requests, walks: m.walks, all: p.requests, open: p.units, beta: 1}
	m.now = exposure{busy: 1e9, idle: 1e9, within: make([]float64, 2), without: []float64{20, 2}}
	s.learn(0.02) // little, so that much is possible
	return s, p
}

// tryAll calls back with the logarithm of the likelihood of every way to link the units.
func (s *sampler) tryAll(units []*unit, requests []*request, strays float64, each func(float64)) {
	if len(units) == 0 {
		for _, r := range requests {
			strays += s.model.walks[r.route].score(r, r.units)
		}
		each(strays)
		return
	}
	u := units[0]
	u.leave()
	s.tryAll(units[1:], requests, strays+float64(s.rate[u.template]), each)
	for _, r := range u.candidates {
		u.enter(r)
		s.tryAll(units[1:], requests, strays, each)
		u.leave()
	}
}

// exact are the probabilities of each unit's candidates, the last one none, from all ways.
func (s *sampler) exact(p *period) [][]float64 {
	most, sum := math.Inf(-1), 0.0
	s.tryAll(p.units, p.requests, 0, func(l float64) { most = max(most, l) })
	shares := make([][]float64, len(p.units))
	for i, u := range p.units {
		shares[i] = make([]float64, len(u.candidates)+1)
	}
	s.tryAll(p.units, p.requests, 0, func(l float64) {
		weight := math.Exp(l - most)
		sum += weight
		for i, u := range p.units {
			shares[i][u.candidate(u.parent)] += weight
		}
	})
	for _, of := range shares {
		for k := range of {
			of[k] /= sum
		}
	}
	return shares
}

// A small busy period is linked in the most likely way, with the probabilities that all
// ways together give.
func TestSmallPeriod(t *testing.T) {
	t.Parallel()
	s, p := knot(seven)
	want := s.exact(p)
	s.decide(p)
	for i, u := range p.units {
		if p := min(mostProbable, want[i][u.candidate(u.parent)]); math.Abs(u.probability-p) > 1e-6 {
			t.Errorf("unit %d: probability %.7f, of all ways %.7f", i, u.probability, p)
		}
	}
	const all = 3 * 3 * 4 * 4 * 4 * 4 * 4
	if ways := len(s.solver.ways); ways < 1000 || ways == all {
		t.Errorf("%d ways of %d were weighed, want many, but not those that hardly can be", ways, all)
	}
	for _, r := range p.requests {
		if r.samples != 1 || r.childless < 0 || r.childless > 1 {
			t.Errorf("without calls in %g of %g samples", r.childless, r.samples)
		}
	}
}

// Where too many ways are left, samples say which links are right.
func TestWidePeriod(t *testing.T) {
	t.Parallel()
	s, p := knot([]capture.Time{4, 5, 6, 8, 9, 10, 11, 13, 14, 15, 20, 21})
	if !p.small() {
		t.Fatal("a knot of 12 calls is not tried at all")
	}
	s.small = []*period{p}
	s.decideSmall()
	if s.solver.tries <= maxTries || len(s.tangled) != len(p.units) {
		t.Fatalf("%d tries, %d units were sampled, want all", s.solver.tries, len(s.tangled))
	}
	for i, u := range p.units {
		if u.probability <= 0 || u.probability > mostProbable {
			t.Errorf("unit %d: probability %g", i, u.probability)
		}
	}
	for _, r := range p.requests {
		if r.samples != beginnings*samples {
			t.Errorf("%g samples, want %d", r.samples, beginnings*samples)
		}
	}
}

// Chains and exchanges come to the probabilities that all ways together give.
func TestSamplesAreFair(t *testing.T) {
	t.Parallel()
	s, p := knot(seven)
	want := s.exact(p)
	for i, u := range p.units {
		u.enter(u.candidates[i%len(u.candidates)])
	}
	s.conclude()
	const n = 20_000
	for range n {
		s.sweep()
		s.record()
	}
	unsure := 0
	for i, u := range p.units {
		for k, p := range want[i] {
			if p > 0.05 && p < 0.95 {
				unsure++
			}
			if got := float64(u.counts[k]) / n; math.Abs(got-p) > 0.015 {
				t.Errorf("unit %d, candidate %d: %.4f of the samples, want %.4f", i, k, got, p)
			}
		}
	}
	if unsure < 5 {
		t.Errorf("%d links are in doubt: the test says little", unsure)
	}
}
