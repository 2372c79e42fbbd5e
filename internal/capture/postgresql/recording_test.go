package postgresql

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/capturetest"
)

// TestRecording reads what psql and pgbench said to PostgreSQL 15: simple and prepared
// statements, COPY in both directions, errors, a connection that goes over to TLS. The
// ends of its exchanges are where tshark sees ReadyForQuery.
func TestRecording(t *testing.T) {
	t.Parallel()
	const file = "testdata/psql.pcap"
	got := capturetest.Golden(t, file, func(s *capturetest.Stream) capturetest.Result {
		r := capturetest.PlayChunks(Protocol(), s.Conn, s.Chunks)
		capturetest.NoSecret(t, r, "secret", "planted", "1.5")
		return r
	})
	var want []string
	for _, row := range (capturetest.Tshark{File: file, Filter: "pgsql", As: []string{"tcp.port==5433,pgsql"}}).Fields(t, "frame.number", "pgsql.type") {
		if strings.Contains(row[1], "Ready for query") {
			want = append(want, row[0])
		}
	}
	if diff := cmp.Diff(want, capturetest.Answers(got, "SSLRequest")); diff != "" {
		t.Errorf("packets that end answers (-tshark +taper):\n%s", diff)
	}
}

// TestLossOfRecording leaves out each packet of the recording, and all up to each. No loss
// brings out a secret.
func TestLossOfRecording(t *testing.T) {
	t.Parallel()
	for _, s := range capturetest.Read(t, "testdata/psql.pcap") {
		capturetest.AnyLoss(t, func(conn *capture.Conn, chunks []capture.Chunk) capturetest.Result {
			r := capturetest.PlayChunks(Protocol(), conn, chunks)
			capturetest.NoSecret(t, r, "secret", "planted")
			return r
		}, s.Chunks)
	}
}
