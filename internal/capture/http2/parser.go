package http2

import (
	"encoding/binary"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/fields"
	"taper.dev/taper/internal/capture/framing"
)

// maxStreams bounds the streams that are open at once. Servers allow 100 to 250.
const maxStreams = 1024

// side is what one side of a connection sends.
type side struct {
	frames  framing.Reader
	format  *framing.Format
	hpack   *decoder
	preface int // how much of the preface was read
	// block is a header block whose end did not come yet; opening is the frame that began
	// it, since its flags count, and span all of its frames.
	block   []byte
	opening header
	span    capture.Span
	taken   int // bytes of it
	open    bool
	whole   bool // nothing of it is missing
	// unread counts the bytes of header blocks that could not be read.
	unread uint64
	seen   uint64 // frames
	chunks uint64
}

// parser gathers the frames of streams into exchanges.
type parser struct {
	conn  *capture.Conn
	emit  capture.Emit
	cache *fields.Cache
	side  [2]side
	// streams are those that are open, order the order in which they were opened; some of
	// it may be closed already.
	streams map[uint32]*stream
	order   []uint32
	// highest is the last stream that the client opened.
	highest uint32
	// block is the header block that is being read.
	block fieldBlock
}

func newParser(conn *capture.Conn, emit capture.Emit, cache *fields.Cache) *parser {
	p := &parser{conn: conn, emit: emit, cache: cache, streams: make(map[uint32]*stream)}
	for i := range p.side {
		s := &p.side[i]
		s.hpack = newDecoder(p.take)
		s.format = frames(func() { p.resync(s) })
		s.frames.Reset(s.format, !conn.Mid)
	}
	if x := conn.Upgraded; x != nil {
		conn.Upgraded = nil
		p.adopt(x)
	}
	return p
}

// resync is told that frames of a side were missed: those with headers changed the table.
func (p *parser) resync(s *side) {
	s.hpack.forget()
	s.drop()
}

// Chunk reads the next bytes of one side.
func (p *parser) Chunk(c capture.Chunk) capture.Handover {
	s := &p.side[c.Side]
	if len(c.Data) > 0 {
		s.chunks++
	}
	if c.Side == capture.Client {
		p.skipPreface(s, &c)
	}
	var m framing.Message
	for s.frames.Next(&c, &m) {
		s.seen++
		p.frame(s, c.Side, &m)
	}
	if p.hopeless() {
		return capture.Handover{To: capture.Turns}
	}
	return capture.Handover{}
}

// skipPreface passes over the client's preface. In the middle of a connection there is
// none; nor if it begins with something else, which frames will tell.
func (p *parser) skipPreface(s *side, c *capture.Chunk) {
	if s.preface == len(preface) || len(c.Data) == 0 && c.Missing == 0 {
		return
	}
	rest := preface[s.preface:]
	n := min(len(rest), len(c.Data))
	if c.Missing > 0 || string(c.Data[:n]) != rest[:n] {
		// What was taken for its beginning is lost, and so are up to all of these bytes.
		if s.preface > 0 || c.Missing > 0 {
			s.frames.LoseStep()
		}
		s.unread += uint64(s.preface)
		s.preface = len(preface)
		return
	}
	s.preface += n
	c.Data = c.Data[n:]
	if s.preface == len(preface) {
		// Even a capture that began late saw the beginning.
		s.hpack.forget()
		s.frames.Reset(s.format, true)
	}
}

// hopeless says that this never was HTTP/2: both sides have sent for a while, and neither
// a frame.
func (p *parser) hopeless() bool {
	const most = 8
	client, server := &p.side[capture.Client], &p.side[capture.Server]
	return client.chunks >= most && server.chunks >= most && client.seen == 0 && server.seen == 0
}

// frame takes one frame.
func (p *parser) frame(s *side, from capture.Side, m *framing.Message) {
	h := parseHeader(m.Header)
	if s.open && h.kind != frameContinuation {
		// Nothing may come between the frames of a block: some are missing.
		s.unread += uint64(s.taken)
		p.resync(s)
	}
	switch h.kind {
	case frameHeaders, framePushPromise, frameContinuation:
		p.headers(s, from, h, m)
	case frameData:
		p.data(from, h, m)
	case frameRSTStream:
		if len(m.Body) == 4 {
			p.reset(from, h.stream, m, binary.BigEndian.Uint32(m.Body))
		}
	case frameGoAway:
		if len(m.Body) >= 4 && from == capture.Server {
			p.goAway(binary.BigEndian.Uint32(m.Body) &^ (1 << 31))
		}
	}
}

// headers gathers a header block, and takes it when it is complete.
func (p *parser) headers(s *side, from capture.Side, h header, m *framing.Message) {
	if h.kind != frameContinuation {
		s.open, s.opening, s.whole, s.taken = true, h, true, 0
		s.span = capture.Span{First: m.First}
	} else if !s.open || s.opening.stream != h.stream {
		s.unread += uint64(len(m.Body))
		p.resync(s)
		return
	}
	fragment, ok := h.fragment(m.Body)
	if !ok || len(m.Body) < h.length || len(s.block)+len(fragment) > maxBlock {
		s.whole = false
	}
	s.taken += len(m.Body)
	s.span.Last = m.Last
	s.span.Bytes += m.Span().Bytes
	if h.flags&flagEndHeaders == 0 {
		if s.whole {
			s.block = append(s.block, fragment...)
		}
		return
	}
	if len(s.block) > 0 && s.whole {
		s.block = append(s.block, fragment...)
		fragment = s.block
	}
	p.read(s, fragment)
	s.drop()
	if s.opening.kind == frameHeaders {
		p.opened(from, s.opening, s.span)
	}
}

// read decodes a whole header block into p.block.
func (p *parser) read(s *side, block []byte) {
	p.block = fieldBlock{grpcStatus: -1, keep: p.block.keep[:0]}
	before := s.hpack.unknown
	switch {
	case !s.whole:
		s.hpack.forget()
		s.unread += uint64(s.taken)
		p.block.partial = true
	case !s.hpack.block(block):
		s.unread += uint64(s.taken)
		p.block.partial = true
	}
	p.block.partial = p.block.partial || s.hpack.unknown > before
}

// drop forgets a header block.
func (s *side) drop() {
	s.open = false
	if s.block = s.block[:0]; cap(s.block) > usualTable {
		s.block = nil
	}
}

// Close tells what is not answered, in the order in which it was asked.
func (p *parser) Close() {
	for _, id := range p.order {
		if st := p.streams[id]; st != nil {
			p.tell(id, st)
		}
	}
}

// Lost is how many bytes belonged to no frame or to headers that could not be read; a
// field that refers to what is not known counts as one.
func (p *parser) Lost() uint64 {
	var lost uint64
	for i := range p.side {
		s := &p.side[i]
		lost += s.frames.Lost() + s.unread + uint64(s.hpack.unknown)
	}
	return lost
}
