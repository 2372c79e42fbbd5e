package flow

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"taper.dev/taper/internal/capture"
)

// lines is a protocol of tests: questions begin with "ASK ", answers with "TELL "; each is
// a line. "UPGRADE" hands over to what follows it.
func (s *told) lines() capture.Protocol {
	p := s.listener("lines")
	p.Ports, p.Transport = []uint16{9000}, capture.TCP
	p.Recognise = func(first []byte) capture.Recognition {
		switch {
		case bytes.HasPrefix(first, []byte("ASK ")):
			return capture.ByClient
		case bytes.HasPrefix(first, []byte("TELL ")):
			return capture.ByServer
		case strings.HasPrefix("ASK ", string(first)) || strings.HasPrefix("TELL ", string(first)):
			return capture.Perhaps
		}
		return capture.NotIt
	}
	listen := p.New
	p.New = func(c *capture.Conn, emit capture.Emit) capture.Parser {
		return &lineParser{listen(c, emit).(*talk), nil}
	}
	return p
}

type lineParser struct {
	*talk
	asked *capture.Exchange
}

func (l *lineParser) Chunk(c capture.Chunk) capture.Handover {
	l.talk.Chunk(c)
	if at := bytes.Index(c.Data, []byte("UPGRADE ")); at >= 0 {
		name, rest, _ := bytes.Cut(c.Data[at+len("UPGRADE "):], []byte(" "))
		return capture.Handover{To: string(name), Rest: rest}
	}
	span := capture.Span{First: c.Mark, Last: c.Mark, Bytes: int64(len(c.Data))}
	if c.Side == client {
		l.asked = &capture.Exchange{Request: span}
	} else if l.asked != nil {
		l.asked.Response = span
		l.emit(l.asked)
		l.asked = nil
	}
	return capture.Handover{}
}

func (l *lineParser) Close() {
	l.talk.Close()
	if l.asked != nil {
		l.emit(l.asked)
	}
}

// recognised tracks frames with lines, another protocol without a port, and turns.
func recognised(frames []capture.Frame) *told {
	s := &told{talks: map[uint64]*talk{}}
	other := s.listener("other")
	other.Transport = capture.TCP
	other.Recognise = func(first []byte) capture.Recognition {
		if first[0] == '!' {
			return capture.ByClient
		}
		return capture.NotIt
	}
	return s.run(frames, []capture.Protocol{s.lines(), other, s.listener(capture.Turns)}, Options{})
}

func TestRecognition(t *testing.T) {
	t.Parallel()
	junk := strings.Repeat("junk", 30)
	for name, test := range map[string]struct {
		mid      bool
		port     string // of the server
		write    func(*wire)
		protocol string
		script   string
		flipped  bool
	}{
		"by the client's first bytes": {false, "7", func(w *wire) {
			w.data(client, "ASK 1")
			w.data(server, "TELL 1")
		}, "lines", "C5 S6", false},
		"in pieces": {false, "7", func(w *wire) {
			for _, s := range []string{"A", "S", "K", " ", "1"} {
				w.data(client, s)
			}
		}, "lines", "C1 C1 C1 C1 C1", false},
		"by the port, when content may be": {false, "9000", func(w *wire) {
			w.data(client, "A")
			w.data(client, "SK 1")
		}, "lines", "C1 C4", false},
		"not by the port, when content is not": {false, "9000", func(w *wire) {
			w.data(client, junk)
			w.data(server, junk)
		}, capture.Turns, "C120 S120", false},
		"content before port": {false, "9000", func(w *wire) {
			w.data(client, "!")
		}, "other", "C1", false},
		"by what the server says first": {false, "7", func(w *wire) {
			w.data(server, "TELL 0")
			w.data(client, "whatever")
		}, "lines", "S6 C8", false},
		"by what the server answers": {false, "7", func(w *wire) {
			w.data(client, "whatever")
			w.data(server, "TELL 0")
		}, "lines", "C8 S6", false},
		"no server asks": {false, "7", func(w *wire) {
			w.data(server, "ASK 1")
			w.data(client, "x")
		}, capture.Turns, "S5 C1", false},
		"never": {false, "7", func(w *wire) {
			for range 40 {
				w.data(client, junk)
			}
		}, capture.Turns, strings.TrimSpace(strings.Repeat("C120 ", 40)), false},
		"only the beginning, to the end": {false, "7", func(w *wire) { w.data(client, "AS") }, capture.Turns, "C2", false},
		"mid, at the next message": {true, "7", func(w *wire) {
			for range 50 {
				w.data(server, junk)
			}
			w.data(client, "ASK 1")
			w.data(server, "TELL 1")
		}, "lines", "C5 S6", false},
		"mid, never": {true, "7", func(w *wire) {
			for range 10 {
				w.data(client, junk)
				w.data(server, junk)
			}
		}, capture.Turns, strings.TrimSpace(strings.Repeat("C120 S120 ", 8)), false},
		"mid, content says who is client": {true, "60000", func(w *wire) {
			w.data(client, "ASK 1")
			w.data(server, "TELL 1")
		}, "lines", "C5 S6", true},
		"its beginning was not captured": {false, "7", func(w *wire) {
			w.data(client, "ASK 0")
			w.lose()
			w.data(server, "TELL 0")
			w.data(client, "ASK 1")
		}, "lines", "S6 C5", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(1000, 2000)
			w.addr[server] = netip.MustParseAddrPort("10.0.0.2:" + test.port)
			if test.flipped {
				w.addr[client] = netip.MustParseAddrPort("10.0.0.1:50000")
			}
			if !test.mid {
				w.handshake(ms)
			}
			test.write(w)
			s := recognised(w.frames)
			k := s.only(t)
			if c := s.conns[0]; c.Protocol != test.protocol || k.protocol != test.protocol || c.Addr != w.addr {
				t.Errorf("speaks %q, from %v to %v; want %q, %v", c.Protocol, c.Addr[0], c.Addr[1], test.protocol, w.addr)
			}
			if got := strings.Join(k.script, " "); got != test.script {
				t.Errorf("told %q, want %q", got, test.script)
			}
		})
	}
}

func TestHandover(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ say, protocol, rest string }{
		"to another":           {"UPGRADE other rest", "other", "rest"},
		"with nothing left":    {"UPGRADE other ", "other", ""},
		"to one nobody has":    {"UPGRADE unheard-of rest", capture.Turns, "rest"},
		"to itself for ever":   {"UPGRADE lines " + strings.Repeat("UPGRADE lines ", 20), capture.Turns, ""},
		"to itself, and stays": {"UPGRADE lines UPGRADE lines x", "lines", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(1000, 2000).handshake(ms)
			w.data(client, "ASK 1")
			w.data(server, test.say)
			w.data(client, "more")
			s := recognised(w.frames)
			c, k := s.conns[0], s.talks[1]
			if c.Protocol != test.protocol || k.protocol != test.protocol {
				t.Errorf("speaks %q, want %q", c.Protocol, test.protocol)
			}
			if k.bytes[server].String() != test.rest || k.bytes[client].String() != "more" {
				t.Errorf("the last parser was told %q and %q; want %q and more", k.bytes[server].String(), k.bytes[client].String(), test.rest)
			}
		})
	}
}

// TestEndOfBothSides: what is open when both sides have ended is told then, and not when
// the connection is forgotten.
func TestEndOfBothSides(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		write func(*wire)
		told  int
	}{
		"one side":   {func(w *wire) { w.data(client, "ASK 1"); w.fin(server) }, 0},
		"both sides": {func(w *wire) { w.data(client, "ASK 1"); w.fin(server); w.fin(client) }, 1},
		"both, but bytes are still to come": {func(w *wire) {
			w.data(client, "ASK 1")
			w.seq[client] += 5
			w.fin(server)
			w.fin(client)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(1000, 2000).handshake(ms)
			test.write(w)
			s := &told{talks: map[uint64]*talk{}}
			tracker := New([]capture.Protocol{s.lines()}, s, Options{})
			for i := range w.frames {
				tracker.Frame(&w.frames[i])
			}
			if len(s.exchanges) != test.told || len(s.conns) != 0 {
				t.Errorf("%d exchanges and %d connections were told; want %d and none", len(s.exchanges), len(s.conns), test.told)
			}
			tracker.Finish()
			if len(s.exchanges) != 1 || s.talks[1].closed != 1 {
				t.Errorf("%d exchanges, closed %d times at the end", len(s.exchanges), s.talks[1].closed)
			}
		})
	}
}

// TestExchanges are completed with what the parser does not know.
func TestExchanges(t *testing.T) {
	t.Parallel()
	shop, till := capture.Process{PID: 7, TID: 8, Name: "shop"}, capture.Process{PID: 7, TID: 9, Name: "till"}
	w := newWire(1000, 2000).handshake(ms)
	w.data(client, "ASK 1").Process = shop
	w.data(server, "TELL 1").Process = till
	w.data(client, "ASK 2").Process = till
	w.data(server, "TELL 2").Process = shop
	w.data(client, "ASK 3")
	for i := range w.frames {
		w.frames[i].Direction = capture.Incoming
		if w.frames[i].Src == w.addr[client] {
			w.frames[i].Direction = capture.Outgoing
		}
	}
	s := recognised(w.frames)
	if len(s.exchanges) != 3 {
		t.Fatalf("%d exchanges, want 3", len(s.exchanges))
	}
	for i, process := range []capture.Process{shop, till, till} {
		x := s.exchanges[i]
		if x.Conn != s.conns[0] || x.Protocol != "lines" || x.Index != uint64(i) || x.Process != process || !x.Conn.Local[client] || x.Conn.Local[server] {
			t.Errorf("exchange %d: %+v of %+v", i, x, x.Conn)
		}
	}
	if s.conns[0].Exchanges != 3 || s.stats.Exchanges["lines"] != 3 || s.stats.Unanswered != 1 || s.conns[0].Process != shop {
		t.Errorf("connection %+v, stats %+v", s.conns[0], s.stats)
	}
}

func TestDatagrams(t *testing.T) {
	t.Parallel()
	resolver := netip.MustParseAddrPort("10.0.0.53:53")
	for name, test := range map[string]struct {
		src, dst netip.AddrPort
		protocol string
		client   netip.AddrPort
	}{
		"a question":         {clientAddr, resolver, "names", clientAddr},
		"an answer first":    {resolver, clientAddr, "names", clientAddr},
		"another port":       {clientAddr, serverAddr, capture.Turns, clientAddr},
		"multicast DNS":      {netip.MustParseAddrPort("10.0.0.1:5353"), netip.MustParseAddrPort("224.0.0.251:5353"), "", netip.MustParseAddrPort("10.0.0.1:5353")},
		"its direct answers": {netip.MustParseAddrPort("10.0.0.1:53"), netip.MustParseAddrPort("10.0.0.2:5353"), "", netip.MustParseAddrPort("10.0.0.2:5353")},
		"broadcast":          {clientAddr, netip.MustParseAddrPort("255.255.255.255:53"), "", clientAddr},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &told{talks: map[uint64]*talk{}}
			names := s.listener("names")
			names.Transport, names.Ports = capture.UDP, []uint16{53}
			s.run([]capture.Frame{
				{Number: 1, Time: start, Src: test.src, Dst: test.dst, Transport: capture.UDP, Payload: []byte("abc"), Length: 5},
				{Number: 2, Time: start.Add(ms), Src: test.dst, Dst: test.src, Transport: capture.UDP, Payload: []byte("de"), Length: 2},
			}, []capture.Protocol{names, s.listener(capture.Turns)}, Options{})
			c := s.conns[0]
			if c.Protocol != test.protocol || c.Addr[client] != test.client || c.Packets != [2]uint64{1, 1} || len(s.conns) != 1 {
				t.Errorf("%+v; want %q and client %v", c, test.protocol, test.client)
			}
			if k := s.talks[1]; test.protocol != "" && k.missing[0]+k.missing[1] != 2 {
				t.Errorf("missing %v; want the two bytes that were cut", k.missing)
			}
		})
	}
}

func TestWithoutTurns(t *testing.T) {
	t.Parallel()
	w := newWire(1000, 2000).handshake(ms)
	w.data(client, "junk")
	w.data(server, "junk")
	w.at(time.Second).data(client, "junk")
	s := &told{talks: map[uint64]*talk{}}
	s.run(w.frames, []capture.Protocol{s.lines()}, Options{})
	if len(s.talks) != 0 || len(s.conns) != 1 || s.conns[0].Protocol != "" {
		t.Errorf("%d talks, connections %+v; want nobody to listen", len(s.talks), s.conns)
	}
}
