package flow

import (
	"time"

	"taper.dev/taper/internal/capture"
)

// listNumber says which list of connections. Each is in the order of their last packets,
// about: a connection moves at most once a second, which saves most of the moving.
type listNumber uint8

// Lists.
const (
	listClosed   listNumber = iota
	listAnswered            // datagrams, of the server at least as many as of the client
	listUDP
	listTCP
	lists
)

// patience is how long a connection may be silent. One that is closed lingers for late
// packets. Resolvers use a port for each question: those that have their answer must not
// keep the memory; they wait for as long as a resolver may ask again, 5 s, and then some.
var patience = [lists]time.Duration{
	listClosed:   5 * time.Second,
	listAnswered: 10 * time.Second,
	listUDP:      time.Minute,
	listTCP:      10 * time.Minute,
}

// moveAfter is how much later than its place in the list a packet must be to move its
// connection.
const moveAfter = time.Second

// list holds connections from the one silent longest to the last heard of.
type list struct{ oldest, newest *conn }

// push puts a connection, which is in no list, at the end of one.
func (t *Tracker) push(c *conn, to listNumber, at capture.Time) {
	l := &t.silent[to]
	c.in, c.touched, c.older, c.newer = to, at, l.newest, nil
	if l.newest != nil {
		l.newest.newer = c
	} else {
		l.oldest = c
	}
	l.newest = c
}

// pull takes a connection out of its list.
func (t *Tracker) pull(c *conn) {
	l := &t.silent[c.in]
	if c.older != nil {
		c.older.newer = c.newer
	} else {
		l.oldest = c.newer
	}
	if c.newer != nil {
		c.newer.older = c.older
	} else {
		l.newest = c.older
	}
	c.older, c.newer = nil, nil
}

func (t *Tracker) enlist(c *conn, at capture.Time) {
	if c.Transport == capture.UDP {
		t.push(c, listUDP, at)
	} else {
		t.push(c, listTCP, at)
	}
}

// touch says that there was a packet, whose time may lie before the last one's.
func (t *Tracker) touch(c *conn, at capture.Time) {
	if d := at.Sub(c.touched); d < moveAfter && d > -moveAfter || c.in == listClosed {
		return
	}
	t.pull(c)
	t.push(c, c.in, at)
}

// move puts a connection into another list, if it is not there.
func (t *Tracker) move(c *conn, to listNumber, at capture.Time) {
	if c.in != to {
		t.pull(c)
		t.push(c, to, at)
	}
}

// expire ends connections that were silent for too long.
func (t *Tracker) expire() {
	for i := range t.silent {
		l := &t.silent[i]
		for l.oldest != nil && t.now.Sub(l.oldest.touched) > patience[i]+moveAfter {
			t.finish(l.oldest)
		}
	}
}

// forgetOldest makes room: by what has ended or was answered, else by what was silent
// longest, which is given up.
func (t *Tracker) forgetOldest() {
	for _, i := range []listNumber{listClosed, listAnswered} {
		if c := t.silent[i].oldest; c != nil {
			t.finish(c)
			return
		}
	}
	c, other := t.silent[listUDP].oldest, t.silent[listTCP].oldest
	if c == nil || other != nil && other.touched < c.touched {
		c = other
	}
	t.stats.givenUp++
	t.finish(c)
}

// finish ends a connection: tells what is known of it, and forgets it.
func (t *Tracker) finish(c *conn) {
	if c.tcp != nil {
		t.endStreams(c)
	}
	t.endParser(c)
	c.locate()
	for side := range c.MissingBytes {
		t.stats.missing += c.MissingBytes[side]
		t.stats.retransmitted += c.Retransmitted[side]
		t.stats.reordered += c.Reordered[side]
	}
	t.conns.remove(c)
	if t.last == c {
		t.last = nil
	}
	t.pull(c)
	// A sink may keep the Conn, and with it all that this refers to.
	c.tcp, c.parser, c.undecided, c.processes, c.ends = nil, nil, nil, nil, [2]*address{}
	t.sink.Conn(&c.Conn)
}
