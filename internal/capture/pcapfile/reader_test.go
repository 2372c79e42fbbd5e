package pcapfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"taper.dev/taper/internal/capture"
)

var little = binary.LittleEndian

// numbered is a pcap file with n packets, one per second from a second on.
func numbered(from uint32, n int) *pcapFile {
	f := newPcap(little, magicMicro, 262144, 1)
	for i := range uint32(n) {
		f.packet(from+i, 0, fmt.Appendf(nil, "packet at %d", from+i), 100)
	}
	return f
}

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zstandard(t testing.TB, b []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll(b, nil)
}

// TestCompressed reads the same capture in all wrappings, however its bytes arrive.
func TestCompressed(t *testing.T) {
	t.Parallel()
	plain := numbered(1000, 300).bytes
	want, _ := read(t, plain)
	half := len(plain) / 2
	skippable := []byte{0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4}
	for name, b := range map[string][]byte{
		"plain":                   plain,
		"gzip":                    gzipped(t, plain),
		"gzip in two members":     append(gzipped(t, plain[:half]), gzipped(t, plain[half:])...),
		"zstd":                    zstandard(t, plain),
		"zstd in two frames":      append(zstandard(t, plain[:half]), zstandard(t, plain[half:])...),
		"zstd behind a skippable": append(skippable, zstandard(t, plain)...),
	} {
		for how, r := range map[string]io.Reader{
			"at once":          bytes.NewReader(b),
			"byte by byte":     iotest.OneByteReader(bytes.NewReader(b)),
			"end with data":    iotest.DataErrReader(bytes.NewReader(b)),
			"nothing at times": &hesitant{r: bytes.NewReader(b)},
		} {
			reader, err := NewReader("test", r)
			if err != nil {
				t.Fatalf("%s, %s: %v", name, how, err)
			}
			got := drain(t, reader)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %s: %s", name, how, diff)
			}
			if reader.BytesRead() != int64(len(b)) || len(reader.Damage()) > 0 {
				t.Errorf("%s, %s: read %d bytes of %d, damage %q", name, how, reader.BytesRead(), len(b), reader.Damage())
			}
		}
	}
}

// hesitant returns nothing on every other read.
type hesitant struct {
	r    io.Reader
	idle bool
}

func (h *hesitant) Read(b []byte) (int, error) {
	if h.idle = !h.idle; h.idle {
		return 0, nil
	}
	return h.r.Read(b)
}

// flusher is a compressor, or none.
type flusher interface {
	io.Writer
	Flush() error
}

type unbuffered struct{ io.Writer }

func (unbuffered) Flush() error { return nil }

// TestPipe wants each packet as soon as it was written.
func TestPipe(t *testing.T) {
	t.Parallel()
	for name, compress := range map[string]func(io.Writer) (flusher, error){
		"plain": func(w io.Writer) (flusher, error) { return unbuffered{w}, nil },
		"gzip":  func(w io.Writer) (flusher, error) { return gzip.NewWriter(w), nil },
		"zstd":  func(w io.Writer) (flusher, error) { return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := io.Pipe()
			w, err := compress(to)
			if err != nil {
				t.Fatal(err)
			}
			packets, took := make(chan string), make(chan bool)
			go func() {
				defer close(packets)
				r, err := Open([]string{Stdin}, from)
				if err != nil {
					packets <- err.Error()
					return
				}
				var p capture.Packet
				for r.Next(&p) == nil {
					packets <- string(p.Data)
					<-took
				}
			}()
			send := func(b []byte) {
				if _, err := w.Write(b); err != nil {
					t.Fatal(err)
				}
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			f := numbered(1000, 0)
			send(f.bytes)
			for i := range uint32(3) {
				text, before := fmt.Sprint("packet ", i), len(f.bytes)
				send(f.packet(i, 0, []byte(text), 100).bytes[before:])
				if got := <-packets; got != text { // blocks for ever if the reader wants more first
					t.Fatalf("read %q, want %q", got, text)
				}
				took <- true
			}
			_ = to.Close()
			if _, more := <-packets; more {
				t.Error("a packet after the end")
			}
		})
	}
}

// TestRotated gives a set of files in any order, of all formats, one of them empty, one
// without packets, one broken off.
func TestRotated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ng := newNg(little).iface(1, 0, ngOption{optName, []byte("eth0")})
	for i := range uint64(3) {
		ng.enhanced(0, (3000+i)*1e6, fmt.Appendf(nil, "packet at %d", 3000+i), 100)
	}
	broken := numbered(2000, 3).bytes
	contents := map[string][]byte{
		"c0":    numbered(1000, 2).bytes,
		"b1":    gzipped(t, broken[:len(broken)-1]),
		"a2":    ng.bytes,
		"none":  numbered(0, 0).bytes,
		"empty": nil,
	}
	var paths []string
	for name, b := range contents {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path) // in the order of a map: any
	}
	paths = append(paths, Stdin)
	stdin := numbered(2500, 1)
	r, err := Open(paths, bytes.NewReader(stdin.bytes))
	if err != nil {
		t.Fatal(err)
	}
	got := drain(t, r)
	var texts []string
	for i, p := range got {
		if p.Number != uint64(i+1) {
			t.Errorf("packet %d has the number %d", i+1, p.Number)
		}
		texts = append(texts, string(p.Data))
	}
	if diff := cmp.Diff([]string{
		"packet at 1000", "packet at 1001", "packet at 2000", "packet at 2001",
		"packet at 2500", "packet at 3000", "packet at 3001", "packet at 3002",
	}, texts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]File{
		{filepath.Join(dir, "none"), 1, 0},
		{filepath.Join(dir, "c0"), 1, 2},
		{filepath.Join(dir, "b1"), 3, 2},
		{"standard input", 5, 1},
		{filepath.Join(dir, "a2"), 6, 3},
	}, r.Files()); diff != "" {
		t.Error(diff)
	}
	want := []string{
		filepath.Join(dir, "empty") + ": is empty",
		filepath.Join(dir, "b1") + " (decompressed): at byte 84: the file ends within a packet, after 29 of its 30 bytes; packets read before that: 2",
	}
	if diff := cmp.Diff(want, r.Damage()); diff != "" {
		t.Error(diff)
	}
	size := len(stdin.bytes)
	for _, b := range contents {
		size += len(b)
	}
	if r.BytesRead() != int64(size) {
		t.Errorf("read %d bytes of %d", r.BytesRead(), size)
	}
}

// TestManyFiles are more than may be open at once.
func TestManyFiles(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = 100
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}()
	dir := t.TempDir()
	var paths []string
	for i := range 300 {
		path := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(path, numbered(uint32(i), 1).bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	slices.Reverse(paths)
	r, err := Open(paths, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := drain(t, r)
	if len(got) != len(paths) || !slices.IsSortedFunc(got, func(a, b capture.Packet) int { return int(a.Time - b.Time) }) || len(r.Damage()) > 0 {
		t.Errorf("%d packets of %d in this order; damage %q", len(got), len(paths), r.Damage())
	}
}

// TestFileVanishes after Open looked at it.
func TestFileVanishes(t *testing.T) {
	t.Parallel()
	here, gone := write(t, "here", numbered(2, 1).bytes), write(t, "gone", numbered(1, 1).bytes)
	r, err := Open([]string{here, gone}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	if got := drain(t, r); len(got) != 1 || len(r.Damage()) != 1 || !strings.Contains(r.Damage()[0], gone) {
		t.Errorf("%d packets, damage %q; want one, and that %s is gone", len(got), r.Damage(), gone)
	}
}

func TestOpenFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	capt, empty := write(t, "a.pcap", numbered(1, 1).bytes), write(t, "empty", nil)
	for name, c := range map[string]struct {
		paths []string
		want  string
	}{
		"none":          {nil, "no capture given"},
		"missing":       {[]string{filepath.Join(dir, "no.pcap")}, "no such file"},
		"directory":     {[]string{dir}, dir + " is a directory"},
		"stdin twice":   {[]string{Stdin, capt, Stdin}, "- is given twice"},
		"file twice":    {[]string{capt, filepath.Dir(capt) + "/./a.pcap"}, "is given twice"},
		"all empty":     {[]string{empty, write(t, "empty", nil)}, "none of the 2 files"},
		"one is no one": {[]string{capt, write(t, "notes.txt", []byte("shopping list"))}, "notes.txt"},
	} {
		r, err := Open(c.paths, bytes.NewReader(numbered(1, 1).bytes))
		if err == nil {
			_ = r.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q in it", name, err, c.want)
		}
	}
}
