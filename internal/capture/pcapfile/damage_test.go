package pcapfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// TestTruncated cuts captures at every byte: every packet that is whole is read, and what
// is not whole is told.
func TestTruncated(t *testing.T) {
	t.Parallel()
	ng := newNg(little).iface(1, 0)
	for i := range uint64(3) {
		ng.enhanced(0, i, []byte("data"), 4, ngOption{optComment, []byte("PID: 1")})
	}
	for name, c := range map[string]struct {
		whole []byte
		ends  []int // of the header and of each packet
	}{
		"pcap":   {numbered(1, 3).bytes, []int{24, 51, 78, 105}},
		"pcapng": {ng.bytes, []int{64, 116, 168, 220}},
	} {
		if last := c.ends[3]; last != len(c.whole) {
			t.Fatalf("%s has %d bytes, not %d", name, len(c.whole), last)
		}
		for n := c.ends[0]; n < len(c.whole); n++ {
			got, r := read(t, c.whole[:n])
			want := 0
			for want < 3 && c.ends[want+1] <= n {
				want++
			}
			if len(got) != want {
				t.Errorf("%s of %d bytes: %d packets, want %d", name, n, len(got), want)
			}
			whole := slices.Contains(c.ends, n)
			if d := r.Damage(); whole != (len(d) == 0) {
				t.Errorf("%s of %d bytes: damage %q", name, n, d)
			} else if !whole && !strings.Contains(d[0], fmt.Sprintf("test: at byte %d: the file ends within", c.ends[want])) {
				t.Errorf("%s of %d bytes: damage %q, want the offset %d", name, n, d, c.ends[want])
			}
		}
	}
}

// TestDamage reads files whose middle is broken: the packets before it, and those after it
// where blocks can still be told apart.
func TestDamage(t *testing.T) {
	t.Parallel()
	good := func() *ngFile { return newNg(little).iface(1, 0).enhanced(0, 1, []byte("good"), 4) }
	lengths := good().block(blockEnhanced, make([]byte, 20)).bytes
	lengths[len(lengths)-4]++
	zip := gzipped(t, numbered(1, 1000).bytes)
	zip[len(zip)-5] ^= 1 // its checksum
	second := good().section(little).bytes
	second[len(second)-len(newNg(little).bytes)+12] = 9
	for name, c := range map[string]struct {
		bytes   []byte
		packets int
		damage  string
	}{
		"a length beyond the snap length": {
			newPcap(little, magicMicro, 96, 1).packet(1, 2, []byte("good"), 4).packet(0, 0, make([]byte, maxSnapLen+1), 0).bytes, 1,
			"test: at byte 44: a packet of 262145 captured bytes cannot be, since the file's snap length allows 262144; packets read before that: 1",
		},
		"a block of an odd length": {append(good().bytes, 6, 0, 0, 0, 33, 0, 0, 0), 1, "at byte 100: a block of type 0x6 has the length 33"},
		"a block of no length":     {append(good().bytes, 6, 0, 0, 0, 0, 0, 0, 0), 1, "at byte 100: a block of type 0x6 has the length 0"},
		"a block too large":        {append(good().bytes, 6, 0, 0, 0, 0, 0, 0, 0x80), 1, "has the length 2147483648; the most that is read is 16777216"},
		"two lengths":              {lengths, 1, "has the length 32 at its begin and 33 at its end"},
		"an unknown interface":     {good().enhanced(1, 1, nil, 0).enhanced(7, 1, nil, 0).enhanced(0, 1, nil, 0).bytes, 2, "test: damaged blocks were skipped: 2, the first at byte 100: a packet of interface 1, and the section has 1"},
		"more data than block":     {good().block(blockEnhanced, little.AppendUint32(little.AppendUint32(make([]byte, 12), 5), 5)).simple(nil, 0).bytes, 2, "at byte 100: a packet of 5 captured bytes in a block that has room for 0"},
		"a short packet block":     {good().block(blockEnhanced, nil).block(blockPacket, nil).block(blockSimple, nil).block(blockInterface, nil).block(blockProcessInfo, nil).bytes, 1, "skipped: 5, the first at byte 100: an enhanced packet block of 12 bytes"},
		"an option too long":       {good().block(blockEnhanced, append(make([]byte, 20), 1, 0, 200, 0)).bytes, 2, ""},
		"another version":          {second, 1, "skipped: 1, the first at byte 100: a section of version 9.0"},
		"gzip's checksum":          {zip, 1000, "(decompressed): at byte"},
		"gzip broken off":          {zip[:len(zip)/2], -1, "(decompressed): at byte"},
	} {
		got, r := read(t, c.bytes)
		if len(got) != c.packets && (c.packets >= 0 || len(got) == 0) {
			t.Errorf("%s: %d packets, want %d", name, len(got), c.packets)
		}
		if c.damage == "" && len(r.Damage()) == 0 {
			continue
		}
		if d := r.Damage(); len(d) != 1 || !strings.Contains(d[0], c.damage) {
			t.Errorf("%s: damage %q, want %q", name, d, c.damage)
		}
	}
}

var errDisk = errors.New("input/output error")

// TestReadError is a disk that fails: what was read before counts.
func TestReadError(t *testing.T) {
	t.Parallel()
	r, err := NewReader("disk", io.MultiReader(bytes.NewReader(numbered(1, 2).bytes), iotest.ErrReader(errDisk)))
	if err != nil {
		t.Fatal(err)
	}
	if got := drain(t, r); len(got) != 2 || len(r.Damage()) != 1 || !strings.Contains(r.Damage()[0], errDisk.Error()) {
		t.Errorf("%d packets, damage %q; want 2 and %q", len(got), r.Damage(), errDisk)
	}
}

// TestNoCapture: what is no capture is an error that names file, content and cure.
func TestNoCapture(t *testing.T) {
	t.Parallel()
	tar := make([]byte, 600)
	copy(tar, "capture.pcap")
	copy(tar[257:], "ustar")
	version := newPcap(little, magicMicro, 0, 1).bytes
	version[4] = 3
	for name, c := range map[string]struct {
		bytes []byte
		want  []string
	}{
		"text":         {[]byte("15:04:05.000000 IP 10.0.0.1.80 > 10.0.0.2.5000"), []string{`the text "15:04:05.000000 "`, "not pcap, pcapng, gzip or zstd", "tcpdump -w"}},
		"bytes":        {[]byte{0, 1, 2, 3, 255, 5, 6, 7, 8}, []string{"begins with 00 01 02 03 ff 05 06 07,", "not pcap, pcapng, gzip or zstd", "tcpdump -w"}},
		"xz":           {[]byte("\xfd7zXZ\x00\x00"), []string{"is xz", "xz -dc"}},
		"tar":          {tar, []string{"is a tar archive", "tar -xOf"}},
		"tar.gz":       {gzipped(t, tar), []string{"is a tar archive"}},
		"gzip twice":   {gzipped(t, gzipped(t, numbered(1, 1).bytes)), []string{"gzip within"}},
		"empty":        {nil, []string{"is empty"}},
		"empty gzip":   {gzipped(t, nil), []string{"is empty"}},
		"short":        {[]byte{0xd4, 0xc3}, []string{"has 2 bytes", "too short"}},
		"short header": {newPcap(little, magicMicro, 0, 1).bytes[:23], []string{"after 23 of 24 bytes"}},
		"broken gzip":  {[]byte{0x1f, 0x8b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, []string{"begins as gzip does"}},
		"broken zstd":  {[]byte{0x28, 0xb5, 0x2f, 0xfd, 0xff, 0xff, 0xff, 0xff, 0xff}, []string{"cannot be decompressed into"}},
		"version":      {version, []string{"pcap of version 3.4", "editcap"}},
		"pcapng 9":     {append(newNg(little).bytes[:12], append([]byte{9, 0}, newNg(little).bytes[14:]...)...), []string{"section of version 9.0"}},
		"no order":     {append([]byte{10, 13, 13, 10}, make([]byte, 40)...), []string{"byte order mark is 00 00 00 00"}},
	} {
		path := write(t, "some.pcap", c.bytes)
		r, err := Open([]string{path}, nil)
		if err == nil {
			t.Errorf("%s: no error", name)
			_ = r.Close()
			continue
		}
		if _, fromPipe := Open([]string{Stdin}, bytes.NewReader(c.bytes)); fromPipe == nil || strings.TrimPrefix(fromPipe.Error(), "standard input") != strings.TrimPrefix(err.Error(), path) {
			t.Errorf("%s: from a pipe %v, from a file %v", name, fromPipe, err)
		}
		for _, want := range append(c.want, path+": ") {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %q, want %q in it", name, err, want)
			}
		}
	}
}
