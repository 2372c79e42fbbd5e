package pageload

import (
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
)

// swept is a way with these throughputs for 1, 2, 4, 8 … users.
func swept(name string, bytes int64, busy float64, rates ...float64) *way {
	w := &way{target: &target{Target: Target{Name: name}}, plan: &plan{bytes: bytes}, found: probe.PageTarget{Name: name}}
	for i, rate := range rates {
		w.add(probe.PageStep{Users: 1 << i, BytesPerS: rate, Pages: 100}, busy)
	}
	return w
}

// busyAt sets how busy the machine was in one step.
func (w *way) busyAt(step int, busy float64) *way {
	w.steps[step].busy = busy
	return w
}

// servers says who served the last step.
func (w *way) servers(names ...string) *way {
	last := &w.found.Steps[len(w.found.Steps)-1]
	last.Served = map[string][]int64{}
	for _, name := range names {
		last.Served[name] = make([]int64, 50)
	}
	return w
}

func TestBottleneck(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for _, test := range []struct {
		name      string
		ways      []*way
		hop, says string
	}{
		{"nothing through", []*way{swept("lb", 10, 0)}, "", ""},
		{"balancer", []*way{swept("lb", 10, 0.2, 10, 10, 10), swept("a", 10, 0.2, 9, 10, 10, 10), swept("b", 10, 0.2, 9, 10, 10, 10)}, "balancer", "50 %"},
		{"backends", []*way{swept("lb", 10, 0.2, 19, 19, 19).servers("a", "b"), swept("a", 10, 0.2, 10, 10, 10), swept("b", 10, 0.2, 10, 10, 10)}, "backends", "95 %"},
		{"grows", []*way{swept("lb", 10, 0.2, 10, 20, 40), swept("a", 10, 0.2, 10, 10, 10)}, "none seen", "still grew with 4 users"},
		{"client", []*way{swept("lb", 10, 0.95, 19, 19, 19), swept("a", 10, 0.2, 10, 10, 10), swept("b", 10, 0.2, 10, 10, 10)}, "client", "95 %"},
		{"client at the end", []*way{swept("lb", 10, 0.5, 10, 20, 30).busyAt(2, 1), swept("a", 10, 0.2, 99, 99, 99)}, "client", "100 %"},
		{"client unknown", []*way{swept("lb", 10, nan, 10, 10, 10), swept("a", 10, nan, 99, 99, 99)}, "balancer", "10 %"},
		// Who had the machine for a while does not matter.
		{"a neighbour", []*way{swept("lb", 10, 0.2, 10, 3, 10, 10, 3).busyAt(1, 1).busyAt(4, 1), swept("a", 10, 0.2, 99, 99, 99)}, "balancer", "10 %"},
		{"a neighbour, while it grows", []*way{swept("lb", 10, 0.2, 10, 20, 3, 80).busyAt(2, 1), swept("a", 10, 0.2, 99, 99, 99)}, "none seen", "still grew with 8 users"},
		// The narrow balancer of a fast network: what comes past it fills the machine.
		{"full past the balancer", []*way{swept("lb", 10, 0.2, 10, 10, 10), swept("a", 10, 1, 99, 99, 99)}, "balancer", "10 %"},
		{"full past the balancer, backends", []*way{swept("lb", 10, 0.8, 99, 99, 99), swept("a", 10, 1, 99, 99, 99)}, "none seen", "may give more than was seen"},
		{"another page", []*way{swept("lb", 10, 0.2, 10, 10, 10), swept("a", 100, 0.2, 99, 99, 99)}, "none seen", "a has another page"},
		{"one was not measured", []*way{swept("lb", 10, 0.2, 10, 10, 10), swept("a", 10, 0.2, 10, 10, 10), {target: &target{}, found: probe.PageTarget{Problem: "gone"}}}, "none seen", "1 of 2 backends"},
		{"one was not named", []*way{swept("lb", 10, 0.2, 10, 10, 10).servers("a", "b"), swept("a", 10, 0.2, 10, 10, 10)}, "none seen", "2 servers answer"},
		{"nothing to compare with", []*way{swept("lb", 10, 0.2, 10, 10, 10)}, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := (&sweeps{ways: test.ways}).bottleneck()
			if test.hop == "" {
				if got != nil {
					t.Errorf("got %+v", got)
				}
				return
			}
			if got == nil || got.Hop != test.hop || !strings.Contains(got.Sentence, test.says) {
				t.Errorf("got %+v, want %s: … %s …", got, test.hop, test.says)
			}
		})
	}
}

// More users are asked for until something is known.
func TestWhenASweepEnds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		way   *way
		users int
		rate  float64
	}{
		{"flat", swept("", 1, 0.2, 10, 10, 10), 1, 10},
		{"grows", swept("", 1, 0.2, 1, 2, 4, 8), 0, 0},
		{"grows, then flat", swept("", 1, 0.2, 1, 2, 4, 4, 4), 4, 4},
		{"flat, with a machine that was full in between", swept("", 1, 1, 10, 10), 0, 0},
		{"flat, with a machine that stays full", swept("", 1, 1, 10, 10, 10), 1, 10},
	} {
		if f := test.way.found; f.Users != test.users || f.BytesPerS != test.rate {
			t.Errorf("%s: %d users, %v bytes/s", test.name, f.Users, f.BytesPerS)
		}
	}
	refused := swept("", 1, 0.2, 10)
	refused.add(probe.PageStep{Users: 2, BytesPerS: 10, Pages: 3, Errors: 4, Why: "refused"}, 0.2)
	if want := "with 2 users 4 loads failed and 3 were whole; first: refused"; refused.found.Problem != want || len(refused.steps) != 1 {
		t.Errorf("%q, want %q", refused.found.Problem, want)
	}
}

// Time that the threads of this program ran, or wanted to, is counted.
func TestTheProgramsTimeIsCounted(t *testing.T) {
	before, began := processTime(), time.Now()
	for time.Since(began) < 50*time.Millisecond {
	}
	if used := processTime() - before; used < 40*time.Millisecond {
		t.Errorf("50 ms at work were %v", used)
	}
}

// devices fakes what /sys says of one.
func fakeDevice(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestAnInterfaceCanBeFull(t *testing.T) {
	t.Parallel()
	dir := fakeDevice(t, map[string]string{"ifindex": "7\n", "speed": "1000\n", "device/vendor": "x", "statistics/rx_bytes": "1000\n", "statistics/tx_bytes": "50\n"})
	d := openDevice(dir, 7)
	if d == nil {
		t.Fatal("it is not found")
	}
	before := d.counters()
	for _, file := range []string{"rx_bytes", "tx_bytes"} {
		if err := os.WriteFile(filepath.Join(dir, "statistics", file), []byte(map[string]string{"rx_bytes": "118751000", "tx_bytes": "1000"}[file]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if share := d.filled(before, d.counters(), time.Second); math.Abs(share-0.95) > 1e-9 {
		t.Errorf("950 of 1,000 Mbit/s are %v", share)
	}
	for name, files := range map[string]map[string]string{
		"of another network": {"ifindex": "8", "speed": "1000", "device/vendor": "x"},
		"virtual":            {"ifindex": "7", "speed": "10000"},
		"of unknown speed":   {"ifindex": "7", "speed": "-1", "device/vendor": "x"},
		"that says nothing":  {},
	} {
		if openDevice(fakeDevice(t, files), 7) != nil {
			t.Errorf("an interface %s is believed", name)
		}
	}
	var none *device
	if share := none.filled(none.counters(), none.counters(), time.Second); share != 0 {
		t.Errorf("no interface is full by %v", share)
	}
	if deviceTo(netip.MustParseAddr("192.0.2.1")) != nil {
		t.Error("an address of nobody's leads to an interface")
	}
}
