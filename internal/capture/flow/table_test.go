package flow

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"taper.dev/taper/internal/capture"
)

// A table holds what a map of the same keys does, whatever is added and removed, while it
// grows and while its chains are long.
func TestTable(t *testing.T) {
	t.Parallel()
	const most = 4 * leastBuckets
	rng := rand.New(rand.NewPCG(1, 1))
	table, want := newTable(), map[key]*conn{}
	for range 20 * most {
		// Keys differ in few bits of one word, as addresses and ports do.
		k := key{aLow: mapped | 10<<24, bLow: mapped, rest: uint64(rng.IntN(most)) << 16}
		c := table.find(&k)
		if c != want[k] {
			t.Fatalf("%v is %p, want %p", k, c, want[k])
		}
		if c == nil {
			c = &conn{key: k}
			want[k] = c
			table.add(c)
		} else if rng.IntN(8) == 0 {
			delete(want, k)
			table.remove(c)
		}
		if table.count != len(want) {
			t.Fatalf("%d connections, want %d", table.count, len(want))
		}
	}
	if len(table.buckets) != most {
		t.Errorf("%d buckets for %d connections", len(table.buckets), table.count)
	}
	longest := 0
	for _, c := range table.buckets {
		n := 0
		for ; c != nil; c = c.chained {
			n++
		}
		longest = max(longest, n)
	}
	// The longest of 4,096 Poisson chains of mean 0.9 has 16 in less than one case of 10^10.
	if longest > 15 {
		t.Errorf("a chain has %d connections", longest)
	}
}

// Each end of a connection finds it, and only it: addresses of both families, and the
// same numbers in another order.
func TestKeys(t *testing.T) {
	t.Parallel()
	seen := map[key]string{}
	for _, pair := range [][2]string{
		{"10.0.0.1:1", "10.0.0.2:2"}, {"10.0.0.1:2", "10.0.0.2:1"}, {"10.0.0.1:1", "10.0.0.1:2"}, {"10.0.0.2:2", "10.0.0.2:1"},
		{"[::a00:1]:1", "[::a00:2]:2"}, {"[fd00::1]:1", "[fd00::2]:2"}, {"[fd00::1]:1", "10.0.0.2:2"}, {"[1::]:1", "[::1]:1"},
		{"127.0.0.1:7", "127.0.0.1:7"},
	} {
		there, from := keyOf(frameBetween(pair[0], pair[1]))
		back, to := keyOf(frameBetween(pair[1], pair[0]))
		if there != back || pair[0] != pair[1] && from == to {
			t.Errorf("%v: %v from end %d, and %v from end %d", pair, there, from, back, to)
		}
		if other := seen[there]; other != "" {
			t.Errorf("%v is the same connection as %s", pair, other)
		}
		seen[there] = pair[0] + " " + pair[1]
	}
}

func frameBetween(src, dst string) *capture.Frame {
	return &capture.Frame{Src: netip.MustParseAddrPort(src), Dst: netip.MustParseAddrPort(dst), Transport: capture.TCP}
}
