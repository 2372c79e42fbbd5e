package explain

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

func call(peer, target string, took time.Duration) step {
	return step{attribution.Call, peer, took, "GET", target, 1, 200, false, nil}
}

func TestPartsAddUp(t *testing.T) {
	t.Parallel()
	e := article(false)
	if len(e.Requests) != 44 {
		t.Fatalf("%d requests, want 44", len(e.Requests))
	}
	for _, r := range e.Requests {
		sum, slices := 0.0, 0.0
		for _, p := range r.Parts {
			sum += p.MS
		}
		for _, s := range r.Slices {
			slices += s.MS
		}
		if math.Abs(sum-r.DurationMS) > 1e-3 || math.Abs(slices-r.DurationMS) > 1e-3 {
			t.Errorf("request %d: parts %g ms, slices %g ms, duration %g ms", r.ID, sum, slices, r.DurationMS)
		}
	}
	for _, r := range e.Routes {
		sum, share := 0.0, 0.0
		for _, p := range r.Parts {
			sum, share = sum+p.MeanMS, share+p.Share
		}
		if math.Abs(sum-r.MeanMS) > 1e-6 || math.Abs(share-1) > 1e-9 {
			t.Errorf("%s: parts %g ms of %g, shares %g", r.Name(), sum, r.MeanMS, share)
		}
	}
}

func TestRequestOfTheStory(t *testing.T) {
	t.Parallel()
	r := article(false).Requests[1]
	if r.Target != "/v1/43" || r.Route != "/v1/{id}" || r.Method != "GET" || r.Client != ingress.String() || r.Server != service.String() {
		t.Errorf("request %+v", r)
	}
	type part struct {
		cause attribution.Cause
		calls int
	}
	var parts []part
	for _, p := range r.Parts {
		parts = append(parts, part{p.Cause, p.Calls})
	}
	want := []part{{attribution.Metadata, 2}, {attribution.Call, 1}, {attribution.Self, 0}, {attribution.ClientNetwork, 0}}
	if !slices.Equal(parts, want) {
		t.Errorf("parts %v, want %v", parts, want)
	}
	if c := r.Calls[1]; c.Target != roles+"shop-role" || c.Stream != 11 || math.Abs(c.StartMS-41.595) > 0.1 || c.Packets[0] >= c.Packets[1] {
		t.Errorf("second call %+v", c)
	}
}

// A slice that something more particular interrupts is still one handshake.
func TestHandshakesAreCountedOnce(t *testing.T) {
	t.Parallel()
	at := capture.Time(1e18)
	slice := func(cause attribution.Cause, from, to int, packet uint64) attribution.Slice {
		return attribution.Slice{
			Cause: cause, Peer: "db", From: at.Add(time.Duration(from)), To: at.Add(time.Duration(to)), Link: -1,
			Packets: [2]uint64{packet, packet + 1},
		}
	}
	var s splitter
	s.split(&attribution.Request{Slices: []attribution.Slice{
		slice(attribution.Connect, 0, 10, 1), slice(attribution.Retransmit, 10, 20, 5),
		slice(attribution.Connect, 20, 30, 1), slice(attribution.Connect, 30, 35, 8), slice(attribution.Retransmit, 35, 36, 9),
	}})
	want := []attribution.Part{
		{Cause: attribution.Connect, Peer: "db", Duration: 25, Calls: 2},
		{Cause: attribution.Retransmit, Peer: "db", Duration: 11, Calls: 2},
	}
	if !slices.Equal(s.parts, want) {
		t.Errorf("parts %v, want %v", s.parts, want)
	}
}

func TestCallsHiddenByOthersCount(t *testing.T) {
	t.Parallel()
	s := newStory(10, 0)
	s.request("/", "/", call("a", "/x", time.Millisecond), call("b", "/y", 0))
	parts := s.explanation().Requests[0].Parts
	if len(parts) != 2 || parts[1].Peer != "b" || parts[1].Calls != 1 || parts[1].MS != 0 {
		t.Errorf("parts %+v", parts)
	}
}

func TestKeptRequests(t *testing.T) {
	t.Parallel()
	s := newStory(50, 0)
	for i := range 1000 { // the slowest come late
		s.request("/a", "/a", step{took: time.Duration(i+1) * time.Microsecond})
		if i%10 == 0 {
			s.request("/b", "/b", step{took: time.Duration(1000-i) * time.Microsecond})
		}
	}
	e := s.explanation()
	if len(e.Requests) != 50 || e.RequestsOmitted != 1050 {
		t.Fatalf("%d kept, %d omitted, want 50 and 1050", len(e.Requests), e.RequestsOmitted)
	}
	byRoute := map[string][]Request{}
	for _, r := range e.Requests {
		byRoute[r.Route] = append(byRoute[r.Route], r)
	}
	slow := func(route string, least float64) (n int) {
		for _, r := range byRoute[route] {
			if r.DurationMS >= least {
				n++
			}
		}
		return n
	}
	if slow("/a", 0.981) != slowestKept || slow("/b", 0.81) != slowestKept {
		t.Errorf("slowest: %d of /a, %d of /b, want %d each", slow("/a", 0.981), slow("/b", 0.81), slowestKept)
	}
	if first := e.Requests[0]; first.ID != 1 {
		t.Errorf("the first is %d", first.ID)
	}
	if !slices.IsSortedFunc(e.Requests, func(a, b Request) int { return int(a.ID) - int(b.ID) }) {
		t.Error("not in the order in which they began")
	}
}

// However large requests are, few of them are kept, and all are counted.
func TestKeptRequestsAreBounded(t *testing.T) {
	t.Parallel()
	s := newStory(5000, 0)
	steps := slices.Repeat([]step{call("db", "SELECT ?", time.Millisecond), {took: time.Microsecond}}, maxCalls)
	for range 2000 {
		s.request("/", "/", steps...)
	}
	e := s.explanation()
	if most := maxFirst/(3*maxCalls) + slowestKept + 1; len(e.Requests) > most || e.Routes[0].Count != 2000 {
		t.Errorf("%d kept, want at most %d; %d counted", len(e.Requests), most, e.Routes[0].Count)
	}
}

func TestNoRequestsKept(t *testing.T) {
	t.Parallel()
	s := newStory(0, 0)
	s.request("/a", "/a", step{took: time.Millisecond})
	if e := s.explanation(); len(e.Requests) != 0 || e.RequestsOmitted != 1 || e.Routes[0].Count != 1 {
		t.Errorf("%d kept, %d omitted, %d counted", len(e.Requests), e.RequestsOmitted, e.Routes[0].Count)
	}
}

func TestLargeRequestsAreCut(t *testing.T) {
	t.Parallel()
	s := newStory(1, 0)
	steps := slices.Repeat([]step{call("db", "SELECT ?", time.Millisecond), {took: time.Microsecond}}, 6*maxCalls)
	s.request("/", "/", steps...)
	r := s.explanation().Requests[0]
	if len(r.Calls) != maxCalls || r.CallsOmitted != 5*maxCalls || len(r.Slices) != maxSlices || r.Parts[0].Calls != 6*maxCalls {
		t.Errorf("%d calls, %d omitted, %d slices, %d counted", len(r.Calls), r.CallsOmitted, len(r.Slices), r.Parts[0].Calls)
	}
	for _, s := range r.Slices {
		if s.Call >= len(r.Calls) {
			t.Fatalf("slice of call %d of %d", s.Call, len(r.Calls))
		}
	}
}

// Whatever the network sends, memory is bounded and sums stay right.
func TestBounds(t *testing.T) {
	t.Parallel()
	s := newStory(10, 0)
	const n = 2000
	for i := range n {
		peer := fmt.Sprint("peer-", i)
		s.request("/", fmt.Sprint("/route/", i), call(peer, "/", time.Millisecond))
		s.request("/", "/same", call(peer, "/", time.Millisecond), step{took: time.Millisecond})
		s.Orphan(&attribution.Orphan{Cause: attribution.Call, Peer: peer, Exchange: &capture.Exchange{Op: "GET"}})
	}
	e := s.explanation()
	if len(e.Routes) > maxRoutes+1 || len(e.Background) > maxBackground+1 {
		t.Errorf("%d routes, %d backgrounds", len(e.Routes), len(e.Background))
	}
	var requests, background uint64
	for _, r := range e.Routes {
		requests += r.Count
		if len(r.Parts) > shownParts+8 {
			t.Errorf("%s has %d parts", r.Name(), len(r.Parts))
		}
		if r.Route == "/same" {
			calls := 0.0
			for _, p := range r.Parts {
				calls += p.Calls
			}
			if math.Abs(calls-1) > 1e-9 || math.Abs(r.MeanMS-2) > 1e-9 {
				t.Errorf("%g calls, mean %g ms", calls, r.MeanMS)
			}
		}
	}
	for _, b := range e.Background {
		background += b.Count
	}
	if requests != 2*n || background != n {
		t.Errorf("%d requests, %d background calls in all, want %d and %d", requests, background, 2*n, n)
	}
}

func TestBackground(t *testing.T) {
	t.Parallel()
	s := newStory(10, 0)
	for i := range 3 {
		x := &capture.Exchange{Conn: &capture.Conn{}, Op: "GET", Target: "/health"}
		x.Request.First = s.mark(s.start)
		x.Response.Last = s.mark(s.start.Add(time.Duration(i) * time.Millisecond))
		s.Orphan(&attribution.Orphan{Cause: attribution.Call, Peer: "es:9200", Exchange: x})
	}
	e := s.explanation()
	want := Background{Cause: attribution.Call, Peer: "es:9200", Op: "GET /health", Count: 3, TotalMS: 3}
	if len(e.Background) != 1 || e.Background[0] != want {
		t.Errorf("background %+v, want %+v", e.Background, want)
	}
}

func TestCommonTarget(t *testing.T) {
	t.Parallel()
	tests := []struct {
		targets []string
		want    string
	}{
		{nil, ""},
		{[]string{"/a/b"}, "/a/b"},
		{[]string{"/a/b", "/a/b"}, "/a/b"},
		{[]string{"/a/b/c", "/a/b/d"}, "/a/b/…"},
		{[]string{"/a/b/", "/a/b/role"}, "/a/b/…"},
		{[]string{"/a/b/c", "/a/b/d", "/a/e"}, "/a/…"},
		{[]string{"/a/bc", "/a/bd"}, "/a/…"},
		{[]string{"/a", "/b"}, ""},
		{[]string{"es.default", "es.internal"}, "es.…"},
		{[]string{"x", "y", "x"}, ""},
		{[]string{"", "/a"}, ""},
	}
	for _, test := range tests {
		var c commonTarget
		for _, target := range test.targets {
			c.add(target)
		}
		if got := c.String(); got != test.want {
			t.Errorf("%q have %q in common, want %q", test.targets, got, test.want)
		}
	}
}
