package http1

import (
	"fmt"
	"math"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"taper.dev/taper/internal/capture"
	ct "taper.dev/taper/internal/capture/capturetest"
)

// closed sets when each connection of a recording ended.
func closed(t *testing.T, file string, streams []*ct.Stream) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	source := gopacket.NewPacketSource(r, r.LinkType())
	for number := uint64(1); ; number++ {
		packet, err := source.NextPacket()
		if err != nil {
			return
		}
		tcp, is := packet.TransportLayer().(*layers.TCP)
		if !is || !tcp.FIN {
			continue
		}
		for _, s := range streams {
			port := uint16(tcp.SrcPort)
			side := slices.IndexFunc(s.Conn.Addr[:], func(end netip.AddrPort) bool { return end.Port() == port })
			other := s.Conn.Addr[1-max(side, 0)].Port() == uint16(tcp.DstPort)
			if side >= 0 && other && !s.Conn.Closed.Seen() {
				s.Conn.Closed = capture.Mark{Time: capture.At(packet.Metadata().Timestamp), Packet: number}
				s.Conn.ClosedBy = capture.Side(side)
			}
		}
	}
}

// TestTshark compares the times of recordings with tshark's.
func TestTshark(t *testing.T) {
	t.Parallel()
	for file, test := range map[string]struct {
		ports []string
		// least is how many responses tshark times.
		least int
	}{
		// Go's client and server, and requests written by hand: sizes, chunks, trailers, bodies
		// that come late, no bodies, uploads, 100 and 103, pipelining, HTTP/1.0.
		"testdata/nethttp.pcap": {[]string{"18080"}, 26},
		// curl with Go's server and Python's: a metadata service, uploads after 100, HTTP/1.0
		// until close; two connections change to HTTP/2.
		"testdata/curl.pcap": {[]string{"18082", "18083"}, 11},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			byAnswer := make(map[uint64]*capture.Exchange)
			for _, x := range recorded(t, file) {
				byAnswer[x.Response.Last.Packet] = x
			}
			var as []string
			for _, port := range test.ports {
				as = append(as, "tcp.port=="+port+",http")
			}
			rows := ct.Tshark{File: file, Filter: "http.response.code >= 200", As: as}.Fields(t, "frame.number", "http.time", "http.request_in", "http.response.code")
			compared := 0
			for _, row := range rows {
				number, _ := strconv.ParseUint(row[0], 10, 64)
				x := byAnswer[number]
				if x == nil || strconv.Itoa(x.Status) != row[3] {
					t.Errorf("no exchange ends with packet %d; tshark has %v", number, row)
					continue
				}
				// Without a time are those that have a 103 before them, which takes it, and
				// those that are pipelined, of which tshark times one.
				if row[1] != "" {
					compareTime(t, x, row[1], row[2])
					compared++
				}
			}
			if compared < test.least {
				t.Errorf("compared %d of %d responses", compared, len(rows))
			}
		})
	}
}

// recorded parses the connections of a recording.
func recorded(t *testing.T, file string) []*capture.Exchange {
	t.Helper()
	streams := ct.Read(t, file)
	closed(t, file, streams)
	var all []*capture.Exchange
	for _, s := range streams {
		if recognise(s.Chunks[0].Data) != capture.ByClient {
			continue // curl with prior knowledge of HTTP/2
		}
		r := ct.PlayChunks(Protocol(), s.Conn, s.Chunks)
		if r.Lost != 0 {
			t.Errorf("connection %d: %d bytes lost", s.Conn.ID, r.Lost)
		}
		ct.NoSecret(t, r, "PLANTED")
		for _, x := range r.Exchanges {
			if !x.Answered() {
				t.Errorf("%s is unanswered", short(x))
			}
			all = append(all, x)
		}
	}
	return all
}

// compareTime compares with tshark's http.time and the packet of its request.
func compareTime(t *testing.T, x *capture.Exchange, seconds, request string) {
	t.Helper()
	if request != strconv.FormatUint(x.Request.Last.Packet, 10) {
		t.Errorf("%s: tshark's request is packet %s", short(x), request)
	}
	want, err := strconv.ParseFloat(seconds, 64)
	if err != nil {
		t.Fatal(err)
	}
	got := x.Response.Last.Time.Sub(x.Request.Last.Time)
	if difference := got - time.Duration(math.Round(want*1e9)); difference.Abs() > time.Microsecond {
		t.Errorf("%s: %v; tshark has %s s", short(x), got, seconds)
	}
}

// TestMetadata reads when the credentials of a recorded metadata service end.
func TestMetadata(t *testing.T) {
	t.Parallel()
	var got []string
	for _, x := range recorded(t, "testdata/curl.pcap") {
		if m := x.HTTP.Metadata; m != nil {
			got = append(got, fmt.Sprint(x.Target, " ", m.Kind, " ", m.Token, " ", m.Expires))
		}
	}
	end := time.Date(2026, 11, 21, 16, 0, 0, 0, time.UTC).UnixNano()
	want := []string{
		"/latest/api/token 1 false 0",
		"/latest/meta-data/iam/security-credentials/ 2 true 0",
		fmt.Sprint("/latest/meta-data/iam/security-credentials/shop 3 true ", end),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metadata calls (-want +got):\n%s", diff)
	}
}
