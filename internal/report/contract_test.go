package report

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/contracttest"
)

// The shape that the contract promises: every name here is there for good.
const contract = `{"scenario": "fibonacci", "arms": [{"name": "least-request", "requests": 60000, "errors": 0,
  "p50_ms": 0, "p90_ms": 0, "p95_ms": 0, "p99_ms": 0, "p999_ms": 0, "cpu_cores": 0,
  "endpoints": [{"address": "127.0.1.1:8080", "requests_per_s": 0, "cpu_cores": 0, "p99_ms": 0, "weight": 0}]}],
 "ratios": {"least-latency/least-request": {"p50": 0, "p99": 0, "cpu": 0}}}`

func TestJSONKeepsTheContract(t *testing.T) {
	var e Experiment
	contracttest.Keeps(t, contract, &e, e.WriteJSON)
}

func TestJSONRoundTrip(t *testing.T) {
	text, err := os.ReadFile("testdata/experiment.json")
	if err != nil {
		t.Fatal(err)
	}
	var e Experiment
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&e); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := e.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	contracttest.Has(t, contract, out.Bytes())
	var before, after any
	if err := json.Unmarshal(text, &before); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &after); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("reading and writing changed the experiment (-read +written):\n%s", diff)
	}
}
