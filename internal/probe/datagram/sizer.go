package datagram

import (
	"fmt"
	"time"

	"taper.dev/taper/internal/probe"
)

const (
	// misses is how often a size must vanish, while small packets pass, to be called too
	// large; attempts how often it is tried at most, since small ones may be lost, too.
	misses, attempts = 3, 8
	// leeway is by how much, at least, a large packet may come later than the small one
	// that was sent behind it.
	leeway = 20 * time.Millisecond
)

// sizer is the near end of a path MTU test.
type sizer struct {
	*end
	*tally
	overhead int // of IP and UDP, bytes
	packet   []byte
	serial   uint64
	rtt      time.Duration
	// far is what the far end's kernel believes in.
	far   int
	until time.Duration
}

// fate is what became of a packet of some size.
type fate int

const (
	unknownFate fate = iota // not even a small one got through
	passed
	tooLarge // somebody said so
	vanished // nobody did, and a small one got through
)

// findMTU runs the near end of a path MTU test.
func (e *end) findMTU(spec probe.Spec, rtt time.Duration, t *tally) error {
	overhead, err := headers(e.fd)
	if err != nil {
		return err
	}
	if err := dontFragment(e.fd); err != nil {
		return err
	}
	s := &sizer{end: e, tally: t, overhead: overhead, packet: make([]byte, maxPacketBytes), rtt: rtt}
	s.mark(now())
	s.until = now() + searchTime
	// Hellos have got through, both ways.
	low, high := probe.HelloBytes+overhead, min(spec.MessageBytes+overhead, maxPacketBytes)
	out, in := newSearch(low, high), newSearch(low, high)
	err = s.search(out, s.sendOut, func() int { return believed(e.fd) })
	if err == nil {
		err = s.search(in, s.askFor, func() int { return s.far })
	}
	t.mtu = &probe.PathMTUFound{Out: out.low, Believed: believed(e.fd), FarBelieved: s.far}
	if err == nil { // else the way in was not tried, or not to its end
		t.mtu.In = in.low
	}
	t.mtu.BlackHole = out.holeWithin(t.mtu.Believed) || in.holeWithin(t.mtu.FarBelieved)
	if err != nil {
		return err
	}
	return e.conclude(t.Sent)
}

// search tries sizes until it is clear which is the largest that gets through.
func (s *sizer) search(sizes *search, send func(size int) error, believed func() int) error {
	for {
		size, more := sizes.next()
		if !more {
			return nil
		}
		fate, err := s.try(size, send)
		if err != nil {
			return err
		}
		switch {
		case fate == passed:
			sizes.passed(size)
		case fate == vanished && size <= believed():
			sizes.vanished(size)
		default:
			sizes.refused(size, believed())
		}
	}
}

// try sends packets of a size until it is clear what becomes of them.
func (s *sizer) try(size int, send func(size int) error) (fate, error) {
	missed := 0
	for range attempts {
		if now() > s.until {
			return unknownFate, fmt.Errorf("the search did not end within %v", searchTime)
		}
		forget(s.fd)
		s.serial++
		large := s.serial
		switch err := send(size); {
		case err == errLarge:
			return tooLarge, nil
		case err != nil && !transient(err):
			return unknownFate, err
		}
		fate, err := s.compare(large)
		if err != nil || fate == passed || fate == tooLarge {
			return fate, err
		}
		if fate == vanished {
			if missed++; missed == misses {
				return vanished, nil
			}
		}
	}
	return unknownFate, fmt.Errorf("%s answers too few small packets to tell what becomes of large ones: it is gone, or most datagrams are lost", s.peer)
}

// compare sends a small packet behind a large one, and sees which get through.
func (s *sizer) compare(large uint64) (fate, error) {
	s.serial++
	small := s.serial
	switch err := s.transmit(packet, small, 0, sizesBytes); {
	case err == errLarge: // a router's word about the large one
		return tooLarge, nil
	case err != nil && !transient(err):
		return unknownFate, err
	}
	begun := now()
	result := unknownFate
	for until := begun + longestTry + 4*s.rtt; now() < until; {
		b, err := s.receiveWithin(until - now())
		switch {
		case err == errLarge:
			return tooLarge, nil
		case err != nil && !transient(err):
			return unknownFate, err
		case err != nil:
			continue
		}
		h, err := s.hear(b)
		switch {
		case err != nil:
			return unknownFate, err
		case h.number == large && h.kind == refused:
			return tooLarge, nil
		case h.number == large:
			return passed, nil
		case h.number == small && result == unknownFate:
			result = vanished
			s.rtt = now() - begun
			until = now() + leeway + s.rtt/4
		}
	}
	return result, nil
}

// hear reads an answer; one without a number if it is none.
func (s *sizer) hear(b []byte) (header, error) {
	h, ok := s.read(b)
	switch {
	case !ok:
		return header{}, nil
	case h.kind == bye:
		return header{}, errDismissed
	case h.kind != arrived && h.kind != given && h.kind != refused:
		return header{}, nil
	}
	s.received(now(), len(b))
	if _, far, ok := parseSizes(b); ok {
		s.far = far
	}
	return h, nil
}

// sendOut sends a packet of a size.
func (s *sizer) sendOut(size int) error {
	return s.transmit(packet, s.serial, 0, size-s.overhead)
}

// askFor asks for a packet of a size.
func (s *sizer) askFor(size int) error { return s.transmit(ask, s.serial, size, sizesBytes) }

func (s *sizer) transmit(k kind, number uint64, size, length int) error {
	header{s.tag, k, number}.put(s.packet)
	putSizes(s.packet, size, 0)
	err := s.send(s.packet[:length])
	if err == nil {
		s.sent(now(), length)
	}
	return err
}
