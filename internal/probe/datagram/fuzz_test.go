package datagram

import (
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
)

// FuzzHeader reads any bytes: what is a header is written back to the same.
func FuzzHeader(f *testing.F) {
	b := make([]byte, sizesBytes)
	header{1, packet, 2}.put(b)
	putSizes(b, 1500, 1500)
	f.Add(b)
	f.Add(b[:headerBytes])
	f.Add(make([]byte, headerBytes))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok := parse(b)
		if ok {
			var again [headerBytes]byte
			if h.put(again[:]); string(again[:]) != string(b[:headerBytes]) {
				t.Errorf("%x reads as %+v, which is %x", b, h, again)
			}
		}
		if size, believed, ok := parseSizes(b); ok && (size > maxPacketBytes || believed > maxPacketBytes+1) {
			t.Errorf("%x reads as sizes %d and %d", b, size, believed)
		}
	})
}

// script splits bytes into datagrams: a byte that says what follows, another for how long
// it is.
func script(b []byte, tag uint32, hello []byte) (datagrams [][]byte) {
	for len(b) >= 2 && len(datagrams) < 20 {
		what, n := b[0], int(b[1])
		b = b[2:]
		n = min(n, len(b))
		d := append([]byte(nil), b[:n]...)
		b = b[n:]
		switch {
		case what%16 == 15:
			d = hello
		case what%16 > 0: // a header of the trial's
			var h [headerBytes]byte
			header{tag, kind(what % 16), uint64(n)}.put(h[:])
			d = append(h[:], d...)
		}
		datagrams = append(datagrams, d)
	}
	return datagrams
}

// FuzzEnds sends any datagrams to ends that receive: they end, and count each once at most.
func FuzzEnds(f *testing.F) {
	f.Add([]byte{15, 0, byte(data), 2, 0, 0, byte(finish), 0, byte(bye), 0})
	f.Add([]byte{0, 1, 7, 0, 1, 7, byte(bye), 0})
	f.Add([]byte{byte(given), 8, 0, 5, 0, 0, 0, 5, 0, 0, byte(refused), 0, byte(finished), 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, part := range []func(e *end, t *tally) error{
			func(e *end, t *tally) error {
				return e.sink(probe.Spec{MessageBytes: headerBytes + 2, Duration: time.Second}, false, t)
			},
			func(e *end, t *tally) error {
				return e.echo(probe.Spec{MessageBytes: 1, ReplyBytes: 300, Duration: time.Second}, t)
			},
			func(e *end, t *tally) error {
				return e.echo(probe.Spec{MessageBytes: headerBytes, ReplyBytes: 1, Duration: time.Second}, t)
			},
		} {
			near, far := pair(t, probe.Hot)
			far.welcomes = true
			sent := int64(0)
			for _, d := range script(b, near.tag, near.hello) {
				if len(d) > 0 && near.send(d) == nil {
					sent++
				}
				if sent == 9 {
					break // as many as a socket of this kind holds
				}
			}
			near.dismiss()
			seen := newTally(probe.Default(probe.UDPBandwidth), new(origin), nil)
			if err := part(far, seen); err != nil && err != errDismissed {
				t.Errorf("%v", err)
			}
			if seen.Received+seen.Duplicated+far.foreign > sent {
				t.Errorf("%d datagrams sent, %+v and %d foreign", sent, seen.Side, far.foreign)
			}
		}
	})
}
