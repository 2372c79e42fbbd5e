package mysql

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/capturetest"
)

// TestRecording reads what Go's driver and MariaDB's client said to MariaDB 10.11: with
// and without prepared statements, several statements at once, errors. Commands are in
// the packets in which tshark sees some.
func TestRecording(t *testing.T) {
	t.Parallel()
	const file = "testdata/mariadb.pcap"
	got := capturetest.Golden(t, file, func(s *capturetest.Stream) capturetest.Result {
		r := capturetest.PlayChunks(Protocol(), s.Conn, s.Chunks)
		capturetest.NoSecret(t, r, "planted", "4.5")
		return r
	})
	var want []string
	for _, row := range (capturetest.Tshark{File: file, Filter: "mysql.command", As: []string{"tcp.port==3399,mysql"}}).Fields(t, "frame.number", "mysql.command") {
		// Packets that quit or close a statement have no response.
		if row[1] != "1" && row[1] != "25" {
			want = append(want, row[0])
		}
	}
	var asked []string
	for _, r := range got {
		for _, line := range capturetest.Summaries(r.Exchanges) {
			if !strings.HasSuffix(line, " startup") {
				asked = append(asked, strings.Split(line, "-")[0])
			}
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
	for _, s := range capturetest.Read(t, "testdata/mariadb.pcap") {
		capturetest.AnyLoss(t, func(conn *capture.Conn, chunks []capture.Chunk) capturetest.Result {
			r := capturetest.PlayChunks(Protocol(), conn, chunks)
			capturetest.NoSecret(t, r, "planted", "4.5")
			return r
		}, s.Chunks)
	}
}
