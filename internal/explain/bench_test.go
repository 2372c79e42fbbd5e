package explain

import (
	"testing"
	"time"
)

// One request of three calls, as it is summed up and mostly not kept.
func BenchmarkCollect(b *testing.B) {
	s := newStory(DefaultRequests, 0)
	r := s.request("/v1/42", "/v1/{id}", articleSteps(5, false)...)
	for range DefaultRequests {
		s.Request(r)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Request(r)
	}
}

// The whole way from a file to the explanation.
func BenchmarkRun(b *testing.B) {
	path, capture := written(b, 5000)
	packets := 0.0
	b.SetBytes(int64(len(capture)))
	began := time.Now()
	for b.Loop() {
		e, err := Run(b.Context(), Options{Paths: []string{path}, KeepRequests: DefaultRequests})
		if err != nil {
			b.Fatal(err)
		}
		packets += float64(e.Capture.Packets)
	}
	b.ReportMetric(packets/time.Since(began).Seconds(), "packets/s")
}
