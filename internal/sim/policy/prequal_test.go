package policy

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/random"
	"taper.dev/taper/internal/sim"
)

func TestReuse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		endpoints int
		want      float64
	}{
		{100, 2 / (0.84*3 - 1)}, // the paper's testbed
		{32, 2 / 0.5},
		{25, 25},
		{1000000, 1.000024},
		{24, math.Inf(1)},
		{15, math.Inf(1)},
		{1, math.Inf(1)},
	} {
		if got := reuse(c.endpoints); got != c.want && math.Abs(got-c.want) > 1e-6*c.want {
			t.Errorf("with %d endpoints an answer serves %v requests, want %v", c.endpoints, got, c.want)
		}
	}
}

func TestUsesAreRightInTheMean(t *testing.T) {
	t.Parallel()
	p := &prequal{random: random.New(1)}
	for _, c := range []struct {
		reuse float64
		want  []float64 // of 1, 2, 3 uses
	}{
		{1, []float64{1, 0, 0}},
		{1.25, []float64{0.75, 0.25, 0}},
		{2, []float64{0, 1, 0}},
		{2.9, []float64{0, 0.1, 0.9}},
	} {
		p.reuse = c.reuse
		counts := make([]int, 3)
		for range 10000 {
			counts[p.uses()-1]++
		}
		likely(t, counts, c.want...)
	}
}

// full is a pool of answers, of the servers 0, 1, … one after the other, that has seen these
// numbers of requests in flight.
func full(seen []int32, answers ...probed) *pool {
	p := &pool{}
	for i, a := range answers {
		a.server, a.at, a.uses = int32(i), float64(i), 100
		p.add(a)
	}
	p.seen = window{}
	for _, n := range seen {
		p.seen.add(n)
	}
	return p
}

func TestHotColdRule(t *testing.T) {
	t.Parallel()
	// A part of 0.84 of these is up to 4.
	seen := []int32{0, 1, 2, 3, 4, 9}
	for _, c := range []struct {
		name        string
		answers     []probed
		best, worst int32
	}{
		{"cold: the lowest latency", []probed{{latency: 3, inFlight: 0}, {latency: 1, inFlight: 4}, {latency: 2, inFlight: 1}}, 1, 0},
		{"a hot one is not taken", []probed{{latency: 3, inFlight: 4}, {latency: 1, inFlight: 5}, {latency: 2, inFlight: 4}}, 2, 1},
		{"a hot one is the worst, if quick", []probed{{latency: 9, inFlight: 0}, {latency: 1, inFlight: 5}}, 0, 1},
		{"of the hot the one with most is", []probed{{latency: 9, inFlight: 6}, {latency: 1, inFlight: 7}, {latency: 1, inFlight: 1}}, 2, 1},
		{"all hot: the fewest in flight", []probed{{latency: 1, inFlight: 8}, {latency: 9, inFlight: 5}, {latency: 2, inFlight: 6}}, 1, 0},
		{"all hot and alike: the latency", []probed{{latency: 2, inFlight: 8}, {latency: 1, inFlight: 8}}, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := full(seen, c.answers...).take(); got != c.best {
				t.Errorf("%d is taken, want %d", got, c.best)
			}
			p := full(seen, c.answers...)
			p.oldestNext = true // which makes this the turn of the worst
			p.remove()
			if slices.Contains(servers(p), c.worst) || p.size != len(c.answers)-1 {
				t.Errorf("%v are left, want all but %d", servers(p), c.worst)
			}
		})
	}
}

func servers(p *pool) []int32 {
	var list []int32
	for _, a := range p.answers[:p.size] {
		list = append(list, a.server)
	}
	slices.Sort(list)
	return list
}

func TestTakenAnswerCountsTheRequest(t *testing.T) {
	t.Parallel()
	p := full([]int32{0, 1, 2}, probed{latency: 1, inFlight: 0}, probed{latency: 2, inFlight: 0})
	for i, want := range []int32{0, 0, 1, 1, 0, 1} {
		// At 2 in flight the first is hot, and then the second; then both are.
		if got := p.take(); got != want {
			t.Fatalf("request %d goes to %d, want %d", i, got, want)
		}
	}
	if a := p.answers[0]; a.inFlight != 3 || a.uses != 97 {
		t.Errorf("after 3 requests the answer is %+v", a)
	}
}

func TestPoolKeepsTheNewest(t *testing.T) {
	t.Parallel()
	p := &pool{}
	for i := range poolSize + 3 {
		p.add(probed{server: int32(i), at: float64(i)})
	}
	p.add(probed{server: 5, at: 100})
	if p.size != poolSize || slices.Contains(servers(p), 2) || !slices.Contains(servers(p), 3) {
		t.Errorf("the pool has %d answers, of %v", p.size, servers(p))
	}
	i := slices.IndexFunc(p.answers[:], func(a probed) bool { return a.server == 5 })
	if p.answers[i].at != 100 {
		t.Errorf("the answer of server 5 is still %+v", p.answers[i])
	}
}

func TestPoolRemovesTheOldestAndTheWorstInTurn(t *testing.T) {
	t.Parallel()
	p := full([]int32{0, 9}, probed{latency: 1}, probed{latency: 5}, probed{latency: 2}, probed{latency: 3})
	for _, want := range [][]int32{{1, 2, 3}, {2, 3}, {3}, nil, nil} {
		p.remove()
		if got := servers(p); !slices.Equal(got, want) {
			t.Fatalf("%v are left, want %v", got, want)
		}
	}
}

func TestWindowIsOfTheLastNumbers(t *testing.T) {
	t.Parallel()
	r := random.New(5)
	var w window
	if got := w.quantile(0.5); got != 0 {
		t.Errorf("the median of nothing is %d", got)
	}
	var all []int32
	for range 500 {
		v := int32(r.Below(20))
		all = append(all, v)
		w.add(v)
		last := slices.Sorted(slices.Values(all[max(0, len(all)-windowSize):]))
		if got := w.sorted[:w.size]; !slices.Equal(got, last) {
			t.Fatalf("after %d it has %v, want %v", len(all), got, last)
		}
		if got, want := w.quantile(hotQuantile), last[int(hotQuantile*float64(len(last)-1))]; got != want {
			t.Fatalf("its quantile is %d, want %d", got, want)
		}
	}
}

func TestResponderAnswersForTheLoad(t *testing.T) {
	t.Parallel()
	var r responder
	if got := r.latency(0, 3); got != 0 {
		t.Errorf("knowing nothing it answers %v", got)
	}
	// Requests at a load n take n+1 seconds, give or take; those at 9 come last.
	at := 0.0
	for _, n := range []int{0, 1, 9} {
		for i := range 9 {
			at += 0.1
			r.arrived(at, n)
			r.departed(at, float64(n+1)+0.01*float64(i-4))
		}
	}
	for _, c := range []struct {
		inFlight int32
		want     float64
	}{{0, 1}, {1, 2}, {9, 10}, {20, 10}, {7, 10}, {3, 2}, {1e6, 10}} {
		if got := r.latency(at, c.inFlight); math.Abs(got-c.want) > 0.06 {
			t.Errorf("at a load of %d it answers %v, want %v", c.inFlight, got, c.want)
		}
	}
	if got := r.latency(at+20+recent, 1); got != 0 {
		t.Errorf("long after it was last busy it answers %v", got)
	}
}

// answered is how many latencies a responder has at each load that it has any of.
func answered(r *responder) map[int]int {
	levels := map[int]int{}
	for i, l := range r.levels {
		if l.n > 0 {
			levels[i] = int(l.n)
		}
	}
	return levels
}

// A latency belongs to the load at its request's arrival, whatever came and went since.
func TestResponderKnowsTheLoadAtArrival(t *testing.T) {
	t.Parallel()
	var r responder
	r.departed(0, 1)
	if got := answered(&r); len(got) != 0 {
		t.Errorf("a request departed that never arrived: %v", got)
	}
	for i := range 3 * arrivalsKept {
		r.arrived(float64(i)/10, i%8)
	}
	for _, i := range []int{3*arrivalsKept - 1, 3*arrivalsKept - 2, 2*arrivalsKept + 2} {
		r.departed(float64(i)/10, 1)
	}
	if diff := cmp.Diff(map[int]int{7: 1, 6: 1, 2: 1}, answered(&r)); diff != "" {
		t.Errorf("latencies by load (-want +got):\n%s", diff)
	}
	r.departed(1, 1) // like the oldest that is known
	if got := answered(&r)[0]; got != 1 {
		t.Errorf("a very old request did not count at the load of the oldest: %v", answered(&r))
	}
}

func TestPrequalTakesAnyEndpointAtFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(4)
	p := newPrequal(w.setting(1))
	p.Assign(upTo(4), []uint32{1, 2, 3, 4})
	likely(t, frequencies(p, 4, 10000), 0.1, 0.2, 0.3, 0.4)
}

// With probes answered it takes the quickest of the cold ones, none that is down, and hardly
// one with a long queue: only when a sample of the last answers has too many of these.
func TestPrequalFollowsProbes(t *testing.T) {
	t.Parallel()
	const n = 50
	w := newWorld(n)
	p := newPrequal(w.setting(1)).(*prequal)
	p.Assign(upTo(n), same(n, 1))
	for e := range n {
		// The higher the number, the quicker.
		p.servers[e].arrived(0, 0)
		p.servers[e].departed(0, 1/float64(e+1))
		if e%10 == 9 {
			w.inFlight[e] = 100
		}
		if e%10 == 8 {
			w.expected[e] = math.Inf(1)
		}
	}
	for range 100 {
		p.Pick(0)
		w.pass(0.002)
	}
	counts := make([]int, n)
	for range 2000 {
		counts[p.Pick(0)]++
		w.pass(0.002)
	}
	var slow, quick, busy int
	for e, c := range counts {
		switch {
		case e%10 == 8 && c > 0:
			t.Errorf("endpoint %d, which is down, was picked %d times", e, c)
		case e%10 == 9:
			busy += c
		case e < n/2:
			slow += c
		default:
			quick += c
		}
	}
	if busy > 40 {
		t.Errorf("busy endpoints were picked %d times of 2000", busy)
	}
	if slow*4 > quick {
		t.Errorf("the quick half was picked %d times, the slow half %d times", quick, slow)
	}
}

// withAnswers has a policy of 100 endpoints whose first proxy's pool has answers of the first
// so many, the quickest and newest first, each good for so many requests.
func withAnswers(n int, uses int32) *prequal {
	w := newWorld(100)
	p := newPrequal(w.setting(1)).(*prequal)
	p.Assign(upTo(100), same(100, 1))
	for i := range n {
		p.pools[0].add(probed{server: int32(i), latency: float64(i), inFlight: 5, uses: uses, at: -0.01 * float64(i)})
		p.pools[0].seen.add(9) // so that none is hot
	}
	return p
}

func TestPrequalUsesAnswersUp(t *testing.T) {
	t.Parallel()
	p := withAnswers(9, 1)
	var got []int
	for range 4 {
		got = append(got, p.Pick(0))
	}
	// Meanwhile the oldest and the worst are removed, which are the last.
	if want := []int{0, 1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("requests go to %v, want %v", got, want)
	}
	if p = withAnswers(9, 100); p.Pick(0) != 0 || p.pools[0].size != 8 {
		t.Errorf("after a request %d answers of 9 are left, want 8", p.pools[0].size)
	}
}

func TestPrequalDoesNotTrustASingleAnswer(t *testing.T) {
	t.Parallel()
	first := 0
	for seed := range uint64(100) {
		p := withAnswers(1, 100)
		p.random = random.New(seed)
		if p.Pick(0) == 0 {
			first++
		}
	}
	if first > 10 {
		t.Errorf("%d of 100 requests go to the only endpoint that answered", first)
	}
	if got := withAnswers(2, 100).Pick(0); got != 0 {
		t.Errorf("with two answers a request goes to %d, want 0", got)
	}
}

func TestPrequalDropsWhatIsOld(t *testing.T) {
	t.Parallel()
	w := newWorld(5)
	p := newPrequal(w.setting(1)).(*prequal)
	p.Assign(upTo(5), same(5, 1))
	for range 10 {
		p.Pick(0)
		w.pass(0.01)
	}
	if p.pools[0].size < leastAnswers {
		t.Fatalf("the pool has %d answers", p.pools[0].size)
	}
	p.Assign([]int{2}, same(1, 1))
	if got := servers(&p.pools[0]); len(got) > 1 || len(got) == 1 && got[0] != 2 {
		t.Errorf("after the others left the pool has answers of %v", got)
	}
	p.Assign(upTo(5), same(5, 1))
	for range 10 {
		p.Pick(0)
		w.pass(0.01)
	}
	w.pass(maxAge)
	p.Pick(0)
	if got := p.pools[0].size; got != 0 {
		t.Errorf("after a second the pool has %d answers", got)
	}
}

func TestPrequalForgetsThoseWhoLeave(t *testing.T) {
	t.Parallel()
	w := newWorld(2)
	p := newPrequal(w.setting(1)).(*prequal)
	p.Assign([]int{1}, same(1, 1))
	p.Pick(0)
	w.pass(5)
	p.Done(0, 1, sim.Answer{Latency: 5, Failed: true})
	if got := answered(&p.servers[1]); len(got) != 0 {
		t.Error("a failure counts as a latency")
	}
	p.Done(0, 1, sim.Answer{Latency: 5})
	if got := p.servers[1].latency(w.now, 0); got != 5 {
		t.Errorf("its latency is %v, want 5", got)
	}
	p.Assign([]int{0}, same(1, 1))
	w.pass(1)
	p.Assign([]int{1}, same(1, 1))
	p.Done(0, 1, sim.Answer{Latency: 6})
	if p.servers[1] != (responder{}) {
		t.Error("after its return its latencies are known")
	}
}
