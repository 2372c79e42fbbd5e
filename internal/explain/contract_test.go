package explain

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"

	"taper.dev/taper/internal/contracttest"
)

// The shapes that the contract promises: every name here is there for good.
const (
	contract = `{"capture": {"files": [{"name": "k8s.pcap", "first_packet": 1, "packets": 9}],
  "packets": 9, "bytes": 1, "start": "2026-01-02T03:04:05Z", "duration_s": 1.5, "truncated_packets": 1, "missing_bytes": 1,
  "duplicate_packets": 1, "malformed_packets": 1, "undecoded_packets": 1, "lost_fragments": 1, "backwards_packets": 1,
  "dropped_packets": 1, "retransmitted_packets": 1, "reordered_packets": 1, "unparsed_bytes": 1, "connections": 1,
  "mid_connections": 1, "given_up_connections": 1, "exchanges": {"http": 1}, "unanswered_exchanges": 1, "foreign_exchanges": 1,
  "damage": ["x"]},
 "service": [{"address": "172.17.36.147", "ports": [8080]}],
 "requests": [{"id": 1, "start": "2026-01-02T03:04:05.123456789Z", "client": "10.0.0.1:40000", "server": "172.17.36.147:8080",
   "protocol": "http", "method": "GET", "target": "/v1/x", "route": "/v1/{id}", "status": 200, "failed": true,
   "duration_ms": 105.0, "link": "certain", "confidence": 1.0, "packets": [331, 360],
   "parts": [{"cause": "metadata", "peer": "169.254.169.254", "ms": 86.0, "calls": 2}],
   "calls": [{"cause": "metadata", "peer": "169.254.169.254", "protocol": "http", "op": "GET", "target": "/latest/", "status": 200,
     "failed": true, "start_ms": 1, "duration_ms": 40, "link": "likely", "probability": 0.95, "stream": 3, "packets": [333, 335]}],
   "calls_omitted": 3,
   "slices": [{"cause": "metadata", "peer": "169.254.169.254", "start_ms": 1, "ms": 40, "call": 0, "packets": [333, 335]}]}],
 "requests_omitted": 5,
 "routes": [{"protocol": "http", "method": "GET", "route": "/v1/{id}", "count": 6, "failed": 1, "mean_ms": 1, "p50_ms": 1, "p90_ms": 2, "p99_ms": 3,
   "max_ms": 4, "open": 1.5, "links": {"certain": 6}, "percentiles": [{"quantile": 0.5, "ms": 1}],
   "parts": [{"cause": "metadata", "peer": "169.254.169.254", "mean_ms": 1, "share": 0.5, "calls": 2, "target": "/latest/…",
     "provider": "AWS instance metadata service"}]}],
 "findings": [{"id": "credential-refresh", "severity": "high", "title": "t", "cost_ms_per_request": 86,
   "evidence": {"packets": [333, 335]}, "fix": "f", "reference": "r", "confirmed": "c"}],
 "background": [{"cause": "call", "peer": "p", "op": "GET /health", "count": 2, "total_ms": 3}],
 "recognised": "x", "servers": [{"address": "10.0.0.1:80", "protocol": "http", "exchanges": 4}], "refusals": ["x"]}`

	differenceContract = `{"a": "ec2.pcap", "b": "k8s.pcap", "routes": [{"protocol": "http", "route": "GET /v1/{id}",
  "a": {"count": 1, "failed": 1, "mean_ms": 1, "p50_ms": 1, "p90_ms": 1, "p99_ms": 1}, "b": null,
  "delta_ms": {"p50": 1, "p99": 2, "mean": 1.5, "mean_ci": [1, 2]},
  "causes": [{"cause": "metadata", "peer": "x", "a_ms": 1, "b_ms": 2, "delta_ms": 1, "ci_ms": [0.5, 1.5]}]}], "notes": ["x"]}`
)

func TestJSONKeepsTheContract(t *testing.T) {
	t.Parallel()
	for contract, value := range map[string]any{contract: &Explanation{}, differenceContract: &Difference{}} {
		contracttest.Keeps(t, contract, value, func(w io.Writer) error { return writeJSON(w, value) })
	}
}

// What is empty is an empty list, not null: readers index it.
func TestEmptyListsAreLists(t *testing.T) {
	t.Parallel()
	s := newStory(10, 0)
	s.request("/", "/")
	for _, e := range []*Explanation{newStory(10, 0).explanation(), s.explanation()} {
		var buf bytes.Buffer
		if err := e.WriteJSON(&buf); err != nil {
			t.Fatal(err)
		}
		var top map[string]any
		if err := json.Unmarshal(buf.Bytes(), &top); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"service", "requests", "routes", "findings"} {
			if _, ok := top[name].([]any); !ok {
				t.Errorf("%s is %v", name, top[name])
			}
		}
		if bytes.Contains(buf.Bytes(), []byte("parts\": null")) || bytes.Contains(buf.Bytes(), []byte("NaN")) {
			t.Errorf("no list:\n%s", buf.String())
		}
	}
}
