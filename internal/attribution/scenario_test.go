package attribution

import (
	"testing"

	"taper.dev/taper/internal/capture"
)

// scenario makes requests of a shape, open at once as said.
func scenario(seed uint64, requests int, open float64, shape func(w *world, r *capture.Exchange, at capture.Time) (end capture.Time)) *world {
	w := newWorld(seed)
	// The mean duration is measured first, with other chances.
	var sum capture.Time
	try := newWorld(seed + 1000)
	for range 200 {
		r := try.request("/", t0, t0)
		sum += shape(try, r, t0) - t0
	}
	interval := float64(sum) / 200 / open
	t := float64(t0)
	for range requests {
		t += w.dice.ExpFloat64() * interval
		r := w.request("/", capture.Time(t), capture.Time(t))
		r.Response.First.Time = shape(w, r, capture.Time(t))
		r.Response.Last = r.Response.First
	}
	return w
}

// pause is a gap of own work, mean in ms.
func (w *world) pause(mean float64) capture.Time {
	return capture.Time(w.gamma(6) * mean * float64(ms))
}

// sequence makes calls one after the other.
func (w *world) sequence(r *capture.Exchange, at capture.Time, peers ...string) capture.Time {
	for _, peer := range peers {
		start := at + w.pause(2)
		at = start + capture.Time(w.gamma(1)*8*float64(ms))
		w.call(r, peer, start, at)
	}
	return at + w.pause(2)
}

func TestScenarios(t *testing.T) {
	tests := []struct {
		name  string
		least float64 // share right
		open  float64
		shape func(w *world, r *capture.Exchange, at capture.Time) capture.Time
	}{
		{"parallel", .95, 3, func(w *world, r *capture.Exchange, at capture.Time) capture.Time {
			first := at + w.pause(2)
			end := first
			for i, peer := range []string{"a", "b", "c"} {
				start := first + capture.Time(i)*ms/10 + w.pause(0.05)
				stop := start + capture.Time(w.gamma(2)*8*float64(ms))
				w.call(r, peer, start, stop)
				end = max(end, stop)
			}
			return w.sequence(r, end, "d")
		}},
		{"a cache", .93, 3, func(w *world, r *capture.Exchange, at capture.Time) capture.Time {
			if w.dice.IntN(10) < 7 {
				return w.sequence(r, at, "a", "c")
			}
			return w.sequence(r, at, "a", "b", "c")
		}},
		{"two routes", .93, 3, func(w *world, r *capture.Exchange, at capture.Time) capture.Time {
			if w.dice.IntN(2) == 0 {
				r.Target = "/other"
				return w.sequence(r, at, "c", "a")
			}
			return w.sequence(r, at, "a", "b", "c")
		}},
		{"one call per row", .80, 3, func(w *world, r *capture.Exchange, at capture.Time) capture.Time {
			at = w.sequence(r, at, "list")
			for range 3 + w.dice.IntN(5) {
				at += w.pause(0.3)
				start := at
				at += capture.Time(w.gamma(4) * 2 * float64(ms))
				w.call(r, "row", start, at)
			}
			return at + w.pause(2)
		}},
		{"some without calls", .93, 2, func(w *world, r *capture.Exchange, at capture.Time) capture.Time {
			if w.dice.IntN(2) == 0 {
				r.Target = "/healthz"
				return at + w.pause(1)
			}
			return w.sequence(r, at, "a", "b", "c")
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := scenario(7, size(300, 3000), tt.open, tt.shape)
			a := w.tell(Options{})
			s := w.score(a)
			t.Log(s)
			if s.share() < tt.least {
				t.Errorf("share right %.3f, want at least %.2f", s.share(), tt.least)
			}
			s.calibrated(t, float64(s.calls)/float64(len(a.requests)))
			checkCover(t, a)
		})
	}
}

// Calls of timers are nobody's, also when they happen while requests are open.
func TestBackground(t *testing.T) {
	for name, every := range map[string]func(w *world) capture.Time{
		"periodic": func(*world) capture.Time { return 50 * ms },
		"random":   func(w *world) capture.Time { return capture.Time(w.gamma(1) * 50 * float64(ms)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := three(8, size(400, 3000), 1)
			end := w.all[len(w.all)-1].End()
			for at := t0; at < end; at += every(w) {
				w.call(nil, "metrics", at, at+3*ms)
			}
			a := w.tell(Options{})
			s := w.score(a)
			t.Log(s)
			strays := 0
			for _, o := range a.orphans {
				if w.parent[o.Exchange] == nil {
					strays++
				}
			}
			timers := 0
			for x, r := range w.parent {
				if r == nil && x.Authority == "metrics" {
					timers++
				}
			}
			t.Logf("%d of %d calls of timers found", strays, timers)
			if s.share() < 0.95 {
				t.Errorf("share right %.3f", s.share())
			}
			if strays < timers*3/4 {
				t.Errorf("%d of %d calls of timers found", strays, timers)
			}
			s.calibrated(t, 3)
		})
	}
}
