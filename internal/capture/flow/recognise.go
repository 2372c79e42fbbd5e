package flow

import (
	"slices"

	"taper.dev/taper/internal/capture"
)

const (
	// portMDNS is multicast DNS's, which has the form of DNS and for which nobody waits.
	portMDNS = 5353
	// maxUndecided and maxChunks bound what is kept of a connection while its protocol is
	// not known.
	maxUndecided = 32 << 10
	maxChunks    = 8
	// maxMessages is how many messages are tried of a connection that began before the
	// capture, the first of which may be the rest of one.
	maxMessages = 4
)

// undecided is what was said on a connection while its protocol is not known.
type undecided struct {
	chunks []capture.Chunk // with Data of our own
	bytes  int
	// first are the first bytes of each end, or of its message; hopeless says that they
	// are no protocol's.
	first    [2][]byte
	hopeless [2]bool
	// mid says that the connection's beginning is not in the capture; speaker and messages
	// follow its turns then.
	mid      bool
	speaker  end
	messages int
}

// guess is what the first bytes of an end say.
type guess struct {
	protocol *capture.Protocol // nil: not decided
	client   end               // who is, if content says it
	sure     bool              // content said it
	open     bool              // more bytes may decide
}

// guess tries all protocols on the first bytes of an end: content first, the port second.
func (t *Tracker) guess(c *conn, from end, first []byte) guess {
	g := guess{client: c.client}
	if len(first) == 0 {
		g.open = true
		return g
	}
	for i := range t.protocols {
		p := &t.protocols[i]
		if p.Name == capture.Turns || p.Transport != 0 && p.Transport != c.Transport {
			continue
		}
		switch p.Recognise(first) {
		case capture.ByClient:
			if !c.sided || c.client == from {
				return guess{protocol: p, client: from, sure: true}
			}
		case capture.ByServer:
			if !c.sided || c.client != from {
				return guess{protocol: p, client: from.other(), sure: true}
			}
		case capture.Perhaps:
			g.open = true
			if g.protocol == nil {
				t.byPort(c, p, &g)
			}
		}
	}
	return g
}

// byPort takes a protocol that content does not exclude, where its port is used.
func (t *Tracker) byPort(c *conn, p *capture.Protocol, g *guess) {
	switch {
	case slices.Contains(p.Ports, c.Addr[capture.Server].Port()):
		g.protocol = p
	case !c.sided && slices.Contains(p.Ports, c.Addr[capture.Client].Port()):
		g.protocol, g.client = p, c.client.other()
	}
}

// begins takes a chunk of a connection whose protocol is not known, and starts the
// parser when it is.
func (t *Tracker) begins(c *conn, from end, ch *capture.Chunk) {
	if c.undecided == nil {
		if g := t.guess(c, from, head(ch.Data)); g.protocol != nil && ch.Missing == 0 {
			t.settle(c, g)
			t.chunk(c, from, ch)
			return
		}
		if c.Transport == capture.UDP {
			t.settle(c, guess{protocol: t.turns, client: c.client})
			t.chunk(c, from, ch)
			return
		}
		c.undecided = &undecided{speaker: from, mid: c.Mid || ch.Missing > 0}
	}
	if c.undecided.mid {
		t.tryMessage(c, from, ch)
	} else {
		t.tryStart(c, from, ch)
	}
}

func head(b []byte) []byte { return b[:min(len(b), capture.RecogniseBytes)] }

// tryStart decides by the first bytes that the ends sent.
func (t *Tracker) tryStart(c *conn, from end, ch *capture.Chunk) {
	u := c.undecided
	u.add(c.side(from), *ch)
	u.hopeless[from] = u.hopeless[from] || ch.Missing > 0
	if !u.hopeless[from] {
		u.extend(from, ch.Data)
		g := t.guess(c, from, u.first[from])
		if g.protocol != nil {
			t.settle(c, g)
			t.replay(c, from)
			return
		}
		u.hopeless[from] = !g.open || len(u.first[from]) == capture.RecogniseBytes
	}
	if u.hopeless[0] && u.hopeless[1] || u.full() {
		t.settle(c, guess{protocol: t.turns, client: c.client})
		t.replay(c, from)
	}
}

// tryMessage decides by the first bytes of any message, since the first ones of the
// connection are not in the capture. What comes before is lost.
func (t *Tracker) tryMessage(c *conn, from end, ch *capture.Chunk) {
	u := c.undecided
	if from != u.speaker {
		u.speaker = from
		u.messages++
		t.drop(u)
		u.hopeless[from] = false
	}
	if u.messages >= maxMessages {
		t.settle(c, guess{protocol: t.turns, client: c.client})
		t.chunk(c, from, ch)
		return
	}
	u.hopeless[from] = u.hopeless[from] || ch.Missing > 0
	if !u.hopeless[from] {
		u.add(c.side(from), *ch)
		u.extend(from, ch.Data)
		g := t.guess(c, from, u.first[from])
		if g.protocol != nil {
			t.settle(c, g)
			t.replay(c, from)
			return
		}
		u.hopeless[from] = !g.open || len(u.first[from]) == capture.RecogniseBytes || u.full()
	}
	if u.hopeless[from] {
		t.drop(u)
		t.stats.unparsed += uint64(len(ch.Data))
	}
}

// drop forgets what waits for a decision.
func (t *Tracker) drop(u *undecided) {
	for i := range u.chunks {
		t.stats.unparsed += uint64(len(u.chunks[i].Data))
	}
	u.chunks, u.bytes, u.first = u.chunks[:0], 0, [2][]byte{}
}

func (u *undecided) add(side capture.Side, ch capture.Chunk) {
	ch.Side, ch.Data = side, slices.Clone(ch.Data)
	u.chunks = append(u.chunks, ch)
	u.bytes += len(ch.Data)
}

func (u *undecided) full() bool { return u.bytes > maxUndecided || len(u.chunks) >= maxChunks }

// extend adds to an end's first bytes, as many as are looked at.
func (u *undecided) extend(from end, data []byte) {
	room := capture.RecogniseBytes - len(u.first[from])
	u.first[from] = append(u.first[from], data[:min(room, len(data))]...)
}

// settle starts a parser, and says who is client if content did.
func (t *Tracker) settle(c *conn, g guess) {
	if g.client != c.client {
		c.flip()
		if c.undecided != nil {
			for i := range c.undecided.chunks {
				ch := &c.undecided.chunks[i]
				ch.Side = ch.Side.Other()
			}
		}
	}
	if g.sure {
		c.sided = true
		if c.Transport == capture.TCP {
			t.listen(c.Addr[capture.Server])
		}
	}
	t.start(c, g.protocol)
}

// replay gives the parser what waited for it.
func (t *Tracker) replay(c *conn, from end) {
	chunks := c.undecided.chunks
	c.undecided = nil
	for i := range chunks {
		t.chunk(c, c.end(chunks[i].Side), &chunks[i])
	}
}
