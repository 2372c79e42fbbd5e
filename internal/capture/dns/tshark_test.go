package dns

import (
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/miekg/dns"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/capturetest"
)

// recorded are the exchanges of a recording, by the packet of the answer.
func recorded(t *testing.T, file string) map[uint64]*capture.Exchange {
	all := make(map[uint64]*capture.Exchange)
	for _, s := range capturetest.Read(t, file) {
		p := Protocol()
		if s.Conn.Transport == capture.TCP {
			p = OverTCP()
		}
		r := capturetest.PlayChunks(p, s.Conn, s.Chunks)
		if r.Lost != 0 {
			t.Errorf("%d bytes of connection %d are lost", r.Lost, s.Conn.ID)
		}
		for _, x := range r.Exchanges {
			if x.Answered() {
				all[x.Response.Last.Packet] = x
			}
		}
	}
	return all
}

// TestResolver compares a resolver's traffic with what tshark says of it: search
// suffixes, failures, a fall-back to TCP, and repetitions, which Go's resolver and a
// hand-made client sent to a server that leaves out answers.
func TestResolver(t *testing.T) {
	const file = "testdata/resolver.pcap"
	got := recorded(t, file)
	rows := capturetest.Tshark{File: file, Filter: "dns.flags.response == 1", As: []string{"tcp.port==5300,dns", "udp.port==5300,dns"}}.Fields(t, "frame.number", "dns.time", "dns.qry.name", "dns.flags.rcode", "dns.a", "dns.aaaa", "dns.resp.ttl", "dns.id")
	for _, row := range rows {
		number, _ := strconv.ParseUint(row[0], 10, 64)
		x := got[number]
		if x == nil {
			t.Errorf("packet %s answers nothing; tshark has %v", row[0], row)
			continue
		}
		compareTime(t, x, row[1])
		var a, aaaa []string
		for _, ip := range x.DNS.Addresses {
			if ip.Is4() {
				a = append(a, ip.String())
			} else {
				aaaa = append(aaaa, ip.String())
			}
		}
		text := []string{
			strings.ToLower(row[2]), row[3], firstOf(row[4], capture.MaxAddresses), row[5], row[7],
		}
		mine := []string{x.Target, strconv.Itoa(x.Status), strings.Join(a, ","), strings.Join(aaaa, ","), fmt.Sprintf("0x%04x", x.DNS.ID)}
		if diff := cmp.Diff(text, mine); diff != "" {
			t.Errorf("packet %s (-tshark +taper):\n%s", row[0], diff)
		}
		delete(got, number)
	}
	for number := range got {
		t.Errorf("packet %d is an answer for taper and none for tshark", number)
	}
}

func firstOf(list string, n int) string {
	parts := strings.Split(list, ",")
	return strings.Join(parts[:min(n, len(parts))], ",")
}

func compareTime(t *testing.T, x *capture.Exchange, seconds string) {
	t.Helper()
	want, err := strconv.ParseFloat(seconds, 64)
	if err != nil {
		t.Errorf("packet %d: tshark's dns.time is %q", x.Response.Last.Packet, seconds)
		return
	}
	if took := x.End().Sub(x.Start()).Seconds(); math.Abs(took-want) > 1e-6 {
		t.Errorf("packet %d: %.9f s; tshark says %.9f", x.Response.Last.Packet, took, want)
	}
}

// TestRetransmissionTimer holds what the package's documentation says of dns.time: it
// begins with the first question, and from 5 seconds on with the repetition.
func TestRetransmissionTimer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "repeated.pcap")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	w := pcapgo.NewWriterNanos(f)
	if err := w.WriteFileHeader(65536, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	clock := time.Unix(1_700_000_000, 0)
	// Of each row, a question is asked, asked again after so long, and answered 10 ms later.
	waits := []time.Duration{time.Second, 4900 * time.Millisecond, 5100 * time.Millisecond, 20 * time.Second}
	for i, wait := range waits {
		q := ask(uint16(i), fmt.Sprintf("n%d.example.com.", i), dns.TypeA)
		start := clock.Add(time.Duration(i) * time.Minute)
		datagram(t, w, start, uint16(2000+i), 53, pack(q))
		datagram(t, w, start.Add(wait), uint16(2000+i), 53, pack(q))
		datagram(t, w, start.Add(wait+10*time.Millisecond), 53, uint16(2000+i), pack(reply(q)))
	}
	f.Close()
	got := recorded(t, file)
	for i, row := range (capturetest.Tshark{File: file, Filter: "dns.flags.response == 1"}.Fields(t, "frame.number", "dns.time")) {
		number, _ := strconv.ParseUint(row[0], 10, 64)
		x := got[number]
		if x == nil {
			t.Fatalf("packet %d answers nothing", number)
		}
		if took, want := x.End().Sub(x.Start()), waits[i]+10*time.Millisecond; took != want {
			t.Errorf("%s: took %s; want %s", x.Target, took, want)
		}
		if waits[i] < 5*time.Second {
			compareTime(t, x, row[1])
		} else if row[1] != "0.010000000" {
			t.Errorf("%s: tshark's dns.time is %s; its retransmission timer is not what the documentation says", x.Target, row[1])
		}
	}
}

// datagram writes an Ethernet frame with a UDP datagram.
func datagram(t *testing.T, w *pcapgo.Writer, at time.Time, from, to uint16, payload string) {
	t.Helper()
	ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: net.IPv4(10, 0, 0, 1), DstIP: net.IPv4(10, 0, 0, 2)}
	if from == 53 {
		ip.SrcIP, ip.DstIP = ip.DstIP, ip.SrcIP
	}
	udp := &layers.UDP{SrcPort: layers.UDPPort(from), DstPort: layers.UDPPort(to)}
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	ether := &layers.Ethernet{SrcMAC: make(net.HardwareAddr, 6), DstMAC: make(net.HardwareAddr, 6), EthernetType: layers.EthernetTypeIPv4}
	b := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, ether, ip, udp, gopacket.Payload(payload)); err != nil {
		t.Fatal(err)
	}
	if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: at, CaptureLength: len(b.Bytes()), Length: len(b.Bytes())}, b.Bytes()); err != nil {
		t.Fatal(err)
	}
}
