package pcapfile

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"testing"

	"taper.dev/taper/internal/capture"
)

// pcapFile writes pcap by hand, so that what the reader is told is independent of it.
type pcapFile struct {
	order binary.AppendByteOrder
	magic uint32
	bytes []byte
}

func newPcap(order binary.AppendByteOrder, magic, snapLen, link uint32) *pcapFile {
	f := &pcapFile{order: order, magic: magic}
	f.bytes = order.AppendUint32(nil, magic)
	f.bytes = order.AppendUint16(f.bytes, 2)
	f.bytes = order.AppendUint16(f.bytes, 4)
	f.bytes = order.AppendUint64(f.bytes, 0)
	f.bytes = order.AppendUint32(f.bytes, snapLen)
	f.bytes = order.AppendUint32(f.bytes, link)
	return f
}

func (f *pcapFile) packet(seconds, fraction uint32, data []byte, length uint32) *pcapFile {
	for _, v := range []uint32{seconds, fraction, uint32(len(data)), length} {
		f.bytes = f.order.AppendUint32(f.bytes, v)
	}
	if f.magic == magicModified {
		f.bytes = append(f.bytes, 0, 0, 0, 7, 8, 0, 4, 0)
	}
	f.bytes = append(f.bytes, data...)
	return f
}

// ngFile writes pcapng.
type ngFile struct {
	order binary.AppendByteOrder
	bytes []byte
}

// ngOption is one option.
type ngOption struct {
	code  uint16
	value []byte
}

func newNg(order binary.AppendByteOrder) *ngFile { return (&ngFile{order: order}).section(order) }

func (f *ngFile) section(order binary.AppendByteOrder) *ngFile {
	f.order = order
	body := order.AppendUint32(nil, byteOrderMagic)
	body = order.AppendUint16(body, 1)
	body = order.AppendUint16(body, 0)
	body = order.AppendUint64(body, 1<<64-1)
	return f.block(blockSection, body, ngOption{4, []byte("a test")})
}

func (f *ngFile) block(kind uint32, body []byte, options ...ngOption) *ngFile {
	body = pad(bytes.Clone(body))
	for _, o := range options {
		body = f.order.AppendUint16(body, o.code)
		body = f.order.AppendUint16(body, uint16(len(o.value)))
		body = pad(append(body, o.value...))
	}
	if len(options) > 0 {
		body = append(body, 0, 0, 0, 0)
	}
	f.bytes = f.order.AppendUint32(f.bytes, kind)
	f.bytes = f.order.AppendUint32(f.bytes, uint32(len(body)+blockFrame))
	f.bytes = append(f.bytes, body...)
	f.bytes = f.order.AppendUint32(f.bytes, uint32(len(body)+blockFrame))
	return f
}

func (f *ngFile) iface(link uint16, snapLen uint32, options ...ngOption) *ngFile {
	body := f.order.AppendUint16(nil, link)
	body = f.order.AppendUint16(body, 0)
	return f.block(blockInterface, f.order.AppendUint32(body, snapLen), options...)
}

func (f *ngFile) enhanced(iface uint32, ticks uint64, data []byte, length uint32, options ...ngOption) *ngFile {
	var body []byte
	for _, v := range []uint32{iface, uint32(ticks >> 32), uint32(ticks), uint32(len(data)), length} {
		body = f.order.AppendUint32(body, v)
	}
	return f.block(blockEnhanced, append(body, data...), options...)
}

func (f *ngFile) obsolete(iface uint16, ticks uint64, data []byte, length uint32, options ...ngOption) *ngFile {
	body := f.order.AppendUint16(nil, iface)
	body = f.order.AppendUint16(body, 3)
	for _, v := range []uint32{uint32(ticks >> 32), uint32(ticks), uint32(len(data)), length} {
		body = f.order.AppendUint32(body, v)
	}
	return f.block(blockPacket, append(body, data...), options...)
}

func (f *ngFile) simple(data []byte, length uint32) *ngFile {
	return f.block(blockSimple, append(f.order.AppendUint32(nil, length), data...))
}

func pad(b []byte) []byte {
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func (f *ngFile) u32(v uint32) []byte { return f.order.AppendUint32(nil, v) }
func (f *ngFile) u64(v uint64) []byte { return f.order.AppendUint64(nil, v) }

// read reads all packets that are in b.
func read(t *testing.T, b []byte) ([]capture.Packet, *Reader) {
	t.Helper()
	r, err := NewReader("test", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return drain(t, r), r
}

// drain reads all packets and closes.
func drain(t *testing.T, r *Reader) []capture.Packet {
	t.Helper()
	var all []capture.Packet
	for {
		var p capture.Packet
		err := r.Next(&p)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		p.Data = bytes.Clone(p.Data)
		all = append(all, p)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	return all
}

func write(t *testing.T, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
