package pcapfile

import (
	"fmt"
	"math"
	"math/bits"

	"taper.dev/taper/internal/capture"
)

// Options of pcapng.
const (
	optEnd     = 0
	optComment = 1
	// Of interfaces:
	optName       = 2
	optResolution = 9
	optOffset     = 14
	// Of packets:
	optFlags         = 2
	optProcessThread = 8
	optAppleProcess  = 0x8001 // number of a process information block
	// Of Apple's process information blocks:
	optProcessName = 2
)

// option takes the first option off b. It says false at the end of the list, and where
// the list is broken.
func (s *ngStream) option(b []byte) (code uint16, value, rest []byte, ok bool) {
	if len(b) < 4 {
		return 0, nil, nil, false
	}
	code, n := s.order.uint16(b), int(s.order.uint16(b[2:]))
	if code == optEnd || n > len(b)-4 {
		return 0, nil, nil, false
	}
	return code, b[4 : 4+n], behind(b[4:], n), true
}

// packetOptions says whose a packet is, and which way it went.
func (s *ngStream) packetOptions(b []byte, p *capture.Packet) {
	var apple capture.Process
	for {
		code, value, rest, ok := s.option(b)
		if !ok {
			break
		}
		b = rest
		switch {
		case code == optComment:
			s.shared.comment(value, &p.Process)
		case code == optFlags && len(value) == 4:
			p.Direction = direction(s.order.uint32(value))
		case code == optProcessThread && len(value) == 8:
			p.Process.PID, p.Process.TID = s.order.uint32(value), s.order.uint32(value[4:])
		case code == optAppleProcess && len(value) == 4:
			if i := s.order.uint32(value); uint64(i) < uint64(len(s.processes)) {
				apple = s.processes[i]
			}
		}
	}
	if p.Process.PID == 0 {
		p.Process = apple
	}
}

// direction is what the two lowest bits of a packet's flags say.
func direction(flags uint32) capture.Direction {
	switch flags & 3 {
	case 1:
		return capture.Incoming
	case 2:
		return capture.Outgoing
	}
	return capture.DirectionUnknown
}

func (s *ngStream) newInterface(b []byte) string {
	if len(b) < 8 {
		return fmt.Sprintf("an interface block of %d bytes", len(b)+blockFrame)
	}
	if len(s.interfaces) == maxInterfaces {
		return fmt.Sprintf("more than %d interfaces", maxInterfaces)
	}
	i := ngInterface{
		link:    capture.LinkType(s.order.uint16(b)),
		snapLen: s.order.uint32(b[4:]),
	}
	var (
		name       []byte
		resolution byte = 6
		offset     int64
	)
	for b = b[8:]; ; {
		code, value, rest, ok := s.option(b)
		if !ok {
			break
		}
		b = rest
		switch {
		case code == optName:
			name = value
		case code == optResolution && len(value) == 1:
			resolution = value[0]
		case code == optOffset && len(value) == 8:
			offset = int64(s.order.uint64(value))
		}
	}
	i.clock = newClock(resolution, offset)
	i.index = s.shared.interfaceIndex(name, i.link, len(s.interfaces))
	s.interfaces = append(s.interfaces, i)
	return ""
}

func (s *ngStream) newProcess(b []byte) string {
	if len(b) < 4 {
		return fmt.Sprintf("a process information block of %d bytes", len(b)+blockFrame)
	}
	if len(s.processes) == maxProcesses {
		return fmt.Sprintf("more than %d processes", maxProcesses)
	}
	process := capture.Process{PID: s.order.uint32(b)}
	for b = b[4:]; ; {
		code, value, rest, ok := s.option(b)
		if !ok {
			break
		}
		b = rest
		if code == optProcessName {
			process.Name = s.shared.name(value)
		}
	}
	s.processes = append(s.processes, process)
	return ""
}

// clock turns an interface's ticks into time: nanoseconds = ticks × mul / div, or
// ticks × 1e9 / 2^shift, plus an offset.
type clock struct {
	mul, div uint64
	shift    uint8 // of resolutions that are powers of two
	binary   bool
	offset   capture.Time
}

// newClock takes the values of if_tsresol and if_tsoffset (in seconds).
func newClock(resolution byte, offset int64) clock {
	c := clock{mul: 1, div: 1}
	if limit := int64(math.MaxInt64 / 1_000_000_000); offset > -limit && offset < limit {
		c.offset = capture.Time(offset) * 1e9
	}
	n := int(resolution &^ 0x80)
	switch {
	case resolution&0x80 != 0:
		c.binary, c.shift = true, uint8(n)
	case n <= 9:
		c.mul = power10(9 - n)
	case n <= 9+19:
		c.div = power10(n - 9)
	default:
		c.mul = 0 // 2^64 ticks are less than a nanosecond
	}
	return c
}

func power10(n int) uint64 {
	p := uint64(1)
	for range n {
		p *= 10
	}
	return p
}

// time is zero, which means unknown, where the moment is beyond what Time can say.
func (c *clock) time(ticks uint64) capture.Time {
	var hi, lo uint64
	if c.binary {
		hi, lo = bits.Mul64(ticks, 1e9)
		if c.shift < 64 {
			lo = lo>>c.shift | hi<<(64-c.shift)
			hi >>= c.shift
		} else {
			lo, hi = hi>>(c.shift-64), 0
		}
	} else {
		hi, lo = bits.Mul64(ticks, c.mul)
		if c.div != 1 {
			lo /= c.div // mul is 1 then, so hi is 0
		}
	}
	if hi != 0 || lo > math.MaxInt64 {
		return 0
	}
	t := capture.Time(lo) + c.offset
	if t < 0 {
		return 0
	}
	return t
}
