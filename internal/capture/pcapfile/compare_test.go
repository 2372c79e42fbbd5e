package pcapfile_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/pcapgo"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/capturetest"
	"taper.dev/taper/internal/capture/pcapfile"
)

// captures are the capture files that come with the module gopacket.
func captures(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/gopacket/gopacket").Output()
	root := strings.TrimSpace(string(out))
	var files []string
	for _, pattern := range []string{"pcapgo/tests/*.pcapng", "pcapgo/tests/*/*.pcapng", "pcap/*.pcap", "layers/testdata/*.pcap*"} {
		found, _ := filepath.Glob(filepath.Join(root, pattern))
		files = append(files, found...)
	}
	if err != nil || len(files) == 0 {
		if os.Getenv("TAPER_TEST_REQUIRE_ALL") != "" {
			t.Fatalf("gopacket's captures are not there: %v", err)
		}
		t.Skip("gopacket's captures are not there")
	}
	return files
}

// packets are all packets of a file.
func packets(t *testing.T, path string) ([]capture.Packet, []string) {
	t.Helper()
	r, err := pcapfile.Open([]string{path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var all []capture.Packet
	for {
		var p capture.Packet
		err := r.Next(&p)
		if err == io.EOF {
			return all, r.Damage()
		}
		if err != nil {
			t.Fatal(err)
		}
		p.Data = bytes.Clone(p.Data)
		all = append(all, p)
	}
}

// gopackets are the same by gopacket, with its first error.
func gopackets(t *testing.T, path string) ([]capture.Packet, error) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var source interface {
		ReadPacketData() ([]byte, gopacket.CaptureInfo, error)
	}
	var link func(gopacket.CaptureInfo) capture.LinkType
	if strings.HasSuffix(path, "ng") {
		r, err := pcapgo.NewNgReader(f, pcapgo.NgReaderOptions{WantMixedLinkType: true, SkipUnknownVersion: true})
		if err != nil {
			t.Fatalf("%s: gopacket: %v", path, err)
		}
		source = r
		link = func(info gopacket.CaptureInfo) capture.LinkType {
			i, err := r.Interface(info.InterfaceIndex)
			if err != nil {
				t.Fatal(err)
			}
			return capture.LinkType(i.LinkType)
		}
	} else {
		r, err := pcapgo.NewReader(f)
		if err != nil {
			t.Fatalf("%s: gopacket: %v", path, err)
		}
		source = r
		link = func(gopacket.CaptureInfo) capture.LinkType { return capture.LinkType(r.LinkType()) }
	}
	var all []capture.Packet
	for {
		data, info, err := source.ReadPacketData()
		if err != nil {
			return all, err
		}
		all = append(all, capture.Packet{Time: capture.At(info.Timestamp), Link: link(info), Data: data, Length: info.Length})
	}
}

// TestGopacketReadsTheSame compares packets with another reader's.
func TestGopacketReadsTheSame(t *testing.T) {
	t.Parallel()
	compared := 0
	for _, path := range captures(t) {
		got, damage := packets(t, path)
		want, err := gopackets(t, path)
		if len(got) != len(want) {
			t.Errorf("%s: %d packets (%q), gopacket reads %d (%v)", path, len(got), damage, len(want), err)
		}
		for i := range min(len(got), len(want)) {
			g, w := got[i], want[i]
			if w.Time < 0 { // year 1 of a packet without time
				w.Time = 0
			}
			if g.Time != w.Time || g.Link != w.Link || g.Length != w.Length || !bytes.Equal(g.Data, w.Data) || g.Number < uint64(i+1) {
				t.Errorf("%s: packet %d is %d at %v of link type %d, %d bytes of %d; gopacket has %v, %d, %d of %d",
					path, i+1, g.Number, g.Time.Time(), g.Link, len(g.Data), g.Length, w.Time.Time(), w.Link, len(w.Data), w.Length)
			}
			compared++
		}
	}
	if compared < 1000 {
		t.Errorf("only %d packets were compared", compared)
	}
}

// TestTsharkReadsTheSame compares number, time and lengths with Wireshark's.
func TestTsharkReadsTheSame(t *testing.T) {
	t.Parallel()
	// Those that differ in kind: sections, interfaces, blocks, link types, and formats.
	chosen := regexp.MustCompile(`/(le/test(016|202)|be/test(018|102)|test_loopback)\.`)
	for _, path := range captures(t) {
		if !chosen.MatchString(path) {
			continue
		}
		got, _ := packets(t, path)
		rows := capturetest.Tshark{File: path, Filter: "frame"}.Fields(t, "frame.number", "frame.time_epoch", "frame.cap_len", "frame.len")
		for _, p := range got {
			if p.Number > uint64(len(rows)) {
				t.Errorf("%s: packet %d, tshark reads %d", path, p.Number, len(rows))
				break
			}
			row := rows[p.Number-1]
			if row[0] != strconv.FormatUint(p.Number, 10) || row[1] != "" && row[1] != epoch(p.Time) || row[2] != strconv.Itoa(len(p.Data)) || row[3] != strconv.Itoa(p.Length) {
				t.Errorf("%s: packet %d at %s, %d bytes of %d; tshark says %q", path, p.Number, epoch(p.Time), len(p.Data), p.Length, row)
			}
		}
	}
}

// epoch is a time as tshark writes it.
func epoch(t capture.Time) string {
	nanos := strconv.FormatInt(int64(t%1e9), 10)
	return strconv.FormatInt(int64(t/1e9), 10) + "." + strings.Repeat("0", 9-len(nanos)) + nanos
}
