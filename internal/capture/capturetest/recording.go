package capturetest

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"taper.dev/taper/internal/capture"
)

// Stream is one connection of a recording.
type Stream struct {
	Conn   *capture.Conn
	Chunks []capture.Chunk
}

// Read reads a pcap recording of a loopback, where nothing is lost, late or sent twice.
// UDP packets belong to who sent first, TCP packets to who sent the SYN.
func Read(t *testing.T, file string) []*Stream {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewReader(f)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	var all []*Stream
	known := make(map[[2]netip.AddrPort]*Stream)
	source := gopacket.NewPacketSource(r, r.LinkType())
	for number := uint64(1); ; number++ {
		packet, err := source.NextPacket()
		if err != nil {
			return all
		}
		ends, payload, transport, ok := ends(packet)
		if !ok {
			continue
		}
		s, side := known[ends], capture.Client
		if s == nil {
			s, side = known[[2]netip.AddrPort{ends[1], ends[0]}], capture.Server
		}
		if s == nil {
			s, side = &Stream{Conn: &capture.Conn{ID: uint64(len(all) + 1), Addr: ends, Transport: transport}}, capture.Client
			known[ends] = s
			all = append(all, s)
		}
		if len(payload) > 0 {
			mark := capture.Mark{Time: capture.At(packet.Metadata().Timestamp), Packet: number}
			s.Chunks = append(s.Chunks, capture.Chunk{Side: side, Mark: mark, Data: bytes.Clone(payload)})
		}
	}
}

func ends(p gopacket.Packet) (ends [2]netip.AddrPort, payload []byte, transport capture.Transport, ok bool) {
	if p.NetworkLayer() == nil || p.TransportLayer() == nil {
		return ends, nil, 0, false
	}
	src, _ := netip.AddrFromSlice(p.NetworkLayer().NetworkFlow().Src().Raw())
	dst, _ := netip.AddrFromSlice(p.NetworkLayer().NetworkFlow().Dst().Raw())
	switch l := p.TransportLayer().(type) {
	case *layers.TCP:
		return [2]netip.AddrPort{netip.AddrPortFrom(src, uint16(l.SrcPort)), netip.AddrPortFrom(dst, uint16(l.DstPort))}, l.Payload, capture.TCP, true
	case *layers.UDP:
		return [2]netip.AddrPort{netip.AddrPortFrom(src, uint16(l.SrcPort)), netip.AddrPortFrom(dst, uint16(l.DstPort))}, l.Payload, capture.UDP, true
	}
	return ends, nil, 0, false
}

// Tshark is a question to tshark.
type Tshark struct {
	File string
	// Filter is a display filter; As are rules of "decode as", such as tcp.port==5300,dns.
	Filter string
	As     []string
}

// Fields says, for each packet that the filter keeps, the fields asked for. The test is
// skipped where there is no tshark.
func (q Tshark) Fields(t *testing.T, fields ...string) [][]string {
	t.Helper()
	if _, err := exec.LookPath("tshark"); err != nil {
		if os.Getenv("TAPER_TEST_REQUIRE_ALL") != "" {
			t.Fatal("tshark is not installed")
		}
		t.Skip("tshark is not installed")
	}
	args := []string{"-n", "-r", q.File, "-Y", q.Filter, "-T", "fields", "-E", "separator=/t", "-E", "occurrence=a", "-E", "aggregator=,"}
	for _, as := range q.As {
		args = append(args, "-d", as)
	}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	out, err := exec.CommandContext(t.Context(), "tshark", args...).Output()
	if err != nil {
		t.Fatalf("tshark -Y %s %s: %v", q.Filter, q.File, err)
	}
	var rows [][]string
	for line := range strings.Lines(string(out)) {
		rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	if len(rows) == 0 {
		t.Fatalf("tshark finds no packet with %s in %s", q.Filter, q.File)
	}
	return rows
}

// Golden reads a recording, has each of its connections parsed, and compares what was
// told with the text file beside it, whose name ends in .golden. With UPDATE_GOLDEN set
// it writes that file. It returns what was told of each connection.
func Golden(t *testing.T, file string, parse func(*Stream) Result) []Result {
	t.Helper()
	var all []Result
	var b strings.Builder
	for _, s := range Read(t, file) {
		r := parse(s)
		all = append(all, r)
		fmt.Fprintf(&b, "connection %d, lost %d\n", s.Conn.ID, r.Lost)
		for i, line := range Summaries(r.Exchanges) {
			x := r.Exchanges[i]
			fmt.Fprintf(&b, "  %s", line)
			if x.Code != "" {
				fmt.Fprintf(&b, " code=%s", x.Code)
			}
			if x.TLS != nil {
				fmt.Fprintf(&b, " %+v", *x.TLS)
			}
			b.WriteByte('\n')
		}
		if r.Handover.To != "" {
			fmt.Fprintf(&b, "  then %s\n", r.Handover.To)
		}
	}
	golden := strings.TrimSuffix(file, filepath.Ext(file)) + ".golden"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(b.String(), "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", golden, diff)
	}
	return all
}

// Answers are the packets that end an answer, of exchanges that are not left out.
func Answers(results []Result, leaveOut ...string) []string {
	var packets []uint64
	for _, r := range results {
		for _, x := range r.Exchanges {
			if x.Answered() && !slices.Contains(leaveOut, x.Op) {
				packets = append(packets, x.Response.Last.Packet)
			}
		}
	}
	slices.Sort(packets)
	texts := make([]string, len(packets))
	for i, p := range packets {
		texts[i] = strconv.FormatUint(p, 10)
	}
	return texts
}
