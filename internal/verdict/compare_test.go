package verdict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// run is one simulated measurement: rounds of the first path twice and another, half a
// second each, looked at now and then, until Enough says so.
type run struct {
	noise noise
	// effect is of the other path, as a factor.
	effect float64
	goal   Goal
	// shared says that all paths are parts of one process in the order of time, so that
	// neighbours in a round are alike; else each path has a process of its own.
	shared bool
	// drift changes all paths alike, by a factor, over the budget.
	drift float64
}

func (m run) measure(r *rand.Rand) Comparison {
	const trial = 500 * time.Millisecond
	first := m.noise.begin(r)
	paths := []func() float64{first, first, first}
	if !m.shared {
		paths[2] = m.noise.begin(r)
	}
	figures := make([][]float64, len(paths))
	p := Progress{Budget: time.Minute}
	seed := r.Uint64()
	for {
		for _, path := range Order(p.Rounds, []int{0, 1, 2}, seed) {
			f := 100 * paths[path]() * math.Pow(m.drift, p.Spent.Seconds()/p.Budget.Seconds())
			if path == 2 {
				f *= m.effect
			}
			figures[path] = append(figures[path], f)
			p.Spent += trial
		}
		p.Rounds++
		if p.Rounds%*every > 0 && !Enough(p, false) {
			continue
		}
		if c := Compare(figures[0], figures[1], figures[2], m.goal); Enough(p, c.Precise(m.goal)) {
			return c
		}
	}
}

// told is how often each outcome comes out, as a share.
func (m run) told(runs int) map[Outcome]float64 {
	r := rand.New(rand.NewPCG(5, 6))
	told := map[Outcome]float64{}
	for range runs {
		told[m.measure(r).Outcome] += 1 / float64(runs)
	}
	return told
}

func TestPathIsNotUnlikeItself(t *testing.T) {
	t.Parallel()
	share, absolute := Goal{Share: 0.05}, Goal{Absolute: 5, LowerIsBetter: true}
	for _, n := range slices.Concat(noises, slow) {
		for name, m := range map[string]run{
			"apart":                      {goal: share, drift: 1},
			"shared":                     {goal: share, drift: 1, shared: true},
			"shared, drifting, absolute": {goal: absolute, drift: 2, shared: true},
		} {
			t.Run(n.name+", "+name, func(t *testing.T) {
				t.Parallel()
				m.noise, m.effect = n, 1
				told := m.told(*simulated)
				t.Logf("better %.2f %%, worse %.2f %%", 100*told[Better], 100*told[Worse])
				if wrong := told[Better] + told[Worse]; wrong > 0.05+by(0.05, *simulated) {
					t.Errorf("called different from itself in %.1f %% of runs", 100*wrong)
				}
			})
		}
	}
}

func TestDifferencesAreFound(t *testing.T) {
	t.Parallel()
	wide := noise{name: "3 %", begin: around(func(r *rand.Rand) float64 { return math.Exp(0.03 * r.NormFloat64()) })}
	for _, c := range []struct {
		run
		want  Outcome
		share float64 // of runs in which it comes out, at least
	}{
		{run{noise: noises[0], effect: 1.05, goal: Goal{Share: 0.05}, drift: 1}, Better, 0.9},
		{run{noise: noises[0], effect: 1 / 1.05, goal: Goal{Share: 0.05}, drift: 3}, Worse, 0.9},
		{run{noise: wide, effect: 1.05, goal: Goal{Share: 0.05}, drift: 1}, Better, 0.98},
		{run{noise: wide, effect: 1.05, goal: Goal{Share: 0.05, LowerIsBetter: true}, drift: 1}, Worse, 0.98},
		{run{noise: wide, effect: 1.05, goal: Goal{Share: 0.05, Comparisons: 10}, drift: 1}, Better, 0.98},
		// 5 µs of 100.
		{run{noise: wide, effect: 1.05, goal: Goal{Absolute: 5, LowerIsBetter: true}, drift: 1}, Worse, 0.98},
		{run{noise: wide, effect: 0.95, goal: Goal{Absolute: 5, LowerIsBetter: true}, drift: 1}, Better, 0.98},
		{run{noise: noises[3], effect: 2, goal: Goal{Share: 0.05}, drift: 1}, Better, 0.98},
		{run{noise: noises[5], effect: 1.1, goal: Goal{Share: 0.05}, drift: 1}, Better, 0.9},
		// What nobody can tell.
		{run{noise: noises[1], effect: 1.05, goal: Goal{Share: 0.05}, drift: 1}, CannotTell, 0.9},
	} {
		t.Run(fmt.Sprint(c.noise.name, " ", c.effect, " ", c.goal), func(t *testing.T) {
			t.Parallel()
			told := c.told(*simulated)
			t.Logf("%s in %.1f %%", c.want, 100*told[c.want])
			if told[c.want] < c.share-by(c.share, *simulated) {
				t.Errorf("told %v, want %s in %.0f %%", told, c.want, 100*c.share)
			}
		})
	}
}

// What Needed promises is what it takes: with so many rounds, a difference as large as the
// goal is told 9 times of 10.
func TestNeeded(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	goal := Goal{Share: 0.05}
	round := func(rounds int, effect float64) Comparison {
		var f [3][]float64
		for range rounds {
			for i, e := range []float64{1, 1, effect} {
				f[i] = append(f[i], e*math.Exp(0.1*r.NormFloat64()))
			}
		}
		return Compare(f[0], f[1], f[2], goal)
	}
	var needed []float64
	for range 100 {
		if c := round(40, 1); c.Needed > 0 {
			needed = append(needed, float64(c.Needed))
		}
	}
	rounds := int(Median(needed))
	found := 0
	for range *simulated {
		if round(rounds, 1.05).Outcome == Better {
			found++
		}
	}
	share := float64(found) / float64(*simulated)
	t.Logf("%d rounds are needed; with them, told in %.1f %%", rounds, 100*share)
	if share < 0.8 || rounds < 60 || rounds > 300 {
		t.Errorf("with the %d rounds that are needed, told in %.1f %%", rounds, 100*share)
	}
}

// ramped are n figures around a centre whose order has no pattern.
func ramped(n int, centre, step float64) []float64 {
	f := make([]float64, n)
	for i := range f {
		f[i] = centre + step*float64(i*7%n-n/2)
	}
	return f
}

func TestCompare(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	one := ramped(20, 100, 0.1)
	again := ramped(20, 100.05, -0.1)
	twice := make([]float64, 20)
	for i := range twice {
		twice[i] = 2 * one[i]
	}
	gaps := slices.Clone(twice)
	gaps[3], gaps[5] = nan, 0
	for _, c := range []struct {
		name                string
		first, again, other []float64
		goal                Goal
		want                Comparison // outcome, ratio's value, Within, rounds
	}{
		{"nothing", nil, nil, nil, Goal{Share: 0.05}, Comparison{Outcome: CannotTell, Ratio: Effect{Value: nan}}},
		{"twice as much", one, again, twice, Goal{Share: 0.05}, Comparison{Outcome: Better, Ratio: Effect{Value: 2}, Rounds: 20}},
		{"twice as long", one, again, twice, Goal{Share: 0.05, LowerIsBetter: true}, Comparison{Outcome: Worse, Ratio: Effect{Value: 2}, Rounds: 20}},
		{"100 µs more", one, again, twice, Goal{Absolute: 5, LowerIsBetter: true}, Comparison{Outcome: Worse, Ratio: Effect{Value: 2}, Rounds: 20}},
		{"rounds without a figure", one, again, gaps, Goal{Share: 0.05}, Comparison{Outcome: Better, Ratio: Effect{Value: 2}, Rounds: 18}},
		{"lists of different lengths", one, again[:15], twice[:12], Goal{Share: 0.05}, Comparison{Outcome: Better, Ratio: Effect{Value: 2}, Rounds: 12}},
		{"itself", one, again, one, Goal{Share: 0.05}, Comparison{Outcome: CannotTell, Ratio: Effect{Value: 1}, Within: true, Rounds: 20}},
		{"too few rounds", one[:5], again[:5], twice[:5], Goal{Share: 0.05}, Comparison{Outcome: CannotTell, Ratio: Effect{Value: 2}, Rounds: 5}},
		{"no noise floor", one, nil, twice, Goal{Share: 0.05}, Comparison{Outcome: CannotTell, Ratio: Effect{Value: 2}, Rounds: 20}},
		{"a path as unlike itself", one, twice, twice, Goal{Share: 0.05}, Comparison{Outcome: CannotTell, Ratio: Effect{Value: 2}, Rounds: 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := Compare(c.first, c.again, c.other, c.goal)
			same := math.Abs(got.Ratio.Value-c.want.Ratio.Value) < 1e-9 || math.IsNaN(got.Ratio.Value) && math.IsNaN(c.want.Ratio.Value)
			if got.Outcome != c.want.Outcome || !same || got.Rounds != c.want.Rounds || got.Within != c.want.Within {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestCompareRuns(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	normal := func(n int, centre float64) []float64 {
		return trials(n, func() float64 { return centre * math.Exp(0.05*r.NormFloat64()) })
	}
	drifting := func(n int) []float64 {
		f := normal(n, 100)
		for i := range f {
			f[i] *= 1 + 0.3*float64(i)/float64(n)
		}
		return f
	}
	goal := Goal{Share: 0.05}
	for _, c := range []struct {
		name       string
		old, young func() []float64
		want       Outcome
		share      float64
	}{
		{"alike", func() []float64 { return normal(30, 100) }, func() []float64 { return normal(20, 100) }, CannotTell, 0.95},
		{"10 % more", func() []float64 { return normal(30, 100) }, func() []float64 { return normal(30, 110) }, Better, 0.98},
		{"10 % less", func() []float64 { return normal(30, 100) }, func() []float64 { return normal(30, 90) }, Worse, 0.98},
		{"10 % more, but one of them drifts by more", func() []float64 { return drifting(30) }, func() []float64 { return normal(30, 126) }, CannotTell, 0.9},
		{"too few", func() []float64 { return normal(30, 100) }, func() []float64 { return normal(5, 200) }, CannotTell, 1},
		{"none", func() []float64 { return nil }, func() []float64 { return normal(5, 200) }, CannotTell, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			told := 0
			for range *simulated {
				if CompareRuns(c.old(), c.young(), goal).Outcome == c.want {
					told++
				}
			}
			share := float64(told) / float64(*simulated)
			t.Logf("%s in %.1f %%", c.want, 100*share)
			if share < c.share-by(c.share, *simulated) {
				t.Errorf("%s in %.1f %% of comparisons, want %.0f %%", c.want, 100*share, 100*c.share)
			}
		})
	}
}

func TestEnough(t *testing.T) {
	t.Parallel()
	s := time.Second
	for _, c := range []struct {
		name    string
		p       Progress
		precise bool
		want    bool
	}{
		{"just begun", Progress{0, 0, 60 * s}, false, false},
		{"no time at all", Progress{0, 0, 0}, false, true},
		{"narrow by luck", Progress{9, 9 * s, 60 * s}, true, false},
		{"narrow", Progress{10, 10 * s, 60 * s}, true, true},
		{"wide", Progress{40, 40 * s, 60 * s}, false, false},
		{"the next round fits in", Progress{59, 59 * s, 60 * s}, false, false},
		{"the next round does not", Progress{30, 59 * s, 60 * s}, false, true},
		{"over", Progress{5, 61 * s, 60 * s}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := Enough(c.p, c.precise); got != c.want {
				t.Errorf("enough: %v", got)
			}
		})
	}
}

func TestPrecise(t *testing.T) {
	t.Parallel()
	share, absolute := Goal{Share: 0.1}, Goal{Absolute: 10}
	for _, c := range []struct {
		name     string
		location Location
		goal     Goal
		want     bool
	}{
		{"too few trials", Location{Median: 100}, share, false},
		{"narrow", Location{Median: 100, Interval: &Interval{96, 105}}, share, true},
		{"wide", Location{Median: 100, Interval: &Interval{94, 105}}, share, false},
		{"narrow in its unit", Location{Median: 10, Interval: &Interval{6, 15}}, absolute, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := c.location.Precise(c.goal); got != c.want {
				t.Errorf("precise: %v", got)
			}
		})
	}
	narrow := &Interval{0.98, 1.02}
	for _, c := range []struct {
		name  string
		ratio Effect
		want  bool
	}{
		{"too few rounds", Effect{Value: 1, Floor: 1.01}, false},
		{"no floor", Effect{Value: 1, Interval: narrow}, false},
		{"narrow", Effect{Value: 1, Interval: narrow, Floor: 1.04}, true},
		{"a high floor", Effect{Value: 1, Interval: narrow, Floor: 1.06}, false},
		{"wide", Effect{Value: 1, Interval: &Interval{0.9, 1.1}, Floor: 1.01}, false},
	} {
		t.Run("comparison: "+c.name, func(t *testing.T) {
			t.Parallel()
			if got := (Comparison{Ratio: c.ratio}).Precise(share); got != c.want {
				t.Errorf("precise: %v", got)
			}
		})
	}
}
