package journal_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/operator/journal"
)

const policies, endpoints = 1000, 100

// cycle decides about every policy once. Pods and addresses are shared between
// cycles, as those of the cluster's cache are.
func cycle(n int, pods [][endpoints]string) []journal.Entry {
	entries := make([]journal.Entry, policies)
	for i := range entries {
		e := journal.Entry{
			Policy: types.NamespacedName{Namespace: "shop", Name: pods[i][0]}, Mode: "Enforce", Sampled: true,
			At: start.Add(time.Duration(n) * 30 * time.Second), Endpoints: make([]journal.Endpoint, endpoints),
		}
		for k := range e.Endpoints {
			e.Endpoints[k] = journal.Endpoint{Pod: pods[i][k], InForce: 20, Verdict: balance.Verdict{
				Address: pods[i][k], Weight: uint32(10 + (n+k)%20), Reason: balance.Balanced,
			}}
		}
		entries[i] = e
	}
	return entries
}

// BenchmarkMemory reports what a full journal holds, of history alone and with the
// newest decisions: 1,000 policies with 100 endpoints each.
func BenchmarkMemory(b *testing.B) {
	pods := make([][endpoints]string, policies)
	for i := range pods {
		for k := range pods[i] {
			pods[i][k] = fmt.Sprintf("cart-%d-7d9f6c-%d", i, k)
		}
	}
	for b.Loop() {
		before := heap()
		j := journal.New()
		for n := range journal.HistoryLength {
			for _, e := range cycle(n, pods) {
				j.Record(e)
			}
		}
		full := heap()
		for n := range policies { // the newest entries without endpoints
			e, _ := j.Latest(types.NamespacedName{Namespace: "shop", Name: pods[n][0]})
			e.Endpoints, e.Sampled = nil, false
			j.Record(e)
		}
		b.ReportMetric(float64(full-before)/1e6, "MB")
		b.ReportMetric(float64(heap()-before)/1e6, "MB-history")
		if h := j.History(types.NamespacedName{Namespace: "shop", Name: pods[0][0]}); len(h.Lines) != endpoints {
			b.Fatalf("%d lines, want %d", len(h.Lines), endpoints)
		}
	}
	runtime.KeepAlive(pods)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkRecord is one decision about 100 endpoints.
func BenchmarkRecord(b *testing.B) {
	pods := make([][endpoints]string, policies)
	for k := range endpoints {
		pods[0][k] = fmt.Sprintf("cart-%d", k)
	}
	cycles := [][]journal.Entry{cycle(0, pods), cycle(1, pods)}
	j := journal.New()
	for n := 0; b.Loop(); n++ {
		j.Record(cycles[n%2][0])
	}
}

// BenchmarkHistory is what a look at one policy costs.
func BenchmarkHistory(b *testing.B) {
	j := journal.New()
	for n := range journal.HistoryLength {
		e := decision(n, true, nil)
		for k := range journal.HistoryEndpoints {
			e.Endpoints = append(e.Endpoints, journal.Endpoint{Verdict: balance.Verdict{Address: fmt.Sprint(k), Weight: 20}})
		}
		j.Record(e)
	}
	for b.Loop() {
		j.History(shop)
	}
}
