package matrix

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
)

// noisy is a factor around 1, of that deviation.
func noisy(deviation float64) float64 { return math.Exp(deviation * rand.NormFloat64()) }

func TestAllPairsBothWays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bandwidth = func(from, to string, path probe.Path, _ int) float64 {
		if path == probe.PodPath {
			return 5e8
		}
		return 1e9
	}
	w.rtt = func(_, _ string, path probe.Path, _ int) time.Duration {
		if path == probe.PodPath {
			return 300 * time.Microsecond
		}
		return 100 * time.Microsecond
	}
	m, _ := w.must(w.options(agents(5, 0, probe.HostPath, probe.PodPath)))
	seen := map[string]int{}
	latencies := 0
	for _, c := range m.Cells {
		if c.From == c.To || c.Problem != "" {
			t.Errorf("%+v", c)
		}
		if c.BytesPerS != map[probe.Path]float64{probe.HostPath: 1e9, probe.PodPath: 5e8}[c.Path] {
			t.Errorf("%s→%s, %s: %v bytes/s", c.From, c.To, c.Path, c.BytesPerS)
		}
		seen[c.From+c.To+string(c.Path)]++
		if c.RTT != nil {
			latencies++
			if c.RTT.Count != 300 || c.RTT.P50 == nil {
				t.Errorf("%s→%s: latency %+v", c.From, c.To, c.RTT)
			}
		}
	}
	if len(seen) != 5*4*2 || len(m.Cells) != len(seen) {
		t.Errorf("%d cells of %d pairs and paths", len(m.Cells), len(seen))
	}
	if latencies != 2*10 { // two distances at a table of five
		t.Errorf("latency of %d pairs and paths", latencies)
	}
	if len(m.Outliers) != 0 || m.Incomplete != "" || len(m.Notes) != 0 {
		t.Errorf("outliers %v, incomplete %q, notes %v", m.Outliers, m.Incomplete, m.Notes)
	}
	if len(m.Native) != 2 || m.Native[0] != (probe.Share{Path: probe.HostPath, Bandwidth: 1, RTT: 1, Pairs: 20}) ||
		m.Native[1].Path != probe.PodPath || m.Native[1].Bandwidth != 0.5 || math.Abs(m.Native[1].RTT-3) > 0.02 || m.Native[1].Pairs != 20 {
		t.Errorf("of native: %+v", m.Native)
	}
}

// What falls on all paths of a visit alike does not count: shares are of the same moment.
func TestSharesArePaired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	weather := map[string]float64{}
	w.bandwidth = func(from, to string, path probe.Path, _ int) float64 {
		mu.Lock()
		defer mu.Unlock()
		if weather[from+to] == 0 {
			weather[from+to] = noisy(1)
		}
		share := map[probe.Path]float64{probe.HostPath: 1, probe.PodPath: 0.9, probe.ServicePath: 0.85}[path]
		return 1e9 * weather[from+to] * share
	}
	m, _ := w.must(w.options(agents(6, 0, probe.HostPath, probe.PodPath, probe.ServicePath)))
	if len(m.Native) != 3 || math.Abs(m.Native[1].Bandwidth-0.9) > 1e-6 || math.Abs(m.Native[2].Bandwidth-0.85) > 1e-6 {
		t.Errorf("%+v", m.Native)
	}
}

func TestOutliersInWords(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		agents    []Agent
		bandwidth func(from, to string) float64
		rtt       func(from, to string) float64
		want      []string
	}{
		{
			"receives", agents(12, 0, probe.HostPath),
			func(_, to string) float64 { return slow(to == "node-7", 0.4) }, nil,
			[]string{"node-7 receives at 40 % of the median"},
		},
		{
			"sends, on two paths", agents(12, 0, probe.HostPath, probe.PodPath),
			func(from, _ string) float64 { return slow(from == "node-7", 0.4) }, nil,
			[]string{"node-7 sends at 40 % of the median, on the host path", "node-7 sends at 40 % of the median, on the pod path"},
		},
		{
			"one pair", agents(10, 0, probe.HostPath),
			func(from, to string) float64 { return slow(from == "node-1" && to == "node-2", 0.3) }, nil,
			[]string{"node-1→node-2 carries 30 % of the median"},
		},
		{
			"block", agents(40, 10, probe.HostPath),
			func(from, _ string) float64 { return slow(len(from) == 7 && strings.HasPrefix(from, "node-3"), 0.5) }, nil,
			[]string{"zone-3 sends at 50 % of the median"},
		},
		{
			"latency", agents(25, 0, probe.HostPath), nil,
			func(from, to string) float64 { return 1 / slow(from == "node-7" || to == "node-7", 0.4) },
			[]string{"round trips that node-7 asks for take 2.5 times the median", "round trips that node-7 answers take 2.5 times the median"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			// Noise follows from the names, so that no run differs from another.
			noise := func(from, to string, n int) float64 {
				s := fmt.Sprint(from, to, n)
				var sum uint64
				for _, b := range []byte(s) {
					sum = sum*31 + uint64(b)
				}
				return math.Exp(0.01 * rand.New(rand.NewPCG(sum, 1)).NormFloat64())
			}
			if test.bandwidth != nil {
				w.bandwidth = func(from, to string, _ probe.Path, n int) float64 {
					return 1e9 * test.bandwidth(from, to) * noise(from, to, n)
				}
			}
			if test.rtt != nil {
				w.rtt = func(from, to string, _ probe.Path, n int) time.Duration {
					return time.Duration(1e5 * test.rtt(from, to) * noise(from, to, n))
				}
			}
			m, _ := w.must(w.options(test.agents))
			var got []string
			for _, o := range m.Outliers {
				got = append(got, o.Sentence)
				if o.Name == "" || o.Share <= 0 || o.Path == "" {
					t.Errorf("%+v", o)
				}
			}
			// The figure may differ in its last digit.
			for i, s := range got {
				for _, d := range [][2]string{{"39 %", "40 %"}, {"41 %", "40 %"}, {"29 %", "30 %"}, {"31 %", "30 %"}, {"49 %", "50 %"}, {"51 %", "50 %"}, {"2.4 t", "2.5 t"}, {"2.6 t", "2.5 t"}} {
					s = strings.ReplaceAll(s, d[0], d[1])
				}
				got[i] = s
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("told %q, want %q", got, test.want)
			}
		})
	}
}

func slow(is bool, factor float64) float64 {
	if is {
		return factor
	}
	return 1
}

// A pair that was odd in one visit alone is measured again, and then nothing is told of it.
func TestAFlukeIsNotTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bandwidth = func(from, to string, _ probe.Path, n int) float64 {
		return 1e9 * slow(from == "node-1" && to == "node-2" && n < 3, 0.3) // three trials are a visit
	}
	m, told := w.must(w.options(agents(10, 0, probe.HostPath)))
	if len(m.Outliers) != 0 {
		t.Errorf("%+v", m.Outliers)
	}
	if !slices.Contains(told, "bandwidth of odd pairs, once more: 1 pairs") {
		t.Errorf("it was not measured again: %q", told)
	}
}

// Two hundred agents: rounds and memory are bounded.
func TestManyAgents(t *testing.T) {
	const most = 200 << 20
	w := newWorld(t)
	var mu sync.Mutex
	var largest uint64
	calls := 0
	w.before = func(context.Context, string, string, probe.Path, probe.Test) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls%500 == 0 {
			var stats runtime.MemStats
			runtime.ReadMemStats(&stats)
			largest = max(largest, stats.Sys-stats.HeapReleased)
		}
		return "", nil
	}
	w.bandwidth = func(_, to string, _ probe.Path, _ int) float64 { return 1e9 * slow(to == "node-7", 0.4) * noisy(0.05) }
	began := time.Now()
	o := w.options(agents(200, 50, probe.HostPath, probe.PodPath, probe.ServicePath))
	o.Trials, o.LatencyPairs = 1, 1 // more take longer, and hold no more
	m, told := w.must(o)
	rounds := 0
	for _, text := range told {
		if strings.HasPrefix(text, "bandwidth, round") {
			rounds++
		}
	}
	if rounds == 0 || rounds > 18 {
		t.Errorf("%d rounds of bandwidth both ways, at most 9 each", rounds)
	}
	found := 0
	for _, o := range m.Outliers {
		if o.Kind != "receives" || o.Name != "node-7" || o.Metric != "bandwidth" {
			t.Errorf("%+v", o)
		}
		found++
	}
	if found != 3 {
		t.Errorf("%d of 3 paths tell that node-7 is slow", found)
	}
	t.Logf("%d trials, %d cells, %d rounds, %.0f MB, %v", calls, len(m.Cells), rounds, float64(largest)/1e6, time.Since(began).Round(time.Millisecond))
	if largest == 0 || largest > most {
		t.Errorf("%d MB, at most %d", largest>>20, most>>20)
	}
}

func TestReleasesDiffer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.release = func(name string) string {
		if name == "node-2" {
			return "v2"
		}
		return "v1"
	}
	m, _ := w.must(w.options(agents(4, 0, probe.HostPath)))
	if len(m.Notes) != 1 || !strings.Contains(m.Notes[0], "v1 on node-0, v2 on node-2") {
		t.Errorf("%q", m.Notes)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, test := range []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{"one agent", func(o *Options) { o.Agents = o.Agents[:1] }, "a matrix of 1 agents is not possible"},
		{"same name", func(o *Options) { o.Agents[1].Name = "node-0" }, `two agents are called "node-0"`},
		{"no name", func(o *Options) { o.Agents[1].Name = "" }, "has no name"},
		{"same address", func(o *Options) { o.Agents[1].Addresses[probe.HostPath] = "host/node-0" }, "host/node-0 is given twice, for node-0 and for node-1"},
		{"no address", func(o *Options) { o.Agents[1].Addresses = nil }, `agent "node-1" has no address`},
		{"service alone", func(o *Options) {
			o.Agents[1].Addresses = map[probe.Path]string{probe.ServicePath: "s"}
		}, "it could not be asked"},
		{"path", func(o *Options) { o.Agents[1].Addresses[probe.BalancerPath] = "b" }, `on path "balancer"`},
		{"loopback", func(o *Options) { o.Agents[1].Addresses[probe.HostPath] = "127.0.0.1:4000" }, "127.0.0.1:4000 is another machine to each agent"},
		{"localhost", func(o *Options) { o.Agents[1].Addresses[probe.HostPath] = "localhost" }, "localhost is another machine"},
		{"trials", func(o *Options) { o.Trials = 0 }, "0 trials are not possible"},
		{"latency", func(o *Options) { o.LatencyPairs = -1 }, "latency of -1 pairs"},
		{"trial", func(o *Options) { o.Trial = 0 }, "a trial of 0s is not possible"},
		{"streams", func(o *Options) { o.Streams = 0 }, "0 streams are not possible"},
	} {
		o := w.options(agents(3, 0, probe.HostPath))
		test.change(&o)
		_, err := Run(t.Context(), o, nil)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q in it", test.name, err, test.want)
		}
	}
	if w.dialled != 0 {
		t.Errorf("%d agents were dialled all the same", w.dialled)
	}
}
