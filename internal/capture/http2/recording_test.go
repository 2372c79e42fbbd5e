package http2

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/capture"
	ct "taper.dev/taper/internal/capture/capturetest"
)

// recording holds two connections on a loopback: Go's HTTP/2 client and server, with
// streams beside each other, and gRPC's, with good and bad answers and a streaming call
// that the client ends.
const recording = "testdata/go.pcap"

func TestGolden(t *testing.T) {
	t.Parallel()
	p := Protocol()
	ct.Golden(t, recording, func(s *ct.Stream) ct.Result { return ct.PlayChunks(p, s.Conn, s.Chunks) })
}

// TestTshark compares what was asked and answered, in which packet, with tshark.
func TestTshark(t *testing.T) {
	t.Parallel()
	p := Protocol()
	asked, answered := make(map[string][]string), make(map[string][]string)
	for _, s := range ct.Read(t, recording) {
		r := ct.PlayChunks(p, s.Conn, s.Chunks)
		if r.Lost != 0 {
			t.Errorf("connection %d: %d bytes lost", s.Conn.ID, r.Lost)
		}
		for _, x := range r.Exchanges {
			op, status := x.Op, strconv.Itoa(x.Status)
			if x.Protocol == capture.GRPC {
				op, status = "POST", "200"
			}
			packet := strconv.FormatUint(x.Request.First.Packet, 10)
			asked[packet] = append(asked[packet], op+" "+x.Target)
			if x.HTTP.HeadersEnd.Seen() {
				packet = strconv.FormatUint(x.HTTP.HeadersEnd.Packet, 10)
				answered[packet] = append(answered[packet], status)
			}
		}
	}
	as := []string{"tcp.port==18081,http2", "tcp.port==50051,http2"}
	wantAsked, wantAnswered := make(map[string][]string), make(map[string][]string)
	for _, row := range (ct.Tshark{File: recording, Filter: "http2.headers.method", As: as}).Fields(t, "frame.number", "http2.headers.method", "http2.headers.path") {
		paths := strings.Split(row[2], ",")
		for i, method := range strings.Split(row[1], ",") {
			path, _, _ := strings.Cut(paths[i], "?")
			wantAsked[row[0]] = append(wantAsked[row[0]], method+" "+path)
		}
	}
	for _, row := range (ct.Tshark{File: recording, Filter: "http2.headers.status", As: as}).Fields(t, "frame.number", "http2.headers.status") {
		wantAnswered[row[0]] = strings.Split(row[1], ",")
	}
	for _, all := range []map[string][]string{asked, answered, wantAsked, wantAnswered} {
		for _, list := range all {
			slices.Sort(list)
		}
	}
	if diff := cmp.Diff(wantAsked, asked); diff != "" {
		t.Errorf("requests (-tshark +ours):\n%s", diff)
	}
	if diff := cmp.Diff(wantAnswered, answered); diff != "" {
		t.Errorf("responses (-tshark +ours):\n%s", diff)
	}
}
