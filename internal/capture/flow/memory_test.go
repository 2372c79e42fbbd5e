package flow

import (
	"runtime"
	"testing"
	"time"

	"taper.dev/taper/internal/capture"
)

// TestMemory: a hundred thousand open connections, each of which has asked and been
// answered, must leave room for their parsers in 300 MB.
func TestMemory(t *testing.T) {
	const n = 100_000
	before := heap()
	tracker := New([]capture.Protocol{deafProtocol()}, deafSink{}, Options{})
	w := newWire(1, 1).handshake(ms)
	w.data(client, "ask")
	w.data(server, "tell")
	w.ack(client)
	for i := range n {
		for j, f := range w.frames {
			f.Number = uint64(i*len(w.frames) + j + 1)
			a := at(i, capture.TCP, 0).Src
			if f.Src == clientAddr {
				f.Src = a
			} else {
				f.Dst = a
			}
			f.Time = f.Time.Add(time.Duration(i) * us)
			tracker.Frame(&f)
		}
	}
	each := (heap() - before) / n
	if tracker.conns.count != n {
		t.Fatalf("%d connections are remembered, want %d", tracker.conns.count, n)
	}
	t.Logf("%d bytes per connection", each)
	if each > 1000 {
		t.Errorf("%d bytes per connection; want at most 1000", each)
	}
	tracker.Finish()
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
