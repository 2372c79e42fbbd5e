package tls

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/capturetest"
)

// TestRecording reads what OpenSSL 3.0's client and server said in handshakes of both
// versions: new, resumed, asked again, refused. What hellos say is what
// tshark reads in them.
func TestRecording(t *testing.T) {
	t.Parallel()
	const file = "testdata/openssl.pcap"
	got := capturetest.Golden(t, file, func(s *capturetest.Stream) capturetest.Result {
		r := capturetest.PlayChunks(Protocol(), s.Conn, s.Chunks)
		capturetest.NoSecret(t, r, "planted")
		return r
	})
	type hello struct{ Name, Version, Protocol string }
	want := make([]hello, len(got))
	const client = "1"
	rows := capturetest.Tshark{
		File: file, Filter: "tls.handshake.type == 1 || tls.handshake.type == 2", As: []string{"tcp.port==4433,tls", "tcp.port==4434,tls"},
	}.Fields(t, "tcp.stream", "tls.handshake.type", "tls.handshake.extensions_server_name", "tls.handshake.version", "tls.handshake.extensions.supported_version", "tls.handshake.extensions_alpn_str")
	for _, row := range rows {
		var stream int
		fmt.Sscan(row[0], &stream)
		if row[1] == client {
			want[stream].Name = row[2]
			continue
		}
		want[stream].Version, want[stream].Protocol = row[4], row[5]
		if row[4] == "" {
			want[stream].Version = row[3]
		}
	}
	for i, r := range got {
		x := r.Exchanges[0]
		mine := hello{x.Authority, "", x.TLS.ALPN}
		if x.TLS.Version != 0 {
			mine.Version = fmt.Sprintf("0x%04x", x.TLS.Version)
		}
		if diff := cmp.Diff(want[i], mine); diff != "" || x.Op != "handshake" {
			t.Errorf("connection %d (-tshark +taper):\n%s", i+1, diff)
		}
		if x.TLS.Version == version13 && strings.Contains(x.TLS.ALPN, "/") {
			t.Errorf("connection %d: %q is closed in TLS 1.3", i+1, x.TLS.ALPN)
		}
	}
}

// TestLossOfRecording leaves out each packet of the recording, and all up to each. No loss
// brings out a secret.
func TestLossOfRecording(t *testing.T) {
	t.Parallel()
	for _, s := range capturetest.Read(t, "testdata/openssl.pcap") {
		capturetest.AnyLoss(t, func(conn *capture.Conn, chunks []capture.Chunk) capturetest.Result {
			r := capturetest.PlayChunks(Protocol(), conn, chunks)
			capturetest.NoSecret(t, r, "planted")
			return r
		}, s.Chunks)
	}
}
