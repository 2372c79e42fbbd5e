package flow

import (
	"net/netip"
	"testing"
	"time"

	"taper.dev/taper/internal/capture"
)

// deafSink and deafParser take what is told and do nothing.
type deafSink struct{}

func (deafSink) Exchange(*capture.Exchange) {}
func (deafSink) Stall(*capture.Stall)       {}
func (deafSink) Conn(*capture.Conn)         {}
func (deafSink) Advance(capture.Time)       {}

type deafParser struct{}

func (deafParser) Chunk(capture.Chunk) capture.Handover { return capture.Handover{} }
func (deafParser) Close()                               {}
func (deafParser) Lost() uint64                         { return 0 }

func deafProtocol() capture.Protocol {
	return capture.Protocol{
		Name: "deaf", Ports: []uint16{9000},
		Recognise: func([]byte) capture.Recognition { return capture.Perhaps },
		New:       func(*capture.Conn, capture.Emit) capture.Parser { return deafParser{} },
	}
}

// conversation writes n connections that ask and answer in turns, round after round:
// request, response of two segments, acknowledgement.
func conversation(n, rounds int) []capture.Frame {
	var frames []capture.Frame
	wires := make([]*wire, n)
	for i := range wires {
		wires[i] = newWire(uint32(i), uint32(i)*7)
		wires[i].addr[client] = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 40000)
		wires[i].handshake(ms)
	}
	body := full
	for range rounds {
		for _, w := range wires {
			w.data(client, body[:300])
			w.data(server, body)
			w.data(server, body[:700])
			w.ack(client)
		}
	}
	for i := range wires[0].frames {
		for _, w := range wires {
			f := w.frames[i]
			f.Number = uint64(len(frames) + 1)
			f.Time = start.Add(time.Duration(len(frames)) * us)
			frames = append(frames, f)
		}
	}
	return frames
}

// BenchmarkFrame is a frame's way through flow alone: ns/op is per frame.
func BenchmarkFrame(b *testing.B) {
	for name, n := range map[string]int{"10 connections": 10, "5000 connections": 5000} {
		b.Run(name, func(b *testing.B) {
			frames := conversation(n, 200_000/n/4)
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; {
				t := New([]capture.Protocol{deafProtocol()}, deafSink{}, Options{})
				for i := 0; i < len(frames) && done < b.N; i++ {
					t.Frame(&frames[i])
					done++
				}
			}
		})
	}
}
