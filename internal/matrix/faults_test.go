package matrix

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"taper.dev/taper/internal/probe"
)

func TestAgentsThatAreNotThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead["host/node-1"] = true
	list := agents(4, 0, probe.HostPath, probe.PodPath)
	list[3].Problem = "its pod does not start: ImagePullBackOff"
	m, _ := w.must(w.options(list))
	if len(m.Notes) != 1 || m.Notes[0] != "On the host path, 1 agents could not be asked: node-1: agent host/node-1: connection refused." || m.Agents[1].Problem != "" {
		t.Errorf("%q, node-1: %q", m.Notes, m.Agents[1].Problem)
	}
	if m.Agents[3].Problem != list[3].Problem || m.Agents[0].Problem != "" {
		t.Errorf("node-3: %q, node-0: %q", m.Agents[3].Problem, m.Agents[0].Problem)
	}
	onHost := 0
	for _, c := range m.Cells {
		if c.From == "node-3" || c.To == "node-3" || c.Problem != "" {
			t.Errorf("%+v", c)
		}
		if c.Path == probe.HostPath {
			onHost++
			if c.From == "node-1" || c.To == "node-1" {
				t.Errorf("%+v", c)
			}
		}
	}
	if onHost != 2 {
		t.Errorf("%d cells on the host path, of node-0 and node-2 both ways", onHost)
	}

	for _, address := range []string{"pod/node-1", "host/node-2", "pod/node-2"} {
		w.dead[address] = true
	}
	_, _, err := w.run(t.Context(), w.options(list)) // node-0 is left
	if err == nil {
		t.Fatal("a matrix of one agent")
	}
	for _, want := range []string{"fewer than two agents can be reached", "node-1: host path: agent host/node-1: connection refused; pod path: agent pod/node-1", "node-2", "ImagePullBackOff"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

// An agent that dies on the way costs its cells only.
func TestAnAgentDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.before = func(_ context.Context, from, to string, _ probe.Path, _ probe.Test) (string, error) {
		if from != "node-2" && to != "node-2" {
			return "", nil
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.dead["host/node-2"] = w.trials["node-2→host/node-4"+string(probe.TCPBandwidth)]+w.trials["node-4→host/node-2"+string(probe.TCPBandwidth)] > 0; !w.dead["host/node-2"] {
			return "", nil
		}
		return "near end: connection reset by peer", nil
	}
	m, _ := w.must(w.options(agents(5, 0, probe.HostPath)))
	if p := m.Agents[2].Problem; !strings.Contains(p, "connection refused") {
		t.Errorf("node-2: %q", p)
	}
	whole, failed := 0, 0
	for _, c := range m.Cells {
		switch {
		case c.Problem != "":
			failed++
			if c.From != "node-2" && c.To != "node-2" {
				t.Errorf("%+v", c)
			}
		case c.From != "node-2" && c.To != "node-2":
			whole++
		}
	}
	if whole != 12 || failed != 1 || m.Incomplete != "" {
		t.Errorf("%d whole cells among the others, %d that failed, incomplete %q", whole, failed, m.Incomplete)
	}
}

// A connection that is lost is made anew, and a firewall between two is theirs alone.
func TestLostConnectionsAndFirewalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var once sync.Once
	w.before = func(_ context.Context, from, to string, _ probe.Path, _ probe.Test) (string, error) {
		if from == "node-0" && to == "node-1" {
			return "", errors.New("agent at host/node-0: connecting to host/node-1: no answer in 5s")
		}
		if from == "node-3" {
			var err error
			once.Do(func() { err = w.breakOff("host/node-3") })
			return "", err
		}
		return "", nil
	}
	m, _ := w.must(w.options(agents(4, 0, probe.HostPath)))
	for _, c := range m.Cells {
		switch firewalled := c.From == "node-0" && c.To == "node-1"; {
		case firewalled != strings.Contains(c.Problem, "no answer in 5s"), !firewalled && (c.Problem != "" || c.BytesPerS == 0):
			t.Errorf("%+v", c)
		}
	}
	for _, a := range m.Agents {
		if a.Problem != "" {
			t.Errorf("%s: %s", a.Name, a.Problem)
		}
	}
	if w.dialled != 5 {
		t.Errorf("dialled %d times: four agents, and one of them again", w.dialled)
	}
}

// A figure that is missing is told of, also where there is another one.
func TestOneTestFails(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]string{"cut off": "far end: it was cut off", "silent": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.before = func(_ context.Context, from, to string, _ probe.Path, test probe.Test) (string, error) {
				if test == probe.TCPBandwidth && from == "node-0" {
					return says, nil
				}
				return "", nil
			}
			w.bandwidth = func(from, _ string, _ probe.Path, _ int) float64 { return 1e9 * slow(from == "node-0", 0) }
			o := w.options(agents(3, 0, probe.HostPath))
			o.Services = []string{"service/any"}
			shared(w, "service/any", 3, 1) // so that one visit has both tests
			m, _ := w.must(o)
			if says == "" {
				says = "nothing arrived in time"
			}
			latencies := 0
			for _, c := range m.Cells {
				if c.From != "node-0" {
					continue
				}
				if c.BytesPerS != 0 || c.Problem != says {
					t.Errorf("%+v", c)
				}
				if c.RTT != nil {
					latencies++
				}
			}
			if latencies == 0 {
				t.Error("no latency")
			}
		})
	}
}

func TestInterruption(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]int{"at the first trial": 1, "on the way": 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var mu sync.Mutex
			trials := 0
			w.before = func(ctx context.Context, _, _ string, _ probe.Path, _ probe.Test) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				if trials++; trials >= after {
					cancel()
				}
				if ctx.Err() != nil {
					return "it was interrupted", nil
				}
				return "", nil
			}
			m, _, err := w.run(ctx, w.options(agents(6, 0, probe.HostPath)))
			if after == 1 {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%v, %v", m, err)
				}
				return
			}
			if err != nil || m.Incomplete != "interrupted" || len(m.Cells) == 0 || len(m.Cells) == 30 {
				t.Fatalf("%v, %+v", err, m)
			}
			for _, c := range m.Cells {
				if c.Problem != "" || c.BytesPerS == 0 {
					t.Errorf("%+v", c)
				}
			}
		})
	}
}
