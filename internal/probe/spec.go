package probe

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Test names what is measured. The names are part of the command line and of the JSON
// contract.
type Test string

// The tests.
const (
	// TCPBandwidth is how many bytes a second arrive over TCP.
	TCPBandwidth Test = "tcp_bw"
	// TCPLatency is how long a message and its answer take on an open connection.
	TCPLatency Test = "tcp_lat"
	// UDPBandwidth is how many bytes a second arrive as datagrams, and how many do not.
	UDPBandwidth Test = "udp_bw"
	// UDPLatency is how long a datagram and its answer take.
	UDPLatency Test = "udp_lat"
	// Connect is how long it takes to connect, ask, and be answered.
	Connect Test = "conn"
	// Responsiveness is latency while the path carries all it can: the figure of
	// draft-ietf-ippm-responsiveness, in round trips per minute.
	Responsiveness Test = "responsiveness"
	// PathMTU is the largest packet that gets through whole, and whether larger ones
	// vanish without a word.
	PathMTU Test = "path_mtu"
)

// Tests are all of them, in the order in which they are shown.
var Tests = []Test{TCPBandwidth, TCPLatency, UDPBandwidth, UDPLatency, Connect, Responsiveness, PathMTU}

// Datagrams tells whether the test sends UDP.
func (t Test) Datagrams() bool { return t == UDPBandwidth || t == UDPLatency || t == PathMTU }

// Direction is the way in which the bytes go that are counted.
type Direction string

// The directions, as the near end sees them.
const (
	Out Direction = "out"
	In  Direction = "in"
)

// Mode is how an end waits for a message.
type Mode string

// The modes.
const (
	// Cold blocks in the kernel, as services do: waking up is part of what is measured.
	Cold Mode = "cold"
	// Hot asks again and again: what is measured is the network alone, and a CPU is used up.
	Hot Mode = "hot"
)

// Spec says what one trial does. Both ends know all of it.
type Spec struct {
	Test     Test          `json:"test"`
	Duration time.Duration `json:"duration_ns"`
	// MessageBytes is what one write has, or one datagram without its headers.
	MessageBytes int `json:"message_bytes"`
	// ReplyBytes is what an answer has; 0 where nothing is answered.
	ReplyBytes int       `json:"reply_bytes,omitempty"`
	Direction  Direction `json:"direction"`
	// Streams is how many connections carry bytes at once.
	Streams int  `json:"streams"`
	Mode    Mode `json:"mode"`
	// RatePerS is how many messages a second are meant to be sent, whatever becomes of
	// those before: a stall then delays all the messages that it should have let through.
	// At 0 the next is sent when the last was answered.
	RatePerS float64 `json:"rate_per_s,omitempty"`
	// NearCPU and FarCPU are where the ends' threads stay; nil is anywhere.
	NearCPU *int `json:"near_cpu,omitempty"`
	FarCPU  *int `json:"far_cpu,omitempty"`
	// MaxBytes is how much payload the trial may carry, both ways together. An end that
	// has carried so much stops, and says that it did. 0 is no bound.
	MaxBytes int64 `json:"max_bytes,omitempty"`
}

// The most that a trial may ask for.
const (
	MaxDuration     = time.Hour
	MaxMessageBytes = 16 << 20
	// MaxDatagramBytes is what UDP over IPv4 can carry.
	MaxDatagramBytes = 65507
	MaxStreams       = 128
	MaxRatePerS      = 1e6
)

// Default is the spec of a test where nobody asks for anything else.
func Default(t Test) Spec {
	s := Spec{Test: t, Duration: time.Second, MessageBytes: 1, Direction: Out, Streams: 1, Mode: Cold}
	switch t {
	case TCPBandwidth, Responsiveness:
		s.MessageBytes = 128 << 10
	case UDPBandwidth:
		s.MessageBytes = 1400 // fits into what overlays leave of 1,500
	case PathMTU:
		s.MessageBytes = MaxDatagramBytes // where the search begins
	}
	switch t {
	case TCPLatency, UDPLatency, Connect:
		s.ReplyBytes = 1
	}
	return s
}

// ErrEnough is why an end stops that has carried as much as its trial may.
var ErrEnough = errors.New("the most bytes that the trial may carry were reached")

// Share is how much of [Spec.MaxBytes] each stream may carry.
func (s Spec) Share() int64 {
	if s.MaxBytes <= 0 {
		return math.MaxInt64
	}
	return max(1, s.MaxBytes/int64(max(s.Streams, 1)))
}

// Validate says what is wrong with a spec, all at once.
func (s Spec) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !slices.Contains(Tests, s.Test) {
		wrong("there is no test %q: the tests are %v", s.Test, Tests)
	}
	if s.Duration <= 0 || s.Duration > MaxDuration {
		wrong("a trial of %v is not possible: it must be more than 0 and at most %v", s.Duration, MaxDuration)
	}
	most := MaxMessageBytes
	if s.Test.Datagrams() {
		most = MaxDatagramBytes
	}
	if s.MessageBytes < 1 || s.MessageBytes > most {
		wrong("a message of %d bytes is not possible with %s: it must have 1 to %d", s.MessageBytes, s.Test, most)
	}
	if s.ReplyBytes < 0 || s.ReplyBytes > most {
		wrong("an answer of %d bytes is not possible with %s: it must have at most %d", s.ReplyBytes, s.Test, most)
	}
	if s.Direction != Out && s.Direction != In {
		wrong("there is no direction %q: it is %q or %q", s.Direction, Out, In)
	}
	if s.Mode != Cold && s.Mode != Hot {
		wrong("there is no mode %q: it is %q or %q", s.Mode, Cold, Hot)
	}
	if s.Streams < 1 || s.Streams > MaxStreams {
		wrong("%d streams are not possible: there must be 1 to %d", s.Streams, MaxStreams)
	}
	// Not a comparison that NaN would pass.
	if !(s.RatePerS >= 0 && s.RatePerS <= MaxRatePerS) {
		wrong("%v messages per second are not possible: it must be 0 to %.0f", s.RatePerS, MaxRatePerS)
	}
	if s.MaxBytes < 0 {
		wrong("%d bytes at most are not possible: it must be 0, for no bound, or more", s.MaxBytes)
	}
	return errors.Join(errs...)
}

// Tool is a program whose figures people know.
type Tool string

// The tools, and below what their figures mean.
const (
	Qperf   Tool = "qperf"
	Netperf Tool = "netperf"
	Iperf3  Tool = "iperf3"
)

// As is the spec with which a tool (qperf 0.4.11, netperf 2.7, iperf3 3.x, by default)
// measures; false where it has no such test.
func As(tool Tool, t Test) (Spec, bool) {
	s := Default(t)
	switch tool {
	case Qperf:
		s.Duration = 2 * time.Second
	case Netperf, Iperf3:
		s.Duration = 10 * time.Second
	}
	switch {
	case t == TCPLatency || t == UDPLatency:
		return s, tool == Qperf || tool == Netperf
	case t == TCPBandwidth && tool == Qperf:
		s.MessageBytes = 64 << 10
	case t == TCPBandwidth && tool == Netperf:
		s.MessageBytes = 16 << 10
	case t == TCPBandwidth && tool == Iperf3:
		s.MessageBytes = 128 << 10
	case t == UDPBandwidth && tool == Qperf:
		s.MessageBytes = 32 << 10
	case t == Connect:
		return s, tool == Netperf
	default:
		return s, false
	}
	return s, true
}
