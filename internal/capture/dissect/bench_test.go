package dissect

import (
	"net/netip"
	"testing"
	"time"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/synth"
)

// mixedPlan is a service that for each request asks DNS, on a fresh connection a search
// engine, and a cache on pooled ones.
func mixedPlan(requests int) synth.Plan {
	return synth.Plan{
		Seed: 3, Requests: requests, Open: 4, Clients: 40, RoundTrip: 300 * time.Microsecond,
		Routes: []synth.Route{{
			Method: "GET", Path: "/v1/offers/%d", Finish: synth.Gamma(500*time.Microsecond, 4),
			Steps: []synth.Step{{
				Pause: synth.Gamma(time.Millisecond, 4),
				Call: synth.Call{
					Peer: netip.MustParseAddrPort("10.2.0.9:9200"), Host: "search.internal", Method: "POST", Path: "/offers/_search",
					Took: synth.Gamma(8*time.Millisecond, 10), Sent: 400, Got: 4000,
					Fresh: true, Resolve: true, ResolveTook: synth.Constantly(200 * time.Microsecond), Search: []string{"default.svc.cluster.local"},
				},
			}, {
				Pause: synth.Gamma(time.Millisecond, 4), Times: 3,
				Call: synth.Call{
					Peer: netip.MustParseAddrPort("10.2.0.10:9200"), Host: "cache.internal", Method: "GET", Path: "/items/%d",
					Took: synth.Gamma(time.Millisecond, 10), Got: 700,
				},
			}},
		}},
	}
}

// quiet is a sink that only counts.
type quiet struct{ exchanges int }

func (q *quiet) Exchange(*capture.Exchange) { q.exchanges++ }
func (q *quiet) Stall(*capture.Stall)       {}
func (q *quiet) Conn(*capture.Conn)         {}
func (q *quiet) Advance(capture.Time)       {}

// BenchmarkRun is the whole way from packets in memory to exchanges, of HTTP and DNS.
func BenchmarkRun(b *testing.B) {
	c, err := synth.New(mixedPlan(10_000))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var q quiet
	for b.Loop() {
		c.Rewind()
		q = quiet{}
		if _, err := Run(b.Context(), c, &q); err != nil {
			b.Fatal(err)
		}
	}
	packets := float64(c.Len()) * float64(b.N)
	b.ReportMetric(packets/b.Elapsed().Seconds()/1e6, "Mpackets/s")
	b.ReportMetric(b.Elapsed().Seconds()*1e9/packets, "ns/packet")
	b.ReportMetric(float64(c.Len())/float64(q.exchanges), "packets/exchange")
}
