package attribution

import (
	"cmp"
	"slices"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/random"
)

// windowSize is how many exchanges are attributed together: enough to learn from, few
// enough that answers do not wait.
const windowSize = 8192

// Linker ties calls to requests. It is a capture.Sink.
type Linker struct {
	sink    Sink
	pending int // bound
	roles   *roles
	names   *names
	kinds   *kinds
	model   *model
	chance  random.Source

	waiting []arrival    // told, not yet in the window
	enough  int          // how many are worth a step
	horizon capture.Time // all exchanges that began before it were told
	decided capture.Time // links of calls that began before it are decided

	requests []*request // of the window, by start
	calls    []*call    // of the window, by start; undecided
	stalls   map[*capture.Conn][]capture.Stall
	stalled  int // entries in stalls

	open   openStretches // of the last request that was told, to be used again
	slices []Slice       // its

	lastID  uint64
	clock   openClock
	trust   trust
	ledger  ledger
	summary Summary
}

// arrival is an exchange that waits. When it began stands beside it: most of those that are
// sorted have left the processor's cache.
type arrival struct {
	*capture.Exchange
	start  capture.Time
	packet uint64
}

func (a arrival) compare(b arrival) int {
	if c := cmp.Compare(a.start, b.start); c != 0 {
		return c
	}
	return cmp.Compare(a.packet, b.packet)
}

// New makes a Linker that tells the sink what it finds.
func New(o Options, sink Sink) *Linker {
	if o.Pending <= 0 {
		o.Pending = DefaultPending
	}
	return &Linker{
		sink: sink, pending: max(o.Pending, 16), roles: newRoles(o.Service), names: newNames(),
		enough: windowSize, kinds: newKinds(), model: newModel(), stalls: map[*capture.Conn][]capture.Stall{},
		summary: Summary{Certainties: map[Certainty]uint64{}},
	}
}

// Exchange takes an exchange, in any order. It keeps the exchange.
func (l *Linker) Exchange(x *capture.Exchange) {
	l.roles.note(x)
	l.waiting = append(l.waiting, arrival{x, x.Start(), x.Request.First.Packet})
	if len(l.waiting)+len(l.requests)+len(l.calls) >= l.pending {
		l.early()
	}
}

// Stall takes a stall.
func (l *Linker) Stall(s *capture.Stall) {
	if l.stalled >= l.pending {
		return
	}
	l.stalls[s.Conn] = append(l.stalls[s.Conn], *s)
	l.stalled++
}

// Conn takes the end of a connection, which tells nothing that its exchanges did not.
func (l *Linker) Conn(*capture.Conn) {}

// Advance says that all exchanges that are answered and began before t were told.
func (l *Linker) Advance(t capture.Time) {
	l.horizon = max(l.horizon, t)
	if len(l.waiting) >= l.enough {
		l.step(l.horizon, false)
		// What is left waits for an exchange that is still open.
		l.enough = len(l.waiting) + windowSize
	}
}

// Finish attributes all that is left and says what it was. Nothing may be called after it.
func (l *Linker) Finish() Summary {
	l.step(maxTime, true)
	s := l.summary
	s.Services, s.Recognised = l.roles.services(), l.roles.recognised()
	s.Open = l.ledger.open()
	s.Refusals = l.ledger.refusals(&s)
	return s
}

const maxTime = capture.Time(1<<63 - 1)

// early decides with what is known, since more would not fit.
func (l *Linker) early() {
	l.summary.Early++
	starts := make([]capture.Time, len(l.waiting))
	for i, x := range l.waiting {
		starts[i] = x.start
	}
	slices.Sort(starts)
	// Three quarters: what is left is most probably incomplete.
	l.step(max(l.horizon, starts[len(starts)*3/4]+1), false)
	if len(l.requests)+len(l.calls)+len(l.waiting) > l.pending*3/4 {
		l.cut(maxTime, true)
	}
}

// step takes what began before the horizon into the window, links it, and tells what is
// decided by that; much at once in several windows.
func (l *Linker) step(horizon capture.Time, last bool) {
	slices.SortStableFunc(l.waiting, arrival.compare)
	for {
		next := horizon
		if len(l.waiting) > 2*windowSize {
			next = min(next, l.waiting[windowSize].start+1)
		}
		fresh := l.take(next)
		if len(fresh) > 0 || last {
			l.window(fresh)
			l.cut(next, last && next == horizon)
		}
		if next == horizon {
			return
		}
	}
}

// window adds exchanges to the window.
func (l *Linker) window(fresh []arrival) {
	l.roles.observe(fresh)
	calls := make([]call, 0, len(fresh))
	for _, a := range fresh {
		x := a.Exchange
		switch l.roles.of(x) {
		case roleRequest:
			l.addRequest(x)
		case roleCall:
			calls = append(calls, l.newCall(x))
		case roleForeign:
			l.summary.Foreign++
		}
	}
	for i := range calls {
		l.calls = append(l.calls, &calls[i])
	}
	slices.SortStableFunc(l.requests, func(a, b *request) int { return cmp.Compare(a.start, b.start) })
	slices.SortStableFunc(l.calls, func(a, b *call) int { return cmp.Compare(a.start, b.start) })
}

// take removes from what waits, which is sorted, all that began before the horizon.
func (l *Linker) take(horizon capture.Time) []arrival {
	n, _ := slices.BinarySearchFunc(l.waiting, horizon, func(x arrival, t capture.Time) int { return cmp.Compare(x.start, t) })
	fresh := slices.Clone(l.waiting[:n])
	l.waiting = slices.Delete(l.waiting, 0, n)
	for _, x := range fresh {
		if x.start < l.decided {
			l.summary.Late++
		}
	}
	return fresh
}

func (l *Linker) addRequest(x *capture.Exchange) {
	l.lastID++
	r := &request{
		out:   &Request{ID: l.lastID, Exchange: x, Route: l.kinds.route(x), Certainty: Certain, Confidence: 1},
		start: x.Start(), end: x.End(), ready: x.Request.Last.Time, answer: x.Response.First.Time,
		pod: l.roles.pod(x.Server().Addr()), tid: x.Process.TID, keys: x.Keys, late: x.Start() < l.decided,
	}
	r.route = l.model.route(r.out.Route)
	if !x.Answered() {
		// Its calls may come after its last byte: it was open until its connection ended.
		r.end, r.unanswered = max(r.end, x.Conn.Last.Time), true
	}
	l.requests = append(l.requests, r)
}

func (l *Linker) newCall(x *capture.Exchange) call {
	if x.Protocol == capture.DNS {
		l.names.learn(x)
	}
	c := call{Exchange: x, index: x.Index, start: x.Start(), end: x.End(), client: x.Client().Addr(), cause: causeOf(x), peer: l.names.peer(x)}
	c.template = l.kinds.template(&c)
	return c
}

func causeOf(x *capture.Exchange) Cause {
	switch {
	case x.Protocol == capture.DNS:
		return DNS
	case x.HTTP != nil && x.HTTP.Metadata != nil:
		return Metadata
	case x.Protocol == capture.TLS && x.Op == "handshake":
		return TLS
	}
	return Call
}

// cut links the window and tells what is decided: everything, or what lies before a
// moment after which enough is known.
func (l *Linker) cut(horizon capture.Time, last bool) {
	units := l.units()
	l.link(units, horizon)
	until := maxTime
	if !last {
		until = l.border(units, horizon)
	}
	l.tell(units, until)
}

// border is the moment up to which links are decided: the last one at which no request
// was open, if there is one in the second half, else the middle.
func (l *Linker) border(units []*unit, horizon capture.Time) capture.Time {
	if len(units) == 0 {
		return min(horizon, l.oldestOpen(horizon))
	}
	middle := units[len(units)/2].start
	idle, end := capture.Time(0), capture.Time(0)
	for _, r := range l.requests {
		if r.start > end {
			idle = r.start
		}
		end = max(end, r.end+1)
	}
	if end < horizon {
		idle = horizon
	}
	if idle > middle {
		return idle
	}
	return middle
}

// oldestOpen is when the first request began that is open at t.
func (l *Linker) oldestOpen(t capture.Time) capture.Time {
	for _, r := range l.requests {
		if r.end >= t {
			return r.start
		}
	}
	return t
}

// tell hands out what is decided before a moment, and forgets it.
func (l *Linker) tell(units []*unit, until capture.Time) {
	l.model.settle(units, l.requests, l.decided, until)
	l.decided = max(l.decided, until)
	for _, u := range units {
		if u.start < until {
			l.settle(u)
		}
	}
	l.calls = slices.DeleteFunc(l.calls, func(c *call) bool { return c.settled })
	l.tellRequests(until)
	l.forgetStalls()
}

// settle makes the link of a unit final.
func (l *Linker) settle(u *unit) {
	for _, c := range u.calls {
		c.settled = true
	}
	if u.parent != nil {
		u.parent.settled = append(u.parent.settled, u)
		return
	}
	for _, c := range u.calls {
		l.summary.Orphans++
		l.sink.Orphan(&Orphan{Exchange: c.Exchange, Cause: c.cause, Peer: c.peer})
	}
}

func (l *Linker) tellRequests(until capture.Time) {
	ended := make([]*request, 0, len(l.requests))
	l.requests = slices.DeleteFunc(l.requests, func(r *request) bool {
		if until == maxTime || r.end < until {
			ended = append(ended, r)
			return true
		}
		return false
	})
	l.clock.measure(ended, l.requests)
	slices.SortStableFunc(ended, func(a, b *request) int { return cmp.Compare(a.out.End(), b.out.End()) })
	for _, r := range ended {
		l.model.learn(r)
		l.finish(r)
		l.sink.Request(r.out)
	}
}

// forgetStalls drops stalls that no request of the window and none to come can have.
func (l *Linker) forgetStalls() {
	if l.stalled == 0 {
		return
	}
	oldest := l.decided
	for _, r := range l.requests {
		oldest = min(oldest, r.start)
	}
	for _, c := range l.calls {
		oldest = min(oldest, c.start)
	}
	l.stalled = 0
	for conn, all := range l.stalls {
		all = slices.DeleteFunc(all, func(s capture.Stall) bool { return s.To.Time < oldest })
		l.stalled += len(all)
		if len(all) == 0 {
			delete(l.stalls, conn)
		} else {
			l.stalls[conn] = all
		}
	}
}
