package explain

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/dissect"
	"taper.dev/taper/internal/capture/synth"
)

// told is what attribution says of a capture.
type told struct {
	requests map[uint64]*attribution.Request // by the packet in which they begin
	orphans  map[uint64]*attribution.Orphan
	summary  attribution.Summary
	stats    capture.Stats
}

func (t *told) Request(r *attribution.Request) { t.requests[r.Exchange.Request.First.Packet] = r }
func (t *told) Orphan(o *attribution.Orphan)   { t.orphans[o.Exchange.Request.First.Packet] = o }

func explain(t *testing.T, c *synth.Capture) *told {
	t.Helper()
	c.Rewind()
	all := &told{requests: map[uint64]*attribution.Request{}, orphans: map[uint64]*attribution.Orphan{}}
	linker := attribution.New(attribution.Options{}, all)
	var err error
	if all.stats, err = dissect.Run(t.Context(), c, linker); err != nil {
		t.Fatal(err)
	}
	all.summary = linker.Finish()
	return all
}

func generate(t *testing.T, p synth.Plan) *synth.Capture {
	t.Helper()
	c, err := synth.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// score compares links with the truth.
type score struct {
	calls, right int
	// stated and kept are, by tenths of stated probability, how many links there are and
	// how many of them are right.
	stated, kept [11]int
	sum          [11]float64
}

// fewLinks are too few to tell three percent from chance.
const fewLinks = 500

func (s score) accuracy() float64 { return float64(s.right) / float64(s.calls) }

// scoreOf looks at calls, but not at handshakes, which go with what follows them.
func scoreOf(truth synth.Truth, all *told) (s score) {
	parent := map[uint64]uint64{}
	for _, r := range truth.Requests {
		for _, c := range r.Calls {
			if c.Cause != synth.Connect {
				parent[c.Packet] = r.Packet
				s.calls++
			}
		}
	}
	for first, r := range all.requests {
		for _, l := range r.Links {
			want, isCall := parent[l.Exchange.Request.First.Packet]
			tenth := int(l.Probability * 10)
			s.stated[tenth]++
			s.sum[tenth] += l.Probability
			if isCall && want == first {
				s.right++
				s.kept[tenth]++
			}
		}
	}
	return s
}

// Links are at least as often right as the best of the published simulation, stated
// probabilities are what they say, and time is conserved. With 20 requests open at once,
// the most of which single ones are told at all, probabilities may say too little, but not
// too much.
func TestLinksAreTrue(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		seed     uint64
		open     float64
		requests int
		right    float64
		modest   bool
	}{
		{1, 0.25, 4000, .985, false}, {1, 1, 2000, .95, false}, {1, 2, 1200, .93, false},
		{1, 5, 600, .78, false}, {2, 5, 600, .78, false}, {1, 10, 500, .68, false}, {3, 10, 500, .68, false},
		{1, 20, 200, .5, true},
	} {
		t.Run(fmt.Sprintf("%v open, seed %d", test.open, test.seed), func(t *testing.T) {
			t.Parallel()
			p := synth.Chain(test.open, test.requests)
			p.Seed = test.seed
			linksAreTrue(t, p, test.right, test.modest)
		})
	}
}

// It is no matter of one kind of service: calls side by side, calls that are left out,
// calls of nobody, and two routes that share their calls.
func TestLinksOfOtherServices(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(p *synth.Plan, r *synth.Route){
		"side by side": func(_ *synth.Plan, r *synth.Route) { r.Steps[1].Beside = true },
		"left out":     func(_ *synth.Plan, r *synth.Route) { r.Steps[1].Skip = 0.3 },
		"nobody's": func(p *synth.Plan, r *synth.Route) {
			call := r.Steps[1].Call
			call.Path = "/beat"
			p.Background = []synth.Background{{Every: 50 * time.Millisecond, Call: call}}
		},
		"two routes": func(p *synth.Plan, r *synth.Route) {
			p.Routes = append(p.Routes, synth.Route{Method: "GET", Path: "/v2/%d", Finish: r.Finish, Steps: []synth.Step{r.Steps[2], r.Steps[0]}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := synth.Chain(3, 600)
			change(&p, &p.Routes[0])
			linksAreTrue(t, p, .9, false)
		})
	}
}

func linksAreTrue(t *testing.T, p synth.Plan, right float64, modest bool) {
	t.Helper()
	c := generate(t, p)
	all := explain(t, c)
	s := scoreOf(c.Truth, all)
	t.Logf("%.3f of the links are right", s.accuracy())
	if s.accuracy() < right {
		t.Errorf("%.3f of the links are right, want at least %.3f", s.accuracy(), right)
	}
	s.calibrated(t, modest)
	meansAreTrue(t, c.Truth, all)
	partsAddUp(t, all)
}

// calibrated compares what was stated with what is right: over all links, and by tenths
// of stated probability where there are enough.
func (s score) calibrated(t *testing.T, modest bool) {
	t.Helper()
	check := func(n, kept int, sum float64) {
		stated, right := sum/float64(n), float64(kept)/float64(n)
		t.Logf("of %d links stated %.3f, %.3f are right", n, stated, right)
		if off := stated - right; off > 0.03 || off < -0.03 && !modest {
			t.Errorf("of %d links stated %.3f, %.3f are right, want 0.03 between them at most", n, stated, right)
		}
	}
	var links, kept int
	var sum float64
	for i, n := range s.stated {
		links, kept, sum = links+n, kept+s.kept[i], sum+s.sum[i]
		if n >= fewLinks {
			check(n, s.kept[i], s.sum[i])
		}
	}
	check(links, kept, sum)
}

// meansAreTrue compares the mean time of requests in calls, those side by side once.
func meansAreTrue(t *testing.T, truth synth.Truth, all *told) {
	t.Helper()
	var want, got time.Duration
	for _, r := range truth.Requests {
		byStart := slices.SortedFunc(slices.Values(r.Calls), func(a, b synth.TrueCall) int { return cmp.Compare(a.From, b.From) })
		var until capture.Time
		for _, c := range byStart {
			if c.Cause == synth.Called && c.To > until {
				want += c.To.Sub(max(c.From, until))
				until = c.To
			}
		}
	}
	for _, r := range all.requests {
		for _, p := range r.Parts() {
			if p.Cause == attribution.Call {
				got += p.Duration
			}
		}
	}
	if off := float64(got)/float64(want) - 1; math.Abs(off) > 0.03 {
		t.Errorf("calls took %v in all and are said to have taken %v: %+.1f %%, want 3 %% at most", want, got, 100*off)
	}
}

func partsAddUp(t *testing.T, all *told) {
	t.Helper()
	for _, r := range all.requests {
		var sum time.Duration
		for _, p := range r.Parts() {
			sum += p.Duration
		}
		at := r.Start()
		for _, s := range r.Slices {
			if s.From != at || s.To <= s.From {
				t.Fatalf("request %d: a slice from %v to %v after %v", r.ID, s.From, s.To, at)
			}
			at = s.To
		}
		if sum != r.Duration() || at != r.End() {
			t.Fatalf("request %d: parts add up to %v of %v, and slices end at %v of %v", r.ID, sum, r.Duration(), at, r.End())
		}
	}
}

func TestKeysDecide(t *testing.T) {
	t.Parallel()
	p := synth.Chain(10, 3000)
	p.Keys = true
	c := generate(t, p)
	all := explain(t, c)
	if s := scoreOf(c.Truth, all); s.right != s.calls || s.stated[10] != s.calls {
		t.Errorf("with trace ids %d of %d links are right, and %d said to be certain; want all", s.right, s.calls, s.stated[10])
	}
}

// What spoils a capture is counted, and what is left is still true.
func TestSpoiltCaptures(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*synth.Plan){
		"doubled":   func(p *synth.Plan) { p.Doubled = 0.5 },
		"truncated": func(p *synth.Plan) { p.Snap = 300 },
		"lossy":     func(p *synth.Plan) { p.Loss = 0.01 },
		"missed":    func(p *synth.Plan) { p.Missed = 0.005 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := synth.Chain(0.25, 1000)
			spoil(&p)
			c := generate(t, p)
			all := explain(t, c)
			partsAddUp(t, all)
			s := scoreOf(c.Truth, all)
			t.Logf("%.3f of the links are right; %+v", s.accuracy(), all.stats)
			if s.accuracy() < 0.95 {
				t.Errorf("%.3f of the links are right, want at least 0.95", s.accuracy())
			}
			counted := map[string]uint64{
				"doubled": all.stats.Duplicates, "truncated": all.stats.Truncated, "lossy": all.stats.Retransmitted, "missed": all.stats.MissingBytes,
			}
			if counted[name] == 0 {
				t.Errorf("nothing of it was counted: %+v", all.stats)
			}
		})
	}
}
