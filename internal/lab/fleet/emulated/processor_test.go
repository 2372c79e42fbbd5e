package emulated

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// arrival is a job of a test's schedule.
type arrival struct{ at, demand float64 }

// TestSchedule compares with schedules computed by hand.
func TestSchedule(t *testing.T) {
	tests := []struct {
		name     string
		cores    float64
		arrivals []arrival
		leaves   []float64
		used     float64
	}{
		{"alone", 2, []arrival{{at: 1, demand: 3}}, []float64{4}, 3},
		{"two jobs have a core each", 2, []arrival{{0, 2}, {1, 4}}, []float64{2, 5}, 6},
		{"two jobs share one core", 1, []arrival{{0, 2}, {0, 2}}, []float64{4, 4}, 4},
		{"a short job delays a long one by its own length", 1, []arrival{{0, 10}, {2, 1}}, []float64{11, 4}, 11},
		// 0..1: one job at rate 1. 1..7: three jobs at 2/3, which serves the last
		// one's 4 and brings the first to 5. 7..8: two jobs at rate 1.
		{"three jobs share two cores", 2, []arrival{{0, 6}, {1, 5}, {1, 4}}, []float64{8, 8, 7}, 15},
		{"half a core", 0.5, []arrival{{0, 1}, {1, 1}}, []float64{3, 4}, 2},
		{"idle in between", 1, []arrival{{0, 1}, {5, 1}}, []float64{1, 6}, 2},
		{"no demand at all", 1, []arrival{{1, 0}}, []float64{1}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// Stepping finely must not change the schedule: it is exact either way.
			for _, step := range []float64{100, 0.3} {
				leaves, used := replay(tt.cores, tt.arrivals, step)
				if diff := cmp.Diff(tt.leaves, leaves, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
					t.Errorf("departures with step %v (-want +got):\n%s", step, diff)
				}
				if math.Abs(used-tt.used) > 1e-9 {
					t.Errorf("CPU time with step %v: %v, want %v", step, used, tt.used)
				}
			}
		})
	}
}

// replay runs the arrivals for 100 seconds and returns when each left. It stops
// at every departure and arrival, and at least once per step.
func replay(cores float64, arrivals []arrival, step float64) (leaves []float64, used float64) {
	p := &processor{cores: cores}
	admitted := make([]*job, len(arrivals))
	leaves = make([]float64, len(arrivals))
	for i := range leaves {
		leaves[i] = math.Inf(1)
	}
	for now := 0.0; now < 100; {
		for _, j := range p.advance(now) {
			for i := range admitted {
				if admitted[i] == j {
					leaves[i] = now
				}
			}
		}
		then := now + step
		for i, a := range arrivals {
			if admitted[i] == nil && a.at <= now {
				admitted[i] = &job{}
				p.add(admitted[i], a.demand)
			}
			if a.at > now {
				then = min(then, a.at)
			}
		}
		if at, some := p.next(); some {
			then = min(then, at)
		}
		now = then
	}
	return leaves, p.used
}

// TestLateAdvance lets the processor wake long after several departures: they
// come in order, and each made room for the others when it was due.
func TestLateAdvance(t *testing.T) {
	p := &processor{cores: 1}
	long, short := &job{}, &job{}
	p.add(long, 3)
	p.add(short, 1)

	served := p.advance(50)
	if len(served) != 2 || served[0] != short || served[1] != long {
		t.Fatalf("served %v, want the short job, then the long one", served)
	}
	if p.used != 4 {
		t.Errorf("used %v CPU-seconds, want 4", p.used)
	}
	if at, some := p.next(); some {
		t.Errorf("next departure at %v on an idle processor", at)
	}
	if p.attained != 0 {
		t.Errorf("an idle processor keeps an attained service of %v s, which costs precision later", p.attained)
	}
}

// TestUsedIsContinuous reads the CPU time in the middle of a job.
func TestUsedIsContinuous(t *testing.T) {
	p := &processor{cores: 2}
	for range 4 {
		p.add(&job{}, 10)
	}
	p.advance(0.25)
	if p.used != 0.5 {
		t.Errorf("used %v CPU-seconds, want 0.5: two cores for 0.25 s", p.used)
	}
}

// TestMeanResponse compares simulated queues with queueing theory. With Poisson
// arrivals, processor sharing has the mean response of M/M/c for every
// distribution of demand: D/(1-ρ) on one core.
func TestMeanResponse(t *testing.T) {
	const mean = 0.00273
	demands := map[string]func(*rand.Rand) float64{
		"exponential": func(r *rand.Rand) float64 { return mean * r.ExpFloat64() },
		"lognormal": func(r *rand.Rand) float64 {
			d := demand{random: r, mean: mean}
			return d.draw()
		},
	}
	for _, cores := range []int{1, 2} {
		for _, utilization := range []float64{0.3, 0.7} {
			for name, draw := range demands {
				random := rand.New(rand.NewPCG(1, 2))
				rate := utilization * float64(cores) / mean
				got, used := simulate(random, float64(cores), rate, func() float64 { return draw(random) })
				want := mean * (1 + erlangC(cores, utilization)/(float64(cores)*(1-utilization)))
				if math.Abs(got/want-1) > 0.04 {
					t.Errorf("%s demand, %d cores at %v: mean response %.3f ms, theory says %.3f ms", name, cores, utilization, got*1e3, want*1e3)
				}
				if offered := utilization * float64(cores); math.Abs(used/offered-1) > 0.02 {
					t.Errorf("%s demand, %d cores at %v: %.3f cores used, %.3f offered", name, cores, utilization, used, offered)
				}
			}
		}
	}
}

// simulate runs a queue in simulated time and returns the mean response in
// seconds and the mean number of cores used.
func simulate(random *rand.Rand, cores, rate float64, draw func() float64) (response, used float64) {
	const requests = 150_000
	p := &processor{cores: cores}
	arrived := map[*job]float64{}
	var total, arrives float64
	for served := 0; served < requests; {
		leaves, some := p.next()
		if some && leaves <= arrives {
			for _, j := range p.advance(leaves) {
				total += leaves - arrived[j]
				delete(arrived, j)
				served++
			}
			continue
		}
		p.advance(arrives)
		j := &job{}
		arrived[j] = arrives
		p.add(j, draw())
		arrives += random.ExpFloat64() / rate
	}
	return total / requests, p.used / p.now
}

// erlangC is the probability that an arrival finds all servers of M/M/c busy.
func erlangC(servers int, utilization float64) float64 {
	offered := utilization * float64(servers)
	term, sum := 1.0, 0.0
	for k := range servers {
		sum += term
		term *= offered / float64(k+1)
	}
	busy := term / (1 - utilization)
	return busy / (sum + busy)
}
