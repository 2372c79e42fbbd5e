package policy

import (
	"math"
	"slices"
	"testing"

	"taper.dev/taper/internal/random"
	"taper.dev/taper/internal/sim"
)

// world is a [sim.World] whose state a test sets.
type world struct {
	now         float64
	inFlight    []int
	utilization []float64
	served      []float64
	expected    []float64
	agenda      []entry
}

type entry struct {
	at float64
	do func()
}

func newWorld(servers int) *world {
	w := &world{
		inFlight: make([]int, servers), utilization: make([]float64, servers),
		served: make([]float64, servers), expected: make([]float64, servers),
	}
	for i := range w.expected {
		w.expected[i] = 1
	}
	return w
}

func (w *world) Now() float64                   { return w.now }
func (w *world) InFlight(server int) int        { return w.inFlight[server] }
func (w *world) Utilization(server int) float64 { return w.utilization[server] }
func (w *world) Served(server int) float64      { return w.served[server] }
func (w *world) Expected(server int) float64    { return w.expected[server] }
func (w *world) Later(seconds float64, do func()) {
	at := w.now + seconds
	i, _ := slices.BinarySearchFunc(w.agenda, at, func(e entry, at float64) int {
		if e.at <= at {
			return -1
		}
		return 1
	})
	w.agenda = slices.Insert(w.agenda, i, entry{at, do})
}

// pass lets time pass and what is due happen, in its order.
func (w *world) pass(seconds float64) {
	until := w.now + seconds
	for len(w.agenda) > 0 && w.agenda[0].at <= until {
		due := w.agenda[0]
		w.agenda = w.agenda[1:]
		w.now = due.at
		due.do()
	}
	w.now = until
}

// setting has a fixed seed.
func (w *world) setting(proxies int) sim.Setting {
	return sim.Setting{Proxies: proxies, Servers: len(w.inFlight), World: w, Random: random.New(1)}
}

// upTo is 0 … n-1.
func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// same is n times a weight.
func same(n int, weight uint32) []uint32 { return slices.Repeat([]uint32{weight}, n) }

// frequencies lets a proxy pick so often, each request being answered at once.
func frequencies(p sim.Policy, servers, picks int) []int {
	counts := make([]int, servers)
	for range picks {
		e := p.Pick(0)
		counts[e]++
		p.Done(0, e, sim.Answer{})
	}
	return counts
}

// likely fails unless counts fit probabilities: each within 5 standard deviations of the
// binomial distribution, which happens to none of a million that are right.
func likely(t *testing.T, counts []int, probabilities ...float64) {
	t.Helper()
	var n float64
	for _, c := range counts {
		n += float64(c)
	}
	for i, p := range probabilities {
		if bound := 5*math.Sqrt(n*p*(1-p)) + 1; math.Abs(float64(counts[i])-n*p) > bound {
			t.Errorf("endpoint %d was picked %d times of %.0f, want %.0f ± %.0f", i, counts[i], n, n*p, bound)
		}
	}
}
