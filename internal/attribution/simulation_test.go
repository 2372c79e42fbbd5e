package attribution

import (
	"flag"
	"fmt"
	"math"
	"sort"
	"testing"
	"time"

	"taper.dev/taper/internal/capture"
)

var long = flag.Bool("long", false, "run the simulations at full size")

// size is how many requests a simulation has.
func size(fast, full int) int {
	if *long {
		return full
	}
	return fast
}

// three is the simulation of the accuracy table: requests with three calls, one after the
// other, of which open are open at once. The gamma distributions are those with which
// linking to the latest open request is right for .92 .75 .58 .34 .22 of the calls, and
// linking in turn for .985 .95 .91 .74 .63 (within .03), for .25 1 2 5 10 open.
func three(seed uint64, requests int, open float64) *world {
	w := newWorld(seed)
	const gap, wait = 2 * float64(ms), 8 * float64(ms) // mean, shape 6 and 1
	interval := (4*gap + 3*wait) / open
	t := float64(t0)
	for range requests {
		t += w.dice.ExpFloat64() * interval
		at := t
		var starts, ends [3]float64
		for k := range starts {
			at += w.gamma(6) * gap
			starts[k] = at
			at += w.gamma(1) * wait
			ends[k] = at
		}
		at += w.gamma(6) * gap
		r := w.request("/", capture.Time(t), capture.Time(at))
		for k := range starts {
			w.call(r, string(rune('a'+k)), capture.Time(starts[k]), capture.Time(ends[k]))
		}
	}
	return w
}

// latestOpen is the share right of linking each call to the request that began last.
func (w *world) latestOpen() float64 {
	var requests []*capture.Exchange // by start
	for _, x := range w.all {
		if _, call := w.parent[x]; !call {
			requests = append(requests, x)
		}
	}
	right := 0
	for x, r := range w.parent {
		i := sort.Search(len(requests), func(i int) bool { return requests[i].Start() > x.Start() }) - 1
		for requests[i].End() < x.Start() {
			i--
		}
		if requests[i] == r {
			right++
		}
	}
	return float64(right) / float64(len(w.parent))
}

func TestSimulationIsCalibrated(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ open, want float64 }{{0.25, .92}, {1, .75}, {2, .58}, {5, .34}, {10, .22}} {
		if got := three(5, 4000, tt.open).latestOpen(); math.Abs(got-tt.want) > 0.04 {
			t.Errorf("%g open: linking to the latest open request is right for %.3f, want %.2f ± 0.04", tt.open, got, tt.want)
		}
	}
}

// calibrated checks that probabilities are what they say: of links stated p, p are right,
// but for 3 % and what chance does to so few: links of one tangle are right or wrong
// together, so there are fewer independent ones. Links that nobody would claim are left out.
func (s score) calibrated(t *testing.T, tangle float64) {
	t.Helper()
	for i, n := range s.told {
		if n < 30 || i < 5 {
			continue
		}
		stated, right := s.stated[i]/float64(n), float64(s.correct[i])/float64(n)
		chance := math.Sqrt(stated * (1 - stated) / float64(n) * tangle)
		if off := math.Abs(right - stated); off > 0.03+3*chance {
			t.Errorf("of %d links stated %.3f, %.3f are right", n, stated, right)
		}
	}
	if i := len(s.told) - 1; s.told[i] > 0 && float64(s.correct[i]) < 0.998*float64(s.told[i]) {
		t.Errorf("%d of %d certain links are right", s.correct[i], s.told[i])
	}
}

func TestThreeCalls(t *testing.T) {
	for _, tt := range []struct {
		open, least float64
		off         float64 // of the mean, at most
		fast        int     // requests
	}{{0.25, .985, .03, 800}, {1, .95, .03, 800}, {2, .93, .03, 600}, {5, .78, .03, 300}, {10, .68, .03, 250}, {20, .50, .08, 0}} {
		t.Run(fmt.Sprint(tt.open), func(t *testing.T) {
			if tt.fast == 0 && !*long {
				t.Skip("so many requests open at once take -long to learn from")
			}
			w := three(1, size(tt.fast, 700), tt.open)
			a := w.tell(Options{})
			s := w.score(a)
			t.Log(s)
			if s.share() < tt.least {
				t.Errorf("share right %.3f, want at least %.3f", s.share(), tt.least)
			}
			s.calibrated(t, 3)
			w.checkMeans(t, a, tt.off)
		})
	}
}

// checkMeans compares the mean time of requests in calls with the truth.
func (w *world) checkMeans(t *testing.T, a *answer, most float64) {
	t.Helper()
	var got, want, sum time.Duration
	for x, r := range w.parent {
		if r != nil {
			want += x.End().Sub(x.Start())
		}
	}
	for _, r := range a.requests {
		sum += r.Duration()
		for _, p := range r.Parts() {
			if p.Cause == Call {
				got += p.Duration
			}
		}
	}
	if off := math.Abs(float64(got-want)) / float64(want); off > most {
		t.Errorf("requests spent %v in calls, truth %v: %.1f %% off (all: %v)", got, want, 100*off, sum)
	}
}
