package policy

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"taper.dev/taper/internal/random"
	"taper.dev/taper/internal/sim"
)

func TestFind(t *testing.T) {
	t.Parallel()
	for _, k := range All {
		got, err := Find(k.Name)
		if err != nil || got.Name != k.Name {
			t.Errorf("%q is found as %q, %v", k.Name, got.Name, err)
		}
		if k.About == "" || k.Source == "" || k.New == nil || k.BytesPerServer <= 0 {
			t.Errorf("%q lacks something: %+v", k.Name, k)
		}
	}
	_, err := Find("fastest")
	if err == nil {
		t.Fatal(`"fastest" is known`)
	}
	for _, want := range []string{
		`"fastest"`, "random", "round-robin", "least-request", "client-side-wrr", "peak-ewma",
		"prequal", "join-shortest-queue", "all-knowing",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
}

func TestBytesAreThoseOfTheTypes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of        string
		bytes, is uintptr
	}{
		{"turn", turnBytes, unsafe.Sizeof(turn{})},
		{"rotation", rotationBytes, unsafe.Sizeof(rotation{})},
		{"schedule", scheduleBytes, unsafe.Sizeof(schedule{})},
		{"report", reportBytes, unsafe.Sizeof(report{})},
		{"client side", clientSideBytes, unsafe.Sizeof(clientSide{})},
		{"peak", peakBytes, unsafe.Sizeof(peak{})},
		{"pool", poolBytes, unsafe.Sizeof(pool{})},
		{"responder", responderBytes, unsafe.Sizeof(responder{})},
	} {
		if c.bytes != c.is {
			t.Errorf("a %s has %d bytes, and not %d", c.of, c.is, c.bytes)
		}
	}
}

// life runs a policy in a service that endpoints leave, come back to and join, with answers
// that come late, fail, or come after the endpoint has left. It returns all picks.
func life(t *testing.T, k Kind, seed uint64, weights []uint32) []int {
	t.Helper()
	const servers, proxies = 12, 3
	w := newWorld(servers)
	chance := random.New(seed)
	p := k.New(sim.Setting{Proxies: proxies, Servers: servers, World: w, Random: random.New(seed)})
	type request struct {
		proxy, server int
		sent          float64
	}
	var underWay []request
	var picks []int
	for step := range 3000 {
		var there []int
		var their []uint32
		for e := range servers {
			if e == 0 || (step/500+e)%3 != 0 {
				there = append(there, e)
				their = append(their, weights[e%len(weights)])
			}
		}
		if step%250 == 0 {
			p.Assign(there, their)
		}
		w.pass(0.01)
		proxy := chance.Below(proxies)
		e := p.Pick(proxy)
		if !slices.Contains(there, e) {
			t.Fatalf("step %d: endpoint %d is picked, and there are %v", step, e, there)
		}
		picks = append(picks, e)
		underWay = append(underWay, request{proxy, e, w.now})
		w.inFlight[e]++
		w.served[e], w.utilization[e] = 50, 0.1+0.05*float64(e)
		w.expected[e] = float64(e+1) * float64(w.inFlight[e])
		for len(underWay) > 20 {
			i := chance.Below(len(underWay))
			r := underWay[i]
			underWay = slices.Delete(underWay, i, i+1)
			w.inFlight[r.server]--
			p.Done(r.proxy, r.server, sim.Answer{Latency: w.now - r.sent, Failed: chance.Below(10) == 0})
		}
	}
	return picks
}

func TestEveryPolicyBearsAnyWeightsAndChanges(t *testing.T) {
	t.Parallel()
	for _, k := range All {
		for _, weights := range [][]uint32{{1}, {7, 7, 7}, {1, 2, 3}, {1, math.MaxUint32}, {math.MaxUint32, 1, 100}} {
			t.Run(fmt.Sprint(k.Name, weights), func(t *testing.T) {
				t.Parallel()
				first := life(t, k, 1, weights)
				if !slices.Equal(first, life(t, k, 1, weights)) {
					t.Error("with the same seed the picks are others")
				}
				if slices.Equal(first, life(t, k, 2, weights)) {
					t.Error("with another seed the picks are the same")
				}
			})
		}
	}
}

func TestOneEndpointIsAlwaysPicked(t *testing.T) {
	t.Parallel()
	for _, k := range All {
		w := newWorld(3)
		p := k.New(w.setting(2))
		p.Assign([]int{1}, []uint32{5})
		for range 10 {
			w.pass(0.1)
			if e := p.Pick(1); e != 1 {
				t.Errorf("%s picks %d", k.Name, e)
			}
		}
	}
}

// hot are the policies that pick and are done without a byte of memory.
var hot = []string{"random", "round-robin", "least-request", "client-side-wrr", "peak-ewma", "join-shortest-queue", "all-knowing"}

func TestHotPoliciesDoNotAllocate(t *testing.T) {
	for _, name := range hot {
		for _, weights := range [][]uint32{same(15, 1), {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}} {
			k, err := Find(name)
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld(15)
			p := k.New(w.setting(1))
			p.Assign(upTo(15), weights)
			p.Pick(0) // the schedule is begun here
			allocated := testing.AllocsPerRun(1000, func() {
				p.Done(0, p.Pick(0), sim.Answer{})
			})
			if allocated != 0 {
				t.Errorf("%s with weights %v: %v allocations a request", name, weights, allocated)
			}
		}
	}
}

// BenchmarkRequest is a Pick and a Done, of 32 proxies.
func BenchmarkRequest(b *testing.B) {
	for _, k := range All {
		for name, weight := range map[string]func(i int) uint32{
			"equal":   func(int) uint32 { return 1 },
			"unequal": func(i int) uint32 { return uint32(100 + 37*i) },
		} {
			b.Run(k.Name+"/"+name, func(b *testing.B) { benchmark(b, k, 32, 15, weight) })
		}
	}
}

// BenchmarkLarge has 10,000 endpoints and 1,000 proxies.
func BenchmarkLarge(b *testing.B) {
	k, err := Find("least-request")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("least-request/unequal", func(b *testing.B) {
		benchmark(b, k, 1000, 10000, func(i int) uint32 { return uint32(500 + 7919*i%1000) })
	})
	b.Run("least-request/begin", func(b *testing.B) {
		w := newWorld(10000)
		p := k.New(w.setting(1))
		weights := make([]uint32, 10000)
		for i := range weights {
			weights[i] = uint32(500 + 7919*i%1000)
		}
		for b.Loop() {
			p.Assign(upTo(10000), weights)
			p.Pick(0)
		}
	})
}

// benchmark keeps four requests of each proxy under way.
func benchmark(b *testing.B, k Kind, proxies, servers int, weight func(i int) uint32) {
	w := newWorld(servers)
	p := k.New(w.setting(proxies))
	weights := make([]uint32, servers)
	for i := range weights {
		weights[i] = weight(i)
	}
	p.Assign(upTo(servers), weights)
	const underWay = 4
	sent := make([]int, underWay*proxies)
	for i := range sent {
		sent[i] = p.Pick(i % proxies)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		proxy := i % proxies
		p.Done(proxy, sent[i], sim.Answer{Latency: 0.01})
		sent[i] = p.Pick(proxy)
		if i++; i == len(sent) {
			i = 0
		}
		w.pass(1e-5)
	}
}
