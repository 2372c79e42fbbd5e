package redis

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/capturetest"
)

// TestRecording reads what redis-cli said to Redis 7.0: both versions of the protocol, a
// transaction, a pipeline, subscriptions. Commands are in the packets in
// which tshark sees some.
func TestRecording(t *testing.T) {
	t.Parallel()
	const file = "testdata/redis-cli.pcap"
	got := capturetest.Golden(t, file, func(s *capturetest.Stream) capturetest.Result {
		r := capturetest.PlayChunks(Protocol(), s.Conn, s.Chunks)
		capturetest.NoSecret(t, r, "planted")
		return r
	})
	var want []string
	for _, row := range (capturetest.Tshark{File: file, Filter: "resp && tcp.dstport == 6399", As: []string{"tcp.port==6399,resp"}}).Fields(t, "frame.number") {
		want = append(want, row[0])
	}
	var asked []string
	for _, r := range got {
		for _, line := range capturetest.Summaries(r.Exchanges) {
			asked = append(asked, strings.Split(line, "-")[0])
		}
	}
	if diff := cmp.Diff(want, slices.Compact(asked)); diff != "" {
		t.Errorf("packets with commands (-tshark +taper):\n%s", diff)
	}
}

// TestLossOfRecording leaves out each packet of the recording, and all up to each. No loss
// brings out a secret.
func TestLossOfRecording(t *testing.T) {
	t.Parallel()
	for _, s := range capturetest.Read(t, "testdata/redis-cli.pcap") {
		capturetest.AnyLoss(t, func(conn *capture.Conn, chunks []capture.Chunk) capturetest.Result {
			r := capturetest.PlayChunks(Protocol(), conn, chunks)
			capturetest.NoSecret(t, r, "planted")
			return r
		}, s.Chunks)
	}
}
