package probe_test

import (
	"io"
	"testing"

	"taper.dev/taper/internal/contracttest"
	"taper.dev/taper/internal/probe"
)

// What taper net test --json promises. No figure in it is 0: what was not measured is
// missing.
const resultContract = `{"started": "2026-11-21T18:00:00Z", "from": "web-1", "to": "10.0.0.2:4000", "path": "host", "tests": [
  {"name": "tcp_bw", "direction": "out", "bytes_per_s": 1.2e9, "ci": [1.1e9, 1.3e9], "message_bytes": 65536, "duration_s": 2, "streams": 1, "trials": [1.2e9]},
  {"name": "tcp_lat", "direction": "out", "median_us": 47, "rtt_us": {"count": 12000, "mean": 50, "p50": 48, "p99": 90, "p999": 140, "max": 160},
   "qperf_us": 24, "message_bytes": 1, "duration_s": 2, "streams": 1, "trials": [47]}],
 "conditions": {"mtu": 1500, "noise_floor_us": 2.5, "shaped": false}}`

func TestTheContractOfResults(t *testing.T) {
	t.Parallel()
	var r probe.Result
	contracttest.Keeps(t, resultContract, &r, func(w io.Writer) error { return probe.WriteJSON(w, &r) })
	if r.Tests[1].RTT.P999 == nil || *r.Tests[1].RTT.P999 != 140 || r.Conditions.NoiseFloorUS == nil {
		t.Errorf("read as %+v", r.Tests[1])
	}
}

const comparisonContract = `{"old": {"name": "before", "started": "2026-11-21T18:00:00Z", "from": "a", "to": "b"},
 "new": {"name": "after", "started": "2026-11-22T18:00:00Z", "incomplete": "interrupted"}, "tests": [
  {"name": "tcp_bw", "direction": "out", "path": "host", "message_bytes": 65536, "streams": 1, "mode": "cold", "old": 2, "new": 1, "old_trials": 10, "new_trials": 12,
   "verdict": {"outcome": "worse", "ratio": 0.5, "ci": [0.4, 0.6], "noise_floor": 1.02, "trials": 10, "needed_trials": 6}}], "notes": ["…"]}`

func TestTheContractOfComparisons(t *testing.T) {
	t.Parallel()
	var c probe.Comparison
	contracttest.Keeps(t, comparisonContract, &c, func(w io.Writer) error { return probe.WriteJSON(w, &c) })
}
