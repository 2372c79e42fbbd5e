package pcapfile

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"
	"testing/iotest"

	"taper.dev/taper/internal/capture"
)

// FuzzReader reads any bytes as a capture. Packets keep their promises, memory is bounded,
// and how the bytes arrive makes no difference.
func FuzzReader(f *testing.F) {
	for _, order := range orders {
		f.Add(newPcap(order, magicMicro, 96, 1).packet(1, 2, []byte("one"), 1500).packet(3, 4, nil, 0).bytes)
		f.Add(newPcap(order, magicModified, 0, 276).packet(1, 2, []byte("one"), 3).bytes)
		ng := newNg(order)
		ng.iface(1, 0, ngOption{optName, []byte("eth0")}, ngOption{optResolution, []byte{0x8a}}, ngOption{optOffset, ng.u64(7)})
		ng.block(blockProcessInfo, ng.u32(5), ngOption{optProcessName, []byte("curl")})
		ng.enhanced(0, 99, []byte("packet"), 60, ngOption{optComment, []byte("PID: 1\nCmd: sh\nThreadId: 2")}, ngOption{optFlags, ng.u32(1)},
			ngOption{optAppleProcess, ng.u32(0)}, ngOption{optProcessThread, ng.u64(1)})
		ng.simple([]byte("x"), 1).obsolete(0, 1, []byte("y"), 1).block(blockCustom, nil).section(binary.BigEndian).iface(101, 4)
		f.Add(ng.bytes)
		f.Add(gzipped(f, ng.bytes))
		f.Add(zstandard(f, ng.bytes))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := NewReader("fuzz", bytes.NewReader(b))
		slow, slowErr := NewReader("fuzz", iotest.OneByteReader(bytes.NewReader(b)))
		if (err == nil) != (slowErr == nil) {
			t.Fatalf("at once %v, byte by byte %v", err, slowErr)
		}
		if err != nil {
			return
		}
		var p, q capture.Packet
		var number uint64
		for range 10_000 {
			err := r.Next(&p)
			if slowErr := slow.Next(&q); err != slowErr {
				t.Fatalf("at once %v, byte by byte %v", err, slowErr)
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if p.Number <= number || p.Length < len(p.Data) || p.Interface < -1 || p.Time < 0 {
				t.Fatalf("packet %+v after number %d", p, number)
			}
			if p.Number != q.Number || p.Time != q.Time || p.Process != q.Process || !bytes.Equal(p.Data, q.Data) {
				t.Fatalf("at once %+v, byte by byte %+v", p, q)
			}
			number = p.Number
		}
		if d, slowDamage := r.Damage(), slow.Damage(); len(d) != len(slowDamage) || len(d) > 3 {
			t.Fatalf("damage %q, byte by byte %q", d, slowDamage)
		}
		if n := len(r.shared.indexes); n > maxInterfaces {
			t.Fatalf("%d interfaces", n)
		}
		if r.Close() != nil || slow.Close() != nil {
			t.Fatal("cannot be closed")
		}
	})
}
