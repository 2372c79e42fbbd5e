package explain

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

// told makes an explanation of requests whose calls take what the functions say.
func told(n int, path string, took, own func(i int) time.Duration) *Explanation {
	s := newStory(0, 5000)
	for i := range n {
		s.request(path, path, call("es:9200", "/", took(i)), step{took: own(i)})
	}
	return s.explanation()
}

func steady(d time.Duration) func(int) time.Duration {
	return func(i int) time.Duration { return d + time.Duration(i%10)*10*time.Microsecond }
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	ms := time.Millisecond
	tests := map[string]struct {
		a, b *Explanation
		want string
	}{
		"the story": {article(true), article(false),
			"GET /v1/{id} is 86.2 ms slower in k8s.pcap: 86.1 ms [86.1, 86.2] more metadata."},
		"the cure": {article(false), article(true),
			"GET /v1/{id} is 86.2 ms faster in k8s.pcap: 86.1 ms [86.1, 86.2] less metadata."},
		"two causes": {told(50, "/", steady(2*ms), steady(9*ms)), told(50, "/", steady(12*ms), steady(8*ms)),
			"GET / is 9.00 ms slower in k8s.pcap: 10.0 ms [9.99, 10.0] more call to es:9200 and 1.00 less self."},
		"no difference": {told(50, "/", steady(2*ms), steady(9*ms)), told(60, "/", steady(2*ms), steady(9*ms)),
			"GET / takes as long in k8s.pcap as in ec2.pcap, as far as 50 requests and 60 requests tell: 11.1 and 11.1 ms on average, difference [−0.02, 0.02]."},
		"too few": {told(4, "/", steady(2*ms), steady(9*ms)), told(60, "/", steady(9*ms), steady(9*ms)),
			"GET /: 4 requests in ec2.pcap and 60 requests in k8s.pcap are too few to compare: 11.0 and 18.1 ms on average."},
		"only in one": {told(1, "/old", steady(2*ms), steady(ms)), &Explanation{},
			"GET /old is only in ec2.pcap: 1 request, p50 3.00 ms, p99 3.00 ms."},
		"only in the other": {&Explanation{}, told(2, "/new", steady(2*ms), steady(ms)),
			"GET /new is only in k8s.pcap: 2 requests, p50 3.00 ms, p99 3.02 ms."},
	}
	for name, test := range tests {
		d := Compare("ec2.pcap", test.a, "k8s.pcap", test.b)
		if got := d.Verdict(&d.Routes[0]); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, test.want)
		}
	}
}

func TestCompareListsAllRoutes(t *testing.T) {
	t.Parallel()
	ms := time.Millisecond
	a, b := told(9, "/same", steady(ms), steady(ms)), told(9, "/same", steady(3*ms), steady(ms))
	a.Routes = append(a.Routes, told(9, "/old", steady(ms), steady(ms)).Routes...)
	b.Routes = append(b.Routes, told(9, "/new", steady(ms), steady(ms)).Routes...)
	d := Compare("a", a, "b", b)
	var names []string
	for _, r := range d.Routes {
		names = append(names, r.Route)
	}
	if got := strings.Join(names, ", "); got != "GET /same, GET /old, GET /new" {
		t.Errorf("routes %s", got)
	}
	if d.Routes[1].B != nil || d.Routes[1].Delta != nil || d.Routes[2].A != nil {
		t.Errorf("sides that are not there: %+v, %+v", d.Routes[1], d.Routes[2])
	}
	if delta := d.Routes[0].Delta.Mean; math.Abs(delta-2) > 1e-9 {
		t.Errorf("the difference is %g ms, want 2", delta)
	}
}

func TestCompareTellsWhatCannotBeClaimed(t *testing.T) {
	t.Parallel()
	a, b := article(true), article(false)
	b.Refusals = []string{"no claim about single requests"}
	b.Capture.TruncatedPackets, b.Capture.MidConnections = 0, 0
	got := strings.Join(Compare("a.pcap", a, "b.pcap", b).Notes, "; ")
	if want := "a.pcap lacks: 12 packets were cut short (tcpdump -s 0 keeps all), 1 connection began before the capture; b.pcap: no claim about single requests"; got != want {
		t.Errorf("notes %q, want %q", got, want)
	}
}

// The parts' differences add up to the whole's.
func TestDifferencesAddUp(t *testing.T) {
	t.Parallel()
	d := Compare("a", article(true), "b", article(false))
	for _, r := range d.Routes {
		sum := 0.0
		for _, c := range r.Causes {
			sum += c.DeltaMS
		}
		if math.Abs(sum-r.Delta.Mean) > 1e-6 {
			t.Errorf("%s: causes %g ms, whole %g ms", r.Route, sum, r.Delta.Mean)
		}
	}
}

func TestCompareRepeats(t *testing.T) {
	t.Parallel()
	verdict := func() string {
		rng := rand.New(rand.NewPCG(1, 1))
		noisy := func(int) time.Duration { return time.Duration(rng.ExpFloat64() * float64(time.Millisecond)) }
		var out strings.Builder
		if err := Compare("a", told(3000, "/", noisy, noisy), "b", told(3000, "/", noisy, noisy)).WriteJSON(&out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if first, second := verdict(), verdict(); first != second {
		t.Errorf("two answers for one question:\n%s\n%s", first, second)
	}
}

// Of 95 % intervals, 95 % hold the truth: with fewer requests than are kept, with more,
// and where requests near each other are alike.
func TestBootstrapCovers(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		n, keep int
		alike   float64 // correlation of one request's time with the next one's
		trials  int
		least   float64
	}{
		"few":       {40, 100, 0, 100, .87},
		"all kept":  {120, 1000, 0, 80, .87},
		"some kept": {800, 100, 0, 80, .87},
		"blocks":    {6000, 6000, .5, 10, .70},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(9, uint64(test.n)))
			const truth = 1.0 // ms
			held := 0
			for range test.trials {
				a, b := skewed(rng, test.n, test.keep, test.alike, 0), skewed(rng, test.n, test.keep, test.alike, truth)
				key := partKey{attribution.Self, ""}
				delta := b.mean - a.mean
				ci := bootstrap(a.samples, b.samples, []partKey{key}).parts[0].around(delta)
				if ci[0] <= truth && truth <= ci[1] {
					held++
				}
			}
			if share := float64(held) / float64(test.trials); share < test.least || share > 0.995 && test.trials > 50 {
				t.Errorf("%.3f of the intervals hold the truth, want %.2f or more, and not all", share, test.least)
			}
		})
	}
}

type skewedSample struct {
	*samples
	mean float64
}

// skewed draws times with a long tail about 5 ms and more.
func skewed(rng *rand.Rand, n, keep int, alike, more float64) skewedSample {
	out := skewedSample{samples: newSamples(keep)}
	out.rng = rng
	level := 0.0
	for i := range n {
		level = alike*level + math.Sqrt(1-alike*alike)*rng.NormFloat64()
		ms := 5*math.Exp(level*0.5-0.125) + more
		took := time.Duration(ms * float64(time.Millisecond))
		slot := out.slot()
		slot.begin(capture.Time(i), took)
		slot.add(0, took)
		out.mean += ms / float64(n)
	}
	out.names, out.population = []partKey{{attribution.Self, ""}}, uint64(n)
	return out
}
