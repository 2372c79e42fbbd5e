package promql

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"taper.dev/taper/internal/model"
)

// BenchmarkCollect reads three metrics of 1,000 services with 100 pods each. What it
// allocates in all bounds what it adds to the heap; serving the answers is part of
// the time.
func BenchmarkCollect(b *testing.B) {
	endpoints := make([]model.Endpoint, 100_000)
	var body bytes.Buffer
	body.WriteString(`{"status":"success","data":{"resultType":"vector","result":[`)
	for i := range endpoints {
		namespace, pod := fmt.Sprintf("team-%03d", i/1000), fmt.Sprintf("checkout-%03d-7d9f8b6c5d-%05d", i/100%1000, i)
		endpoints[i] = model.Endpoint{Address: fmt.Sprintf("10.%d.%d.%d:8080", i>>16, i>>8&255, i&255), Name: namespace + "/" + pod}
		for _, half := range [][2]string{{"value", fmt.Sprintf("0.%d", 123456789+i)}, {"time", fmt.Sprintf("1732187%03d.%03d", i%1000, i%997)}} {
			if body.Bytes()[body.Len()-1] != '[' {
				body.WriteByte(',')
			}
			fmt.Fprintf(&body, `{"metric":{"namespace":%q,"pod":%q,"taper_reading":%q},"value":[1732187448.731,%q]}`, namespace, pod, half[0], half[1])
		}
	}
	body.WriteString(`]}}`)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(body.Bytes()) }))
	defer server.Close()
	s, err := New(Config{
		URL: server.URL, NamespaceLabel: "namespace", Window: time.Minute,
		CPU: ClusterCPU, Requests: ClusterRequests, InFlight: ClusterInFlight,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if got, err := s.Collect(b.Context(), endpoints); err != nil || len(got) != len(endpoints) {
			b.Fatal(len(got), err)
		}
	}
	b.ReportMetric(float64(body.Len())/1e6, "MB/answer")
}
