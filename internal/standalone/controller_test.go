package standalone

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taper.dev/taper/internal/apply"
	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
)

const interval = 10 * time.Second

// serving is a source that measures what the applied weights would do, and the
// applier that it takes them from.
type serving struct {
	mu       sync.Mutex
	demands  map[string]float64
	applied  []apply.Assignment
	err      error
	hangs    bool
	collects int
}

func (s *serving) Apply(_ context.Context, a apply.Assignment) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applied = append(s.applied, a)
	return nil
}

func (s *serving) Collect(ctx context.Context, endpoints []model.Endpoint) (model.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.collects++
	if s.hangs {
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
		return nil, ctx.Err()
	}
	if s.err != nil {
		return nil, s.err
	}
	shares := s.applied[len(s.applied)-1].Weights.Shares()
	snapshot := model.Snapshot{}
	for _, e := range endpoints {
		rate := 100 * shares[e.Address]
		snapshot[e.Address] = model.Sample{
			CPU:      model.Reading{Value: rate * s.demands[e.Address], At: time.Now()},
			Requests: model.Reading{Value: rate, At: time.Now()},
		}
	}
	return snapshot, nil
}

func (s *serving) last() apply.Assignment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.applied[len(s.applied)-1]
}

func newController(s *serving, members Members, log *bytes.Buffer) *Controller {
	policy := balance.DefaultPolicy(interval)
	policy.Strategy = balance.EqualLoad
	return &Controller{
		Services: []Service{{Name: "shop", Members: members, Policy: policy, Source: s}},
		Interval: interval, MembersEvery: 2 * time.Second, Applier: s,
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	}
}

var two = Static{{Address: "10.0.0.1:80"}, {Address: "10.0.0.2:80"}}

// run plays a controller in virtual time and returns what it logged.
func run(t *testing.T, s *serving, members Members, prepare func(*Controller), during func()) string {
	t.Helper()
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := newController(s, members, &log)
		if prepare != nil {
			prepare(c)
		}
		var wait sync.WaitGroup
		wait.Go(func() {
			if err := c.Run(ctx); err != nil {
				t.Errorf("Run: %v", err)
			}
		})
		synctest.Wait()
		during()
		cancel()
		wait.Wait()
	})
	return log.String()
}

func TestLoopServesAtOnceAndThenBalances(t *testing.T) {
	s := &serving{demands: map[string]float64{"10.0.0.1:80": 0.002, "10.0.0.2:80": 0.006}}
	run(t, s, two, nil, func() {
		if got := s.last().Weights.Shares()["10.0.0.1:80"]; got != 0.5 {
			t.Errorf("before any sample the share is %g, want 0.5", got)
		}
		time.Sleep(3*interval + time.Second)
		if got := s.last().Weights.Shares()["10.0.0.1:80"]; got < 0.74 || got > 0.76 {
			t.Errorf("after three intervals the share is %g, want 0.75", got)
		}
	})
}

func TestSourceThatFailsHoldsAndNamesItself(t *testing.T) {
	s := &serving{demands: map[string]float64{"10.0.0.1:80": 0.002, "10.0.0.2:80": 0.006}}
	log := run(t, s, two, nil, func() {
		time.Sleep(3*interval + time.Second)
		before := s.last().Weights
		s.mu.Lock()
		s.err = errors.New("http://store.example: connection refused")
		s.mu.Unlock()
		time.Sleep(5 * interval)
		if !reflect.DeepEqual(s.last().Weights, before) {
			t.Error("weights moved without samples")
		}
		time.Sleep(20 * interval)
		if got := s.last().Weights.Shares()["10.0.0.1:80"]; got != 0.5 {
			t.Errorf("after a long outage the share is %g, want 0.5", got)
		}
	})
	if !strings.Contains(log, "connection refused") || !strings.Contains(log, "Stale") || !strings.Contains(log, "weights released") {
		t.Errorf("the log does not tell what happened:\n%s", log)
	}
}

func TestSourceThatHangsDoesNotStopMembership(t *testing.T) {
	s := &serving{hangs: true}
	names := &changing{list: two}
	run(t, s, names, nil, func() {
		time.Sleep(interval + time.Second)
		names.set(two[:1], nil)
		time.Sleep(interval)
		if n := len(s.last().Endpoints); n != 1 {
			t.Errorf("%d endpoints are served, want 1", n)
		}
	})
}

// changing is a membership that changes.
type changing struct {
	mu   sync.Mutex
	list []model.Endpoint
	err  error
}

func (c *changing) set(list []model.Endpoint, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list, c.err = list, err
}

func (c *changing) List(context.Context) ([]model.Endpoint, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list, c.err
}

func TestMembershipIsFollowedBetweenDecisions(t *testing.T) {
	s := &serving{demands: map[string]float64{"10.0.0.1:80": 0.002, "10.0.0.2:80": 0.006, "10.0.0.3:80": 0.002}}
	names := &changing{list: two}
	run(t, s, names, nil, func() {
		time.Sleep(3*interval + time.Second)
		names.set([]model.Endpoint{two[0], two[1], {Address: "10.0.0.3:80"}}, nil)
		time.Sleep(2 * time.Second)
		if w := s.last().Weights["10.0.0.3:80"]; w == 0 {
			t.Error("a new endpoint is not served after two seconds")
		}
		names.set(nil, errors.New("no such host"))
		time.Sleep(time.Minute)
		if n := len(s.last().Endpoints); n != 3 {
			t.Errorf("after a failed look-up %d endpoints are served, want the last 3", n)
		}
		names.set(two[:1], nil)
		time.Sleep(2 * time.Second)
		if n := len(s.last().Endpoints); n != 1 {
			t.Errorf("%d endpoints are served, want 1", n)
		}
	})
}

func TestNothingIsServedBeforeMembersAreKnown(t *testing.T) {
	s := &serving{}
	run(t, s, &changing{err: errors.New("no such host")}, nil, func() {
		time.Sleep(5 * interval)
	})
	if len(s.applied) != 0 {
		t.Errorf("served %v", s.applied)
	}
}

func TestStateIsKeptOverARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	s := &serving{demands: map[string]float64{"10.0.0.1:80": 0.002, "10.0.0.2:80": 0.006}}
	run(t, s, two, func(c *Controller) {
		c.Store = func(states map[string]State) error { return writeState(path, states) }
	}, func() { time.Sleep(3*interval + time.Second) })
	before := s.last().Weights
	states, err := readState(path)
	if err != nil {
		t.Fatal(err)
	}
	away := func(c *Controller) {
		time.Sleep(time.Hour)
		c.Restore(states)
	}
	run(t, s, two, away, func() {
		if !reflect.DeepEqual(s.last().Weights, before) {
			t.Errorf("restarted with %v, want %v", s.last().Weights, before)
		}
	})
}

func TestDamagedStateSaysWhatToDo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	for _, text := range []string{"{", `{"shop":{"weights":{"a:1":0}}}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readState(path); err == nil || !strings.Contains(err.Error(), "remove it") {
			t.Errorf("%s: got %v", text, err)
		}
	}
	if states, err := readState(path + ".none"); err != nil || len(states) != 0 {
		t.Errorf("no file yet: %v, %v", states, err)
	}
}
