package agent

import (
	"net"
	"net/netip"
	"sync"

	"taper.dev/taper/internal/probe"
)

// trial is the far end of one that runs: where what arrives with its ticket goes.
type trial struct {
	spec   probe.Spec
	ticket ticket

	streams   chan *net.TCPConn
	datagrams chan *net.UDPConn

	mu        sync.Mutex
	closed    bool
	delivered struct{ streams, datagrams int }
	senders   map[netip.AddrPort]bool // that have a socket already
	handing   sync.WaitGroup          // deliveries under way
}

// backlog is how many connections may wait for the far end to take them, which it does
// fast even where each message has a connection of its own.
const backlog = 1024

func newTrial(spec probe.Spec) *trial {
	return &trial{
		spec: spec, ticket: newTicket(),
		streams:   make(chan *net.TCPConn, backlog),
		datagrams: make(chan *net.UDPConn, probe.MaxStreams),
		senders:   map[netip.AddrPort]bool{},
	}
}

func (t *trial) arrivals() probe.Arrivals {
	return probe.Arrivals{Streams: t.streams, Datagrams: t.datagrams}
}

// arrived is how much was handed over.
func (t *trial) arrived() (streams, datagrams int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.delivered.streams, t.delivered.datagrams
}

// reached tells whether anything has come.
func (t *trial) reached() bool {
	streams, datagrams := t.arrived()
	return streams+datagrams > 0
}

// begin announces a delivery, and is false when the trial is over. It must be ended with
// handing.Done.
func (t *trial) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.handing.Add(1)
	return true
}

// deliverStream hands a connection to the far end. If the trial is over, or too many wait,
// the connection is closed.
func (t *trial) deliverStream(conn *net.TCPConn) {
	if !t.begin() {
		_ = conn.Close()
		return
	}
	defer t.handing.Done()
	select {
	case t.streams <- conn:
		t.mu.Lock()
		t.delivered.streams++
		t.mu.Unlock()
	default:
		_ = conn.Close()
	}
}

// deliverDatagrams opens a socket for a sender and hands it over, once per sender and for
// as many as a trial can have.
func (t *trial) deliverDatagrams(sender netip.AddrPort, open func() (*net.UDPConn, error)) error {
	if !t.begin() {
		return nil
	}
	defer t.handing.Done()
	t.mu.Lock()
	taken := t.senders[sender] || len(t.senders) >= probe.MaxStreams
	if !taken {
		t.senders[sender] = true
	}
	t.mu.Unlock()
	if taken {
		return nil // mostly who said hello again before its socket was ready
	}
	conn, err := open()
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		delete(t.senders, sender) // it may try again
		return err
	}
	t.delivered.datagrams++
	t.datagrams <- conn // there is room for all senders
	return nil
}

// close ends deliveries, and closes what the far end did not take. It may be called again.
func (t *trial) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.handing.Wait()
	for {
		select {
		case conn := <-t.streams:
			_ = conn.Close()
		case conn := <-t.datagrams:
			_ = conn.Close()
		default:
			return
		}
	}
}

// desk knows the trial that runs by its ticket. There is one at a time.
type desk struct {
	mu      sync.Mutex
	current *trial
	last    ticket // of the trial that was over last
}

func (d *desk) open(t *trial) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.current = t
}

// shut ends deliveries to a trial; it may be called again.
func (d *desk) shut(t *trial) {
	d.mu.Lock()
	if d.current == t {
		d.current, d.last = nil, t.ticket
	}
	d.mu.Unlock()
	t.close()
}

// late tells whether something belongs to a trial that is just over. That is no trouble.
func (d *desk) late(t ticket) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return t != ticket{} && t == d.last
}

// find is the trial of a ticket; nil if there is none. Tickets are random: comparing them
// tells nothing to who guesses.
func (d *desk) find(t ticket) *trial {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current == nil || d.current.ticket != t {
		return nil
	}
	return d.current
}
