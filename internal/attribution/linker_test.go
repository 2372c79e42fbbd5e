package attribution

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"taper.dev/taper/internal/capture"
)

// With ids on both sides every link is right and certain, however many requests are open.
func TestKeys(t *testing.T) {
	t.Parallel()
	keys := map[string]func(r, c *capture.Exchange, id uint64){
		"trace":   func(r, c *capture.Exchange, id uint64) { r.Keys.Trace, c.Keys.Trace = id, id },
		"request": func(r, c *capture.Exchange, id uint64) { r.Keys.Request, c.Keys.Request = id, id },
	}
	for name, set := range keys {
		for _, open := range []float64{1, 20} {
			w := three(3, 500, open)
			id := uint64(0)
			ids := map[*capture.Exchange]uint64{}
			for c, r := range w.parent {
				if ids[r] == 0 {
					id++
					ids[r] = id
				}
				set(r, c, ids[r])
			}
			a := w.tell(Options{})
			if s := w.score(a); s.share() != 1 || s.told[10] != s.calls {
				t.Errorf("%s ids, %g open: %v, want all right and certain", name, open, s)
			}
		}
	}
}

// An id that several open requests share decides nothing, but leaves out all others.
func TestSharedKey(t *testing.T) {
	t.Parallel()
	w := newWorld(1)
	a, b, c := w.request("/", t0, t0+100*ms), w.request("/", t0+1*ms, t0+101*ms), w.request("/", t0+2*ms, t0+102*ms)
	a.Keys.Trace, b.Keys.Trace, c.Keys.Trace = 5, 5, 6
	k := w.call(a, "es", t0+10*ms, t0+20*ms)
	k.Keys.Trace = 5
	got := w.tell(Options{})
	for _, r := range got.requests {
		for _, link := range r.Links {
			if link.Certainty == Certain || r.Exchange == c {
				t.Errorf("linked %s to the request with trace %d", link.Certainty, r.Keys.Trace)
			}
		}
	}
}

// Threads decide where each has one request, and nothing where they are found to lie.
func TestThreads(t *testing.T) {
	t.Parallel()
	honest, lying := three(4, 400, 5), three(4, 400, 5)
	free := map[uint32]capture.Time{}
	for _, w := range []*world{honest, lying} {
		clear(free)
		tids := map[*capture.Exchange]uint32{}
		for _, x := range w.all {
			if _, call := w.parent[x]; call {
				continue
			}
			tid := uint32(1)
			for free[tid] > x.Start() {
				tid++
			}
			free[tid] = x.End() + 1
			tids[x], x.Process.TID = tid, tid
		}
		for c, r := range w.parent {
			c.Process.TID = tids[r]
			if w == lying {
				c.Process.TID = 1 + uint32(c.Start()/7)%4
			}
		}
	}
	if s := honest.score(honest.tell(Options{})); s.share() != 1 || s.told[10] != s.calls {
		t.Errorf("threads: %v, want all right and certain", s)
	}
	s := lying.score(lying.tell(Options{}))
	if s.share() < 0.8 {
		t.Errorf("threads that lie: %v", s)
	}
}

// What no request was open for is an orphan; what lies in the only open request is certain
// when strays are rare.
func TestOrphans(t *testing.T) {
	t.Parallel()
	w := newWorld(1)
	for i := range capture.Time(100) {
		r := w.request("/", t0+i*100*ms, t0+i*100*ms+20*ms)
		w.call(r, "es", t0+i*100*ms+5*ms, t0+i*100*ms+10*ms)
		if i%10 == 0 {
			w.call(nil, "metrics", t0+i*100*ms+50*ms, t0+i*100*ms+60*ms)
		}
	}
	a := w.tell(Options{})
	s := w.score(a)
	if s.share() != 1 || len(a.orphans) != 10 || a.summary.Orphans != 10 || a.summary.Links != 100 || s.told[10] != 100 {
		t.Errorf("%v; %d orphans; %+v", s, len(a.orphans), a.summary)
	}
	if a.summary.Open != 1 {
		t.Errorf("%g open on average, want 1", a.summary.Open)
	}
}

// The number of requests open at once is the integral over their time.
func TestOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(1)
	w.request("/a", t0, t0+100*ms)
	w.request("/b", t0+50*ms, t0+150*ms)
	w.request("/c", t0+100*ms, t0+110*ms)
	a := w.tell(Options{})
	want := map[string]float64{"/a": 1.5, "/b": 1.6, "/c": 2}
	for _, r := range a.requests {
		if math.Abs(r.Open-want[r.Target]) > 1e-9 {
			t.Errorf("%s: %g open, want %g", r.Target, r.Open, want[r.Target])
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(1)
	for i := range capture.Time(60) {
		r := w.request("/", t0+i*ms, t0+200*ms+i*ms)
		at := t0 + 60*ms + capture.Time(w.dice.IntN(int(140*ms)))
		w.call(r, "es", at, at+ms/2)
	}
	a := w.tell(Options{})
	all := strings.Join(a.summary.Refusals, "\n")
	if !strings.Contains(all, "open at once") || !strings.Contains(all, "GET /") {
		t.Errorf("refusals: %q", all)
	}
	if got := three(1, 200, 0.25).tell(Options{}).summary.Refusals; len(got) > 0 {
		t.Errorf("refused without need: %q", got)
	}
}

// Memory is bounded: what does not fit is decided early, nothing is lost, and it is said.
func TestPending(t *testing.T) {
	t.Parallel()
	w := three(2, 2000, 1)
	long := w.request("/poll", t0-1, w.all[len(w.all)-1].End()+1)
	a := w.tell(Options{Pending: 1000})
	if len(a.requests) != 2001 || a.summary.Links+a.summary.Orphans != 6000 {
		t.Errorf("%d requests and %d calls told", len(a.requests), a.summary.Links+a.summary.Orphans)
	}
	if a.summary.Early == 0 || a.summary.Late == 0 {
		t.Errorf("decided early %d times, %d came late", a.summary.Early, a.summary.Late)
	}
	for _, r := range a.requests {
		if r.Exchange == long && r.Certainty != Ambiguous {
			t.Errorf("the late request is %s", r.Certainty)
		}
	}
	checkCover(t, a)
}

// The same capture gives the same answer.
func TestDeterministic(t *testing.T) {
	t.Parallel()
	show := func() string {
		var out strings.Builder
		for _, r := range three(6, 300, 5).tell(Options{}).requests {
			for _, k := range r.Links {
				fmt.Fprintln(&out, r.ID, k.Exchange.Request.First.Packet, k.Probability)
			}
		}
		return out.String()
	}
	first := show()
	if second := show(); first != second {
		t.Error("two answers to one capture")
	}
}

func TestEmpty(t *testing.T) {
	t.Parallel()
	a := newWorld(1).tell(Options{})
	if len(a.requests) != 0 || len(a.summary.Refusals) != 0 || a.summary.Open != 0 {
		t.Errorf("of nothing: %+v", a.summary)
	}
}
