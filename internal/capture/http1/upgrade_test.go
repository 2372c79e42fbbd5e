package http1

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"taper.dev/taper/internal/capture"
	ct "taper.dev/taper/internal/capture/capturetest"
	ourhttp2 "taper.dev/taper/internal/capture/http2"
)

// TestUpgradeToHTTP2 hands the question over too: it is answered by HTTP/2, on stream 1.
func TestUpgradeToHTTP2(t *testing.T) {
	t.Parallel()
	var frames, block bytes.Buffer
	hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: "404"})
	framer := http2.NewFramer(&frames, nil)
	framer.WriteSettings()
	framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, EndStream: true, BlockFragment: block.Bytes()})

	conn := withEnds(capture.Conn{})
	r := ct.PlayChunks(Protocol(), conn, ct.Chunks([]ct.Said{
		ct.C("GET /up HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"),
		ct.S("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + frames.String()),
	}))
	if r.Handover.To != capture.HTTP2 || !bytes.Equal(r.Handover.Rest, frames.Bytes()) || len(r.Exchanges) != 0 {
		t.Fatalf("handed over to %q with %d bytes; told %v", r.Handover.To, len(r.Handover.Rest), shorts(r.Exchanges))
	}
	r = ct.PlayChunks(ourhttp2.Protocol(), conn, []capture.Chunk{{Side: capture.Server, Mark: ct.Mark(2), Data: r.Handover.Rest}})
	if len(r.Exchanges) != 1 || conn.Upgraded != nil {
		t.Fatalf("told %v", shorts(r.Exchanges))
	}
	if x := r.Exchanges[0]; x.Target != "/up" || x.Authority != "h" || x.Status != 404 || x.Request.Last.Packet != 1 || x.Response.Last.Packet != 2 || x.Stream != 1 {
		t.Errorf("told %s", short(x))
	}
}

// TestCurlUpgrades reads what curl and Go's server made of an upgrade.
func TestCurlUpgrades(t *testing.T) {
	t.Parallel()
	var got []string
	for _, s := range ct.Read(t, "testdata/curl.pcap") {
		r := ct.PlayChunks(Protocol(), s.Conn, s.Chunks)
		if r.Handover.To != capture.HTTP2 {
			continue
		}
		rest := s.Chunks[r.Message-1:]
		rest[0].Data = r.Handover.Rest
		r = ct.PlayChunks(ourhttp2.Protocol(), s.Conn, rest)
		if r.Lost != 0 {
			t.Errorf("connection %d: %d bytes lost", s.Conn.ID, r.Lost)
		}
		for _, x := range r.Exchanges {
			got = append(got, fmt.Sprintf("%d %s %s %d %v", x.Stream, x.Op, x.Target, x.Status, x.Answered()))
		}
	}
	want := []string{"1 GET /up 200 true", "3 GET /second 200 true", "1 POST /post 200 true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("exchanges (-want +got):\n%s", diff)
	}
}
