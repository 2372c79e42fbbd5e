package envoystats

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"taper.dev/taper/internal/model"
)

const (
	one = "127.0.0.1:8001"
	two = "127.0.0.1:8002"
)

var endpoints = []model.Endpoint{{Address: one}, {Address: two}}

// answer is what an Envoy said (nil: it did not answer), so many seconds after
// the start of an interval of ten.
type answer struct {
	at    float64
	hosts map[string]host
}

// collect plays the answers of each Envoy and ends the interval.
func collect(t *testing.T, envoys ...[]answer) (model.Snapshot, time.Time, error) {
	t.Helper()
	start := time.Now().Add(-10 * time.Second)
	s := &Source{last: start}
	for _, answers := range envoys {
		p, err := newPoller("http://127.0.0.1:9901", "fib", nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range answers {
			var failure error
			if a.hosts == nil {
				failure = errors.New("connection refused")
			}
			p.note(a.hosts, start.Add(time.Duration(a.at*float64(time.Second))), failure)
		}
		s.pollers = append(s.pollers, p)
	}
	snapshot, err := s.Collect(t.Context(), endpoints)
	return snapshot, start, err
}

func TestCollect(t *testing.T) {
	type want struct {
		requests, inFlight float64
		at                 float64
	}
	steady := []answer{
		{0, map[string]host{one: {100, 1}}},
		{5, map[string]host{one: {150, 3}}},
		{10, map[string]host{one: {200, 5}}},
	}
	for name, test := range map[string]struct {
		envoys [][]answer
		want   map[string]want
		fails  string
	}{
		"one Envoy": {
			envoys: [][]answer{steady},
			want:   map[string]want{one: {10, 3, 10}},
		},
		"the sum of two, as old as the older": {
			envoys: [][]answer{steady, {{0, map[string]host{one: {0, 2}, two: {0, 0}}}, {8, map[string]host{one: {16, 2}, two: {0, 0}}}}},
			want:   map[string]want{one: {12, 5, 8}, two: {0, 0, 8}},
		},
		"missed polls lose nothing": {
			envoys: [][]answer{{steady[0], {5, nil}, steady[2]}},
			want:   map[string]want{one: {10, 3, 10}},
		},
		"a restart counts from zero": {
			envoys: [][]answer{{steady[0], {10, map[string]host{one: {30, 1}}}}},
			want:   map[string]want{one: {3, 1, 10}},
		},
		"a new host counts from zero": {
			envoys: [][]answer{{{0, map[string]host{one: {0, 0}}}, {10, map[string]host{one: {0, 0}, two: {40, 4}}}}},
			want:   map[string]want{one: {0, 0, 10}, two: {4, 2, 10}},
		},
		"an Envoy that is away is left out": {
			envoys: [][]answer{steady, {{5, nil}}},
			want:   map[string]want{one: {10, 3, 10}},
		},
		"an Envoy that has just come is left out": {
			envoys: [][]answer{steady, {{9, map[string]host{one: {1000, 50}}}}},
			want:   map[string]want{one: {10, 3, 10}},
		},
		"an Envoy that has gone is an error": {
			envoys: [][]answer{steady, {steady[0], {4, map[string]host{one: {140, 1}}}, {6, nil}}},
			fails:  "connection refused",
		},
		"an Envoy that hangs is an error": {
			envoys: [][]answer{steady, {steady[0], {4, map[string]host{one: {140, 1}}}}},
			fails:  "http://127.0.0.1:9901 answered 2 times, last 6s ago",
		},
		"all away": {envoys: [][]answer{{{5, nil}}, {{5, nil}}}, fails: "nothing is known of any Envoy"},
		"no poll":  {envoys: [][]answer{nil}, fails: "did not answer within the interval"},
	} {
		t.Run(name, func(t *testing.T) {
			got, start, err := collect(t, test.envoys...)
			if test.fails != "" {
				if err == nil || !strings.Contains(err.Error(), test.fails) || got != nil {
					t.Fatalf("%v, %v; want an error with %q", got, err, test.fails)
				}
				return
			}
			if err != nil || len(got) != len(test.want) {
				t.Fatalf("%v, %v; want %v", got, err, test.want)
			}
			for address, want := range test.want {
				s := got[address]
				if math.Abs(s.Requests.Value-want.requests) > 1e-6 || math.Abs(s.InFlight.Value-want.inFlight) > 1e-6 {
					t.Errorf("%s: %v requests/s, %v in flight; want %v, %v", address, s.Requests.Value, s.InFlight.Value, want.requests, want.inFlight)
				}
				if at := s.Requests.At.Sub(start).Seconds(); math.Abs(at-want.at) > 1e-6 || s.InFlight.At != s.Requests.At {
					t.Errorf("%s: measured at %vs, want %vs", address, at, want.at)
				}
				if s.CPU.Known() {
					t.Errorf("%s: CPU is %v, but Envoy knows none", address, s.CPU)
				}
			}
		})
	}
}

// TestInterval sees that nothing is counted twice over two intervals, and that
// what came while an Envoy was away is not put into the interval of its return.
func TestInterval(t *testing.T) {
	p, err := newPoller("http://127.0.0.1:9901", "fib", nil)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	say := func(second int, requests uint64) {
		p.note(map[string]host{one: {requests: requests}}, start.Add(time.Duration(second)*time.Second), nil)
	}
	check := func(name string, wantRequests uint64, wantCovered time.Duration) {
		t.Helper()
		if seen := p.take(); seen.hosts[one].requests != wantRequests || seen.covered != wantCovered {
			t.Errorf("%s: %d requests in %s, want %d in %s", name, seen.hosts[one].requests, seen.covered, wantRequests, wantCovered)
		}
	}
	say(0, 100)
	say(1, 110)
	check("first", 10, time.Second)
	say(3, 150)
	check("second", 40, 2*time.Second)
	check("away", 0, 0)
	say(60, 9000)
	check("back", 0, 0)
	say(61, 9005)
	check("counting again", 5, time.Second)
}

func TestStartRejects(t *testing.T) {
	admins := []string{"http://127.0.0.1:9901"}
	for name, test := range map[string]struct {
		cfg   Config
		fails string
	}{
		"no Envoy":     {Config{Cluster: "fib"}, "no Envoy to ask"},
		"no cluster":   {Config{Admins: admins}, "no cluster to read"},
		"no scheme":    {Config{Admins: []string{"127.0.0.1:9901"}, Cluster: "fib"}, "want http://HOST:PORT"},
		"bad port":     {Config{Admins: []string{"http://user:secret@127.0.0.1:x"}, Cluster: "fib"}, "want http://HOST:PORT"},
		"bad interval": {Config{Admins: admins, Cluster: "fib", PollEvery: -1}, "above 0"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Start(test.cfg)
			if err == nil {
				s.Close()
				t.Fatalf("no error; want one with %q", test.fails)
			}
			if !strings.Contains(err.Error(), test.fails) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%q; want %q and no secret", err, test.fails)
			}
		})
	}
}
