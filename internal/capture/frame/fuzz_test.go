package frame

import (
	"testing"

	"taper.dev/taper/internal/capture"
)

// FuzzDecode decodes any bytes as several packets: of each, a byte says the link type,
// another its length, another how much was cut.
func FuzzDecode(f *testing.F) {
	links := []capture.LinkType{
		capture.LinkNull, capture.LinkEthernet, capture.LinkRaw, capture.LinkLoop, capture.LinkSLL,
		capture.LinkIPv4, capture.LinkIPv6, capture.LinkSLL2, 105,
	}
	for _, c := range decodedCases() {
		if len(c.packet.Data) > 255 {
			continue
		}
		for i, l := range links {
			if l == c.packet.Link {
				f.Add(append([]byte{byte(i), byte(len(c.packet.Data)), byte(c.packet.Length - len(c.packet.Data))}, c.packet.Data...))
			}
		}
	}
	body := udpBytes(1, 2, "0123456789abcdef0123456789")
	for _, v6 := range []bool{false, true} {
		var script []byte
		for _, p := range fragmented(v6, 1, body, all(0, 16, true), all(16, 24, true), all(24, len(body), false)) {
			script = append(append(script, 2, byte(len(p.Data)), 0), p.Data...)
		}
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		d := New()
		var frame capture.Frame
		number, held := uint64(0), uint64(0)
		for len(script) >= 3 {
			number++
			n := min(int(script[1]), len(script)-3)
			p := capture.Packet{
				Number: number, Time: capture.Time(number) * 1e9, Link: links[int(script[0])%len(links)],
				Data: script[3 : 3+n : 3+n], Length: n + int(script[2]),
			}
			script = script[3+n:]
			switch v := d.Decode(&p, &frame); v {
			case Decoded:
				if len(frame.Payload) > frame.Length || frame.Number != number || frame.Time != p.Time {
					t.Fatalf("frame %+v of packet %+v", frame, p)
				}
				if frame.Transport != capture.TCP && frame.Transport != capture.UDP {
					t.Fatalf("transport %d", frame.Transport)
				}
				if !frame.Src.IsValid() || !frame.Dst.IsValid() || frame.Src.Addr().Is4In6() || frame.Dst.Addr().Is4In6() {
					t.Fatalf("from %v to %v", frame.Src, frame.Dst)
				}
				if scale := frame.Options.WindowScale; scale < -1 || scale > maxScale {
					t.Fatalf("window scale %d", scale)
				}
			case Held:
				held++
			case Undecoded, Malformed:
			default:
				t.Fatalf("verdict %d", v)
			}
			check(t, &d.fragments)
		}
		var s capture.Stats
		d.AddTo(&s)
		if s.Truncated+s.Undecoded+s.Malformed > number || s.Fragments > number {
			t.Fatalf("%d packets, counted %+v", number, s)
		}
	})
}
