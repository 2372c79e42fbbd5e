package attribution

import (
	"fmt"
	"testing"
)

type discard struct{}

func (discard) Request(*Request) {}
func (discard) Orphan(*Orphan)   {}

// BenchmarkLinker measures exchanges per second, from told to attributed.
func BenchmarkLinker(b *testing.B) {
	for _, open := range []float64{0.02, 0.25, 2, 10} {
		b.Run(fmt.Sprint(open), func(b *testing.B) {
			n := 20_000
			if open > 1 {
				n = 2000
			}
			w := three(1, n, open)
			told := w.script()
			b.ReportAllocs()
			for b.Loop() {
				l := New(Options{}, discard{})
				for _, e := range told {
					l.Exchange(e.x)
					l.Advance(e.until)
				}
				l.Finish()
			}
			b.ReportMetric(float64(b.N*len(told))/b.Elapsed().Seconds(), "exchanges/s")
		})
	}
}

func BenchmarkPattern(b *testing.B) {
	var out []byte
	for b.Loop() {
		out = appendPattern(out[:0], "http", "/v1/orders/550e8400-e29b-41d4-a716-446655440000/items/12345")
	}
}
