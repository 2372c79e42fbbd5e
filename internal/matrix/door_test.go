package matrix

import (
	"strings"
	"testing"

	"taper.dev/taper/internal/probe"
)

// shared makes a service behind which everybody finds the agent that comes so many later.
func shared(w *world, address string, n, later int) {
	names := agents(n, 0)
	w.services[address] = func(from string, _ int) string {
		for i, a := range names {
			if a.Name == from {
				return names[(i+later)%n].Name
			}
		}
		return ""
	}
}

func TestSharedServices(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	shared(w, "service/self:4000", 5, 0)
	shared(w, "service/any:4001", 5, 2)
	w.bandwidth = func(_, _ string, path probe.Path, _ int) float64 {
		return 1e9 * slow(path == probe.ServicePath, 0.8) * slow(path == probe.PodPath, 0.9)
	}
	o := w.options(agents(5, 0, probe.HostPath, probe.PodPath))
	o.Services = []string{"service/self:4000", "service/any:4001"}
	m, _ := w.must(o)
	found := 0
	for _, c := range m.Cells {
		if c.Path != probe.ServicePath {
			continue
		}
		found++
		if from, to := c.From[5]-'0', c.To[5]-'0'; to != (from+2)%5 || c.BytesPerS != 8e8 || c.RTT == nil {
			t.Errorf("%+v", c)
		}
	}
	if found != 5 || len(m.Notes) != 0 {
		t.Errorf("%d cells, notes %q", found, m.Notes)
	}
	if s := m.Native[2]; s.Path != probe.ServicePath || s.Bandwidth != 0.8 || s.RTT != 1 || s.Pairs != 5 {
		t.Errorf("%+v", m.Native)
	}

	o.Services = o.Services[:1]
	m, _ = w.must(o)
	if len(m.Notes) != 1 || !strings.Contains(m.Notes[0], "From 5 of 5 agents no service leads to another one (node-4: service/self:4000: service/self:4000 is this agent itself") {
		t.Errorf("%q", m.Notes)
	}
}

// Who answers is believed, not what an address is called.
func TestServicesOfAgents(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		answers func(from string, n int) string // behind the service of node-1
		node    func(string) string
		want    map[string]string // problems by cell
		cells   []string          // figures
	}{
		{"as it is called", func(string, int) string { return "node-1" }, nil, nil, []string{"node-0→node-1", "node-2→node-1", "node-1→node-0", "node-1→node-2", "node-0→node-2", "node-2→node-0"}},
		{
			"another", func(from string, _ int) string {
				if from == "node-0" {
					return "node-2"
				}
				return "node-0"
			}, nil, nil,
			[]string{"node-0→node-2", "node-2→node-0", "node-1→node-0", "node-1→node-2"},
		},
		{
			"without affinity", func(from string, n int) string {
				if n%2 == 0 {
					return "node-1"
				}
				return map[string]string{"node-0": "node-2", "node-2": "node-0"}[from]
			}, nil, nil,
			nil,
		},
		{
			"a stranger", func(string, int) string { return "node-9" }, nil,
			map[string]string{"node-0→node-1": `"node-9" answers, which is none of the agents`}, nil,
		},
		{
			"all are called alike", func(string, int) string { return "node-1" }, func(string) string { return "same" },
			nil, []string{"node-0→node-1"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if test.node != nil {
				w.node = test.node
			}
			w.services["service/node-1"] = test.answers
			for _, a := range []string{"node-0", "node-2"} {
				w.services["service/"+a] = func(string, int) string { return a }
			}
			o := w.options(agents(3, 0, probe.PodPath, probe.ServicePath))
			o.LatencyPairs = 0
			m, _ := w.must(o)
			cells := map[string]probe.Cell{}
			for _, c := range m.Cells {
				if c.Path == probe.ServicePath {
					cells[c.From+"→"+c.To] = c
				}
			}
			for _, name := range test.cells {
				if cells[name].BytesPerS != 1e9 {
					t.Errorf("%s: %+v", name, cells[name])
				}
			}
			if test.name == "as it is called" && len(cells) != len(test.cells) {
				t.Errorf("%+v", cells)
			}
			for name, want := range test.want {
				if c := cells[name]; c.BytesPerS != 0 || !strings.Contains(c.Problem, want) {
					t.Errorf("%s: %+v", name, c)
				}
			}
			if test.name == "another" && cells["node-0→node-1"].BytesPerS != 0 {
				t.Error("node-0→node-1 has the figure of another pair")
			}
		})
	}
}

// Two agents that call themselves alike cannot be told apart behind a service.
func TestNamesakes(t *testing.T) {
	t.Parallel()
	r := &run{rows: []*row{newRow(Agent{Name: "a"}), newRow(Agent{Name: "b"})}, known: map[identity][]int{{"x", ""}: {0, 1}}}
	if _, err := r.find(identity{"x", ""}); err == nil || !strings.Contains(err.Error(), "both a and b are called so") {
		t.Error(err)
	}
}
