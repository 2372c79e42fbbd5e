package flow

import (
	"net/netip"

	"taper.dev/taper/internal/capture"
)

// conn is a connection while it is followed.
type conn struct {
	capture.Conn
	key key
	// chained is the next one in its bucket of Tracker.conns.
	chained *conn
	// client is the end that is the client; sided says that this is known, and not
	// guessed from ports.
	client end
	sided  bool
	// deaf: there is no parser, and will be none.
	deaf bool
	// isCovered: it is in Tracker.covered.
	isCovered bool
	// in is the list that older and newer are its neighbours in; touched is when it was put
	// there.
	in           listNumber
	older, newer *conn
	touched      capture.Time

	ends [2]*address // by end
	tcp  *tcp        // nil for UDP

	parser    capture.Parser // nil until recognised
	undecided *undecided
	processes []processSince
}

// tcp is what is known of a TCP connection's two streams.
type tcp struct {
	streams    [2]stream // by the end that sends
	timestamps bool
	// scaled says that both ends scale their windows.
	scaled bool
	// firstSYN and firstSYNACK are the first bytes that the SYNs announced.
	firstSYN, firstSYNACK uint32
	repeatedSYNACK        bool
}

// side is what the end is.
func (c *conn) side(e end) capture.Side { return capture.Side(e ^ c.client) }

// end is which end a side is.
func (c *conn) end(s capture.Side) end { return end(s) ^ c.client }

// open begins a connection with a frame; nil if the frame is none to begin with:
// acknowledgements and ends of connections that nobody saw, or saw end already.
func (t *Tracker) open(k key, from end, f *capture.Frame) *conn {
	if f.Transport == capture.TCP && f.Flags&capture.SYN == 0 && (f.Length <= 0 || f.Flags&capture.RST != 0) {
		return nil
	}
	for t.conns.count >= t.maxConns {
		t.forgetOldest()
	}
	t.lastID++
	t.stats.conns++
	c := &conn{key: k, client: from}
	c.ID, c.Transport = t.lastID, f.Transport
	c.First = markOf(f)
	c.Addr = [2]netip.AddrPort{f.Src, f.Dst}
	c.ends[from], c.ends[from.other()] = t.address(f.Src.Addr()), t.address(f.Dst.Addr())
	if f.Src.Addr().IsLoopback() || f.Dst.Addr().IsLoopback() {
		c.ends[0].sure, c.ends[1].sure = true, true
	}
	t.orient(c, f)
	if f.Transport == capture.TCP {
		c.tcp = &tcp{}
		c.Mid = f.Flags&(capture.SYN|capture.ACK) != capture.SYN
	} else {
		c.deaf = f.Dst.Addr().IsMulticast() || f.Dst.Addr() == broadcast ||
			f.Src.Port() == portMDNS || f.Dst.Port() == portMDNS
	}
	if c.Mid {
		t.stats.mid++
	}
	t.conns.add(c)
	t.enlist(c, f.Time)
	return c
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// orient says who is client, given that c takes the frame's sender for it.
func (t *Tracker) orient(c *conn, f *capture.Frame) {
	switch {
	case f.Transport == capture.TCP && f.Flags&capture.SYN != 0:
		c.sided = true
		if f.Flags&capture.ACK != 0 {
			c.flip()
		}
		t.listen(c.Addr[capture.Server])
	case t.serves(f.Src) && !t.serves(f.Dst):
		c.flip()
	case t.serves(f.Dst) && !t.serves(f.Src):
	case f.Transport == capture.TCP && f.Src.Port() < f.Dst.Port():
		c.flip()
	}
}

// serves says whether an address is known, or its port used, to be a server's.
func (t *Tracker) serves(a netip.AddrPort) bool {
	if t.ports[a.Port()] {
		return true
	}
	_, ok := t.listening[a]
	return ok
}

// maxListening and maxAddresses bound what is remembered for the whole capture.
const (
	maxListening = 1 << 16
	maxAddresses = 1 << 16
)

func (t *Tracker) listen(a netip.AddrPort) {
	if len(t.listening) < maxListening {
		t.listening[a] = struct{}{}
	}
}

// flip makes the client the server.
func (c *conn) flip() {
	c.client = c.client.other()
	c.ClosedBy = c.ClosedBy.Other()
	swap(&c.Addr)
	swap(&c.Local)
	swap(&c.MSS)
	swap(&c.Packets)
	swap(&c.Bytes)
	swap(&c.MissingBytes)
	swap(&c.Retransmitted)
	swap(&c.Reordered)
}

func swap[T any](pair *[2]T) { pair[0], pair[1] = pair[1], pair[0] }

// address counts what packets' directions say of an address: that it is the captured
// machine's, or not. A machine that forwards packets says both of all.
type address struct {
	own, foreign uint64
	// sure: a loopback address, or one that talks to such.
	sure bool
}

func (t *Tracker) address(a netip.Addr) *address {
	known := t.addresses[a]
	if known == nil {
		known = &address{sure: a.IsLoopback()}
		if len(t.addresses) < maxAddresses {
			t.addresses[a] = known
		}
	}
	return known
}

func (a *address) local() bool { return a.sure || a.own > 2*a.foreign }

func (c *conn) noteDirection(from end, d capture.Direction) {
	src, dst := c.ends[from], c.ends[from.other()]
	if d == capture.DirectionUnknown || src == dst || src.sure {
		return
	}
	if d == capture.Outgoing {
		src.own++
		dst.foreign++
	} else {
		dst.own++
		src.foreign++
	}
}

// locate sets Local by what is known now.
func (c *conn) locate() {
	c.Local[c.side(0)] = c.ends[0].local()
	c.Local[c.side(1)] = c.ends[1].local()
}

// processSince is who spoke or listened from a packet on.
type processSince struct {
	packet  uint64
	process capture.Process
}

// maxProcesses bounds how many changes of process are remembered of a connection.
const maxProcesses = 16

// noteProcess keeps who was concerned with the client's packets.
func (c *conn) noteProcess(from end, f *capture.Frame) {
	if c.Process == (capture.Process{}) {
		c.Process = f.Process
	}
	n := len(c.processes)
	if f.Length <= 0 || c.side(from) != capture.Client || n > 0 && c.processes[n-1].process == f.Process {
		return
	}
	if n == maxProcesses {
		copy(c.processes, c.processes[1:])
		c.processes = c.processes[:n-1]
	}
	c.processes = append(c.processes, processSince{f.Number, f.Process})
}

// processOf is who was concerned with a packet.
func (c *conn) processOf(packet uint64) capture.Process {
	for i := len(c.processes) - 1; i >= 0; i-- {
		if c.processes[i].packet <= packet {
			return c.processes[i].process
		}
	}
	return c.Process
}
