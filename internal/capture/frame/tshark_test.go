package frame_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/capturetest"
	"taper.dev/taper/internal/capture/frame"
	"taper.dev/taper/internal/capture/pcapfile"
)

// fields are what tshark is asked for, in the order of columns.
var fields = []string{
	"frame.protocols",
	"ip.src", "ipv6.src", "ip.dst", "ipv6.dst",
	"tcp.srcport", "udp.srcport", "tcp.dstport", "udp.dstport",
	"tcp.len", "udp.length",
	"tcp.seq_raw", "tcp.ack_raw", "tcp.flags", "tcp.window_size_value",
	"tcp.options.timestamp.tsval", "tcp.options.timestamp.tsecr",
	"tcp.options.mss_val", "tcp.options.wscale.shift", "ip.id",
}

// row is what tshark says of a packet, by field; of several values the first, which is the
// outermost header's.
type row map[string]string

func (r row) either(a, b string) string {
	if r[a] != "" {
		return r[a]
	}
	return r[b]
}

// number is a field as a number; 0 if it is not there.
func (r row) number(t *testing.T, field string) uint64 {
	t.Helper()
	if r[field] == "" {
		return 0
	}
	n, err := strconv.ParseUint(r[field], 0, 64)
	if err != nil {
		t.Fatalf("tshark's %s: %v", field, err)
	}
	return n
}

func ask(t *testing.T, path string) []row {
	t.Helper()
	var rows []row
	for _, columns := range (capturetest.Tshark{File: path, Filter: "frame"}).Fields(t, fields...) {
		r := row{}
		for i, c := range columns {
			r[fields[i]], _, _ = strings.Cut(c, ",")
		}
		rows = append(rows, r)
	}
	return rows
}

// compare decodes a file and compares each packet with what tshark says. It returns how
// many packets both decoded.
func compare(t *testing.T, path string) (decoded int) {
	t.Helper()
	rows := ask(t, path)
	r, err := pcapfile.Open([]string{path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	d := frame.New()
	var p capture.Packet
	var f capture.Frame
	for {
		if err := r.Next(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		want := rows[p.Number-1]
		ports := want.either("tcp.srcport", "udp.srcport")
		if v := d.Decode(&p, &f); v != frame.Decoded {
			// tshark shows a header's ports also where it finds no end of the header.
			whole := want["udp.length"] != "" || want["tcp.flags"] != "" && want["tcp.len"] != ""
			if whole && !tunnelled(want["frame.protocols"]) {
				t.Errorf("%s: packet %d has the verdict %d, and tshark decodes it: %v", path, p.Number, v, want)
			}
			continue
		}
		decoded++
		got := row{
			"src": f.Src.Addr().String(), "dst": f.Dst.Addr().String(),
			"ports": fmt.Sprint(f.Src.Port(), f.Dst.Port()), "length": fmt.Sprint(f.Length),
			"seq": fmt.Sprint(f.Seq, f.Ack, f.Flags, f.Window), "id": fmt.Sprint(f.ID),
			"options": fmt.Sprint(f.Options.Value, f.Options.Echo, f.Options.MSS, max(0, f.Options.WindowScale)),
		}
		length := want.number(t, "tcp.len")
		if f.Transport == capture.UDP {
			length = want.number(t, "udp.length") - 8
		}
		said := row{
			"src": want.either("ip.src", "ipv6.src"), "dst": want.either("ip.dst", "ipv6.dst"),
			"ports": ports + " " + want.either("tcp.dstport", "udp.dstport"), "length": fmt.Sprint(length),
			"seq": fmt.Sprint(want.number(t, "tcp.seq_raw"), want.number(t, "tcp.ack_raw"), want.number(t, "tcp.flags")&0x1f, want.number(t, "tcp.window_size_value")),
			"id":  fmt.Sprint(want.number(t, "ip.id")),
			"options": fmt.Sprint(want.number(t, "tcp.options.timestamp.tsval"), want.number(t, "tcp.options.timestamp.tsecr"),
				want.number(t, "tcp.options.mss_val"), want.number(t, "tcp.options.wscale.shift")),
		}
		for what, g := range got {
			if g != said[what] {
				t.Errorf("%s: packet %d: %s is %q, tshark says %q", path, p.Number, what, g, said[what])
			}
		}
	}
	return decoded
}

// tunnelled says whether TCP or UDP is in something else than IP.
func tunnelled(protocols string) bool {
	return strings.Contains(protocols, "icmp") || strings.Contains(protocols, "gre") || strings.Count(protocols, ":ip") > 1
}

// TestTsharkDecodesTheSame compares real captures field by field: those of gopacket.
func TestTsharkDecodesTheSame(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/gopacket/gopacket").Output()
	root := strings.TrimSpace(string(out))
	if _, statErr := os.Stat(filepath.Join(root, "pcap/test_loopback.pcap")); err != nil || statErr != nil {
		if os.Getenv("TAPER_TEST_REQUIRE_ALL") != "" {
			t.Fatalf("gopacket's captures are not there: %v, %v", err, statErr)
		}
		t.Skip("gopacket's captures are not there")
	}
	decoded := 0
	for _, name := range []string{
		"pcap/test_loopback.pcap", "layers/testdata/ethernetIP.pcap",
		"layers/testdata/linux_sll_oversized_addr.pcapng", "pcapgo/tests/le/test301.pcapng",
	} {
		decoded += compare(t, filepath.Join(root, name))
	}
	if decoded < 400 {
		t.Errorf("only %d packets were compared", decoded)
	}
}

// TestTsharkDecodesCrafted compares packets made for it, of all link types and headers.
func TestTsharkDecodesCrafted(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	var w *pcapgo.NgWriter
	interfaces := map[capture.LinkType]int{}
	packets := frame.Crafted()
	for i, p := range packets {
		index, ok := interfaces[p.Link]
		if !ok {
			iface := pcapgo.NgInterface{Name: fmt.Sprint(p.Link), LinkType: layers.LinkType(p.Link), TimestampResolution: 9}
			var err error
			if w == nil {
				w, err = pcapgo.NewNgWriterInterface(&file, iface, pcapgo.DefaultNgWriterOptions)
			} else {
				index, err = w.AddInterface(iface)
			}
			if err != nil {
				t.Fatal(err)
			}
			interfaces[p.Link] = index
		}
		info := gopacket.CaptureInfo{Timestamp: time.Unix(1_700_000_000, int64(i)), CaptureLength: len(p.Data), Length: p.Length, InterfaceIndex: index}
		if err := w.WritePacket(info, p.Data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "crafted.pcapng")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if decoded := compare(t, path); decoded < len(packets)/2 {
		t.Errorf("only %d of %d packets were compared", decoded, len(packets))
	}
}
