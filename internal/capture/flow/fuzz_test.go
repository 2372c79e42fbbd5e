package flow

import (
	"encoding/binary"
	"testing"
	"time"

	"taper.dev/taper/internal/capture"
)

// frameBytes is how many bytes of fuzzing input make a frame.
const frameBytes = 14

// framesOf makes frames of any bytes: few addresses, sequence numbers mostly near each
// other, clocks that step.
func framesOf(script []byte) []capture.Frame {
	var frames []capture.Frame
	now := start
	for ; len(script) >= frameBytes; script = script[frameBytes:] {
		b := script[:frameBytes]
		src, dst := clientAddr, serverAddr
		if b[0]&1 != 0 {
			src, dst = dst, src
		}
		if b[0]&2 != 0 {
			dst = src // to itself
		}
		f := capture.Frame{
			Number: uint64(len(frames) + 1), Src: src, Dst: dst, Transport: capture.TCP,
			Interface: int(b[0]>>2&3) - 1, Direction: capture.Direction(b[0] >> 4 & 3 % 3),
			Flags: capture.Flags(b[1]) & 31, Window: uint16(b[2]), ID: uint16(b[3] & 3),
			Seq: sequence(b[4:7]), Ack: sequence(b[7:10]),
			Options: capture.Options{MSS: uint16(b[2]) * 8, WindowScale: int8(b[2]%16) - 1, Timestamps: b[1]&32 != 0, SACKs: b[1]&64 != 0, DSACK: b[1]&128 != 0},
		}
		if b[0]&0xc0 == 0xc0 {
			f.Transport = capture.UDP
		}
		f.Length = int(b[10])
		if b[11]&1 != 0 {
			f.Length *= 256
		}
		f.Payload = make([]byte, f.Length>>(b[11]>>6))
		copy(f.Payload, script)
		if b[11]&2 != 0 {
			f.Process = capture.Process{PID: uint32(b[11])}
		}
		now = now.Add(step(b[12], b[13]))
		f.Time = now
		frames = append(frames, f)
	}
	return frames
}

func sequence(b []byte) uint32 {
	near := uint32(binary.BigEndian.Uint16(b))
	switch b[2] & 7 {
	case 0:
		return near << 16
	case 1:
		return -near
	}
	return near
}

func step(kind, n byte) time.Duration {
	d := time.Duration(n)
	switch kind & 7 {
	case 0:
		return d * ms
	case 1:
		return d * time.Second
	case 2:
		return -d * ms
	case 3:
		return d * time.Hour
	case 4:
		return -d * time.Hour
	}
	return d * us
}

// FuzzTracker gives any frames to a Tracker, and checks what must hold for all.
func FuzzTracker(f *testing.F) {
	f.Add([]byte("abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnop"))
	for _, seed := range seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		frames := framesOf(script)
		var captured int
		for i := range frames {
			captured += len(frames[i].Payload)
		}
		s := &told{talks: map[uint64]*talk{}}
		var delivered int
		count := func(p capture.Protocol) capture.Protocol {
			p.New = func(*capture.Conn, capture.Emit) capture.Parser { return counting{&delivered} }
			return p
		}
		lines, turns := count(s.lines()), count(s.listener(capture.Turns))
		tracker := New([]capture.Protocol{lines, turns}, s, Options{MaxConns: 2})
		for i := range frames {
			tracker.Frame(&frames[i])
			if tracker.conns.count > 2 || tracker.early > maxAll {
				t.Fatalf("%d connections, %d bytes are kept", tracker.conns.count, tracker.early)
			}
		}
		tracker.Finish()
		tracker.AddTo(&s.stats)
		if delivered > captured {
			t.Errorf("%d bytes were told of %d captured", delivered, captured)
		}
		if tracker.early != 0 || uint64(len(s.conns)) != s.stats.Conns || tracker.conns.count != 0 {
			t.Errorf("at the end %d bytes are kept, %d of %d connections told, %d left", tracker.early, len(s.conns), s.stats.Conns, tracker.conns.count)
		}
		checkStalls(t, s.stalls)
	})
}

// checkStalls sees that they take time and do not overlap within a sender.
func checkStalls(t *testing.T, stalls []capture.Stall) {
	t.Helper()
	type sender struct {
		conn *capture.Conn
		side capture.Side
	}
	last := map[sender]capture.Time{}
	for _, s := range stalls {
		by := sender{s.Conn, s.Sender}
		if s.Kind == 0 || s.Duration() <= 0 || s.From.Time < last[by] || !s.From.Seen() || !s.To.Seen() {
			t.Errorf("stall %+v after %v", s, last[by])
		}
		last[by] = s.To.Time
	}
}

// counting counts the bytes that it is told.
type counting struct{ bytes *int }

func (c counting) Chunk(ch capture.Chunk) capture.Handover {
	if ch.Missing < 0 || ch.Missing == 0 && len(ch.Data) == 0 || !ch.Mark.Seen() {
		panic("a chunk of nothing")
	}
	*c.bytes += len(ch.Data)
	return capture.Handover{}
}

func (counting) Close()       {}
func (counting) Lost() uint64 { return 0 }

// seeds are conversations with losses, as fuzzing input.
func seeds() [][]byte {
	const syn, ack = byte(capture.SYN), byte(capture.ACK)
	frame := func(side, flags byte, seq, ack uint16, length, wait byte) []byte {
		b := []byte{side, flags, 50, byte(seq), 0, 0, 2, 0, 0, 2, length, 0, 0, wait}
		binary.BigEndian.PutUint16(b[4:], seq)
		binary.BigEndian.PutUint16(b[7:], ack)
		return b
	}
	join := func(frames ...[]byte) []byte {
		var all []byte
		for _, f := range frames {
			all = append(all, f...)
		}
		return all
	}
	open := join(frame(0, syn, 0, 0, 0, 1), frame(1, syn|ack, 0, 1, 0, 1), frame(0, ack, 1, 1, 0, 1))
	return [][]byte{
		join(open, frame(0, ack, 1, 1, 100, 1), frame(0, ack, 1, 1, 100, 250), frame(1, ack, 1, 101, 50, 1)),
		join(open, frame(0, ack, 101, 1, 100, 1), frame(1, ack, 1, 1, 0, 1), frame(0, ack, 1, 1, 100, 5)),
		join(open, frame(0, ack, 101, 1, 100, 1), frame(1, ack, 1, 201, 9, 9), frame(0, ack|byte(capture.FIN), 201, 10, 1, 1)),
		join(frame(0, ack, 1, 1, 100, 1), frame(0, syn, 700, 0, 0, 1), frame(1, byte(capture.RST)|ack, 0, 701, 0, 1)),
	}
}
