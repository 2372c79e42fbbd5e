package attribution

import (
	"net/netip"
	"testing"

	"taper.dev/taper/internal/capture"
)

// FuzzLinker tells a Linker what no sane capture holds: answers before questions, stalls
// out of nowhere, horizons that jump. It must neither panic nor lose or invent anything,
// and slices must cover.
func FuzzLinker(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	f.Add([]byte{0, 1, 9, 9, 1, 1, 1, 9, 0, 0, 2, 200, 1, 3, 3, 255, 7, 7, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		data = data[:min(len(data), 1600)] // what is decided early is slow
		w := newWorld(1)
		a := &answer{}
		l := New(Options{Pending: 64}, a)
		told := 0
		addr := func(b byte) netip.AddrPort {
			return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, b % 4}), uint16(80+b%3))
		}
		protocols := []string{capture.HTTP, capture.DNS, capture.TLS, capture.Turns, capture.PostgreSQL, capture.GRPC}
		for ; len(data) >= 8; data = data[8:] {
			b := data
			start := t0 + capture.Time(b[0])*ms
			end := start + capture.Time(int8(b[1]))*ms
			x := w.exchange(addr(b[2]), addr(b[3]), [2]bool{b[4]&1 > 0, b[4]&2 > 0}, "GET", "/"+string(b[5:7]), start, end)
			x.Protocol, x.Index = protocols[int(b[5])%len(protocols)], uint64(b[6]%3)
			if b[4]&4 > 0 {
				x.Response = capture.Span{}
			}
			if b[4]&8 > 0 {
				w.opened(x, start-ms, start+capture.Time(int8(b[7]))*ms)
			}
			if x.Protocol == capture.DNS {
				x.DNS = &capture.DNSDetail{Addresses: []netip.Addr{addr(b[7]).Addr()}}
			}
			x.Keys.Trace, x.Process.TID = uint64(b[7]%5), uint32(b[6]%4)
			if b[4]&16 > 0 {
				l.Stall(&capture.Stall{Conn: x.Conn, Kind: capture.StallKind(1 + b[7]%6), From: w.mark(end), To: w.mark(start)})
			}
			l.Exchange(x)
			told++
			if b[4]&32 > 0 {
				l.Advance(start)
			}
		}
		s := l.Finish()
		neither := told - int(s.Requests+s.Links+s.Orphans+s.Foreign)
		if neither < 0 || int(s.Requests) != len(a.requests) || int(s.Orphans) != len(a.orphans) {
			t.Fatalf("%d told, %+v", told, s)
		}
		for _, r := range a.requests {
			if r.End() >= r.Start() {
				checkCover(t, &answer{requests: []*Request{r}})
			}
		}
	})
}
