package pcapfile

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"taper.dev/taper/internal/capture"
)

// BenchmarkReader reads packets of 200 bytes. Its metric is packets per second.
func BenchmarkReader(b *testing.B) {
	const n = 100_000
	data := make([]byte, 184)
	for i := range data {
		data[i] = byte(i * i)
	}
	plain := newPcap(little, magicNano, 0, 1)
	ng, commented := newNg(little).iface(1, 0), newNg(little).iface(1, 0)
	for i := range uint32(n) {
		little.PutUint32(data, i)
		plain.packet(i, i, data, 200)
		ng.enhanced(0, uint64(i), data, 200, ngOption{optFlags, ng.u32(1)})
		commented.enhanced(0, uint64(i), data, 200,
			ngOption{optComment, []byte("PID: 7531\nCmd: /usr/bin/curl\nArgs: curl http://10.0.0.1/")},
			ngOption{optComment, []byte("ThreadId: 7533\nThreadName: curl")})
	}
	path := filepath.Join(b.TempDir(), "capture")
	if err := os.WriteFile(path, plain.bytes, 0o600); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		bytes []byte // nil is the file
	}{
		{"file", nil},
		{"pcap", plain.bytes},
		{"pcapng", ng.bytes},
		{"ptcpdump", commented.bytes},
		{"gzip", gzipped(b, plain.bytes)},
		{"zstd", zstandard(b, plain.bytes)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var p capture.Packet
			var r *Reader
			for range b.N {
				if r == nil {
					var err error
					if c.bytes == nil {
						r, err = Open([]string{path}, nil)
					} else {
						r, err = NewReader(c.name, bytes.NewReader(c.bytes))
					}
					if err != nil {
						b.Fatal(err)
					}
				}
				if err := r.Next(&p); err == io.EOF {
					if err := r.Close(); err != nil {
						b.Fatal(err)
					}
					r = nil
				} else if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "packets/s")
		})
	}
}
