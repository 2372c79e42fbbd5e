package flow

import (
	"net/netip"
	"time"

	"taper.dev/taper/internal/capture"
)

// DefaultMaxConns is how many connections are remembered at once.
const DefaultMaxConns = 200_000

// Options bound a Tracker. The zero value means the defaults.
type Options struct {
	// MaxConns is how many connections are remembered at once; 0 is DefaultMaxConns.
	// Those silent longest are forgotten first.
	MaxConns int
}

const (
	// tickFrames and tickTime say how often silent connections are looked for, and the
	// sink is told how far things are: after so many frames, or so much capture time.
	tickFrames = 4096
	tickTime   = 100 * time.Millisecond
	// behind is how far Advance stays behind the capture. What is answered is told with
	// the packet that completes it; only what waits for a gap that was acknowledged can
	// be told later, for less than a tick.
	behind = time.Second
)

// Tracker makes connections of frames. It is not safe for concurrent use.
type Tracker struct {
	protocols []capture.Protocol
	turns     *capture.Protocol // for what no other recognises; nil if there is none
	ports     map[uint16]bool   // that a protocol is usually served on
	sink      capture.Sink
	maxConns  int

	conns     table
	last      *conn // that had a frame: the next is often of the same
	lastID    uint64
	recent    duplicates
	addresses map[netip.Addr]*address
	listening map[netip.AddrPort]struct{}
	silent    [lists]list
	covered   []*conn // with a gap that the other side acknowledged
	early     int     // bytes that wait for a gap, of all connections

	// now is the lesser of the last two frames' times: one packet from the future makes
	// nobody old. seen is the last frame's, latest the highest one.
	now, seen, latest capture.Time
	ticked            capture.Time
	advanced          capture.Time
	frames            int // since the last tick

	stats counters
}

// counters are what AddTo adds.
type counters struct {
	duplicates, conns, mid, givenUp   uint64
	missing, retransmitted, reordered uint64
	unanswered, unparsed              uint64
	exchanges                         []tally
}

// tally counts the exchanges of a protocol. There are so few of these that looking through
// all is faster than a map.
type tally struct {
	protocol string
	count    uint64
}

func (c *counters) exchange(protocol string) {
	for i := range c.exchanges {
		if c.exchanges[i].protocol == protocol {
			c.exchanges[i].count++
			return
		}
	}
	c.exchanges = append(c.exchanges, tally{protocol, 1})
}

// New returns a Tracker that tells sink what connections say. Protocols are tried in
// their order. The one named capture.Turns gets what no other recognises; without it such
// connections have no exchanges.
func New(protocols []capture.Protocol, sink capture.Sink, o Options) *Tracker {
	if o.MaxConns <= 0 {
		o.MaxConns = DefaultMaxConns
	}
	t := &Tracker{
		protocols: protocols,
		ports:     map[uint16]bool{},
		sink:      sink,
		maxConns:  o.MaxConns,
		conns:     newTable(),
		recent:    newDuplicates(),
		addresses: map[netip.Addr]*address{},
		listening: map[netip.AddrPort]struct{}{},
	}
	t.turns = t.named(capture.Turns, 0)
	for i := range protocols {
		for _, port := range protocols[i].Ports {
			t.ports[port] = true
		}
	}
	return t
}

// Frame takes the next frame. What it refers to is not kept.
func (t *Tracker) Frame(f *capture.Frame) {
	if f.Transport != capture.TCP && f.Transport != capture.UDP {
		return
	}
	t.clock(f.Time)
	k, from := keyOf(f)
	c := t.last
	if c == nil || !c.key.is(&k) {
		c = t.conns.find(&k)
	}
	if c != nil && c.replacedBy(from, f) {
		t.finish(c)
		c = nil
	}
	if c == nil {
		if c = t.open(k, from, f); c == nil {
			return
		}
	}
	t.last = c
	c.noteDirection(from, f.Direction)
	if t.recent.again(hashOf(c.ID, from, f), f) {
		t.stats.duplicates++
		return
	}
	t.touch(c, f.Time)
	c.Last = markOf(f)
	if f.Process != (capture.Process{}) {
		c.noteProcess(from, f)
	}
	if c.tcp == nil {
		t.datagram(c, from, f)
	} else {
		t.segment(c, from, f)
	}
}

func markOf(f *capture.Frame) capture.Mark {
	return capture.Mark{Time: f.Time, Packet: f.Number}
}

// clock follows capture time, which may step.
func (t *Tracker) clock(at capture.Time) {
	if t.seen == 0 {
		t.seen, t.ticked = at, at
	}
	t.now, t.seen = min(t.seen, at), at
	t.latest = max(t.latest, at)
	t.frames++
	if d := t.now.Sub(t.ticked); t.frames >= tickFrames || d >= tickTime || d < -tickTime {
		t.tick()
	}
}

// tick does what is due now and then.
func (t *Tracker) tick() {
	t.frames, t.ticked = 0, t.now
	t.expire()
	t.giveUpCovered()
	if to := t.now.Add(-behind); to > t.advanced {
		t.advanced = to
		t.sink.Advance(to)
	}
}

// datagram takes one of a UDP connection.
func (t *Tracker) datagram(c *conn, from end, f *capture.Frame) {
	if f.Length <= 0 {
		return
	}
	side := c.side(from)
	c.Packets[side]++
	c.Bytes[side] += uint64(f.Length)
	t.deliver(c, from, captured(f), f.Length, markOf(f))
	if c.Packets[capture.Server] >= c.Packets[capture.Client] {
		t.move(c, listAnswered, f.Time)
	} else {
		t.move(c, listUDP, f.Time)
	}
}

// captured are the bytes of the payload; some links pad packets.
func captured(f *capture.Frame) []byte {
	return f.Payload[:min(len(f.Payload), max(f.Length, 0))]
}

// Finish ends all connections. Nothing may be called after it but AddTo.
func (t *Tracker) Finish() {
	for i := range t.silent {
		for c := t.silent[i].oldest; c != nil; c = t.silent[i].oldest {
			t.finish(c)
		}
	}
	if t.latest != 0 {
		t.sink.Advance(t.latest.Add(1)) // also those that began with the last packet
	}
}

// AddTo adds what was counted. It is complete after Finish.
func (t *Tracker) AddTo(s *capture.Stats) {
	s.Duplicates += t.stats.duplicates
	s.Conns += t.stats.conns
	s.Mid += t.stats.mid
	s.GivenUp += t.stats.givenUp
	s.MissingBytes += t.stats.missing
	s.Retransmitted += t.stats.retransmitted
	s.Reordered += t.stats.reordered
	s.Unanswered += t.stats.unanswered
	s.Unparsed += t.stats.unparsed
	if s.Exchanges == nil {
		s.Exchanges = map[string]uint64{}
	}
	for _, e := range t.stats.exchanges {
		s.Exchanges[e.protocol] += e.count
	}
}
