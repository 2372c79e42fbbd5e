package attribution

import (
	"cmp"
	"container/heap"
	"slices"

	"taper.dev/taper/internal/capture"
)

// stretch is a time in which a request had a reason to wait.
type stretch struct {
	Slice
	rank     int  // of the cause: the least wins
	loopback bool // loses against one that is not, of the same cause
}

// finish fills in a request's links, slices and certainty.
func (l *Linker) finish(r *request) {
	out := r.out
	all := l.open.all[:0]
	start, end := out.Start(), out.End()
	add := func(s Slice, loopback bool) {
		s.From, s.To = max(s.From, start), min(s.To, end)
		if s.From < s.To {
			all = append(all, stretch{s, slices.Index(causeOrder[:], s.Cause), loopback})
		}
	}
	l.fillLinks(r)
	for i := range out.Links {
		l.addCall(out, i, add)
	}
	l.addClient(out, add)
	l.open.all = all
	if end > start {
		l.slices = l.open.cover(l.slices[:0], start, end)
		out.Slices = slices.Clone(l.slices)
	}
	l.summary.Requests++
	l.summary.Links += uint64(len(out.Links))
	l.summary.Certainties[out.Certainty]++
	l.ledger.enter(out)
}

// causeOrder is Causes without allocation.
var causeOrder = [...]Cause{Retransmit, DNS, Metadata, Connect, TLS, Call, ClientNetwork, Self}

// fillLinks makes the links of the request's units.
func (l *Linker) fillLinks(r *request) {
	out := r.out
	if len(r.settled) > 0 {
		out.Links = make([]Link, 0, r.calls())
	}
	for _, u := range r.settled {
		certainty := Ambiguous
		switch {
		case u.certain:
			certainty = Certain
		case u.probability >= LikelyFrom:
			certainty = Likely
		}
		for _, c := range u.calls {
			out.Links = append(out.Links, Link{
				Exchange: c.Exchange, Cause: c.cause, Peer: c.peer,
				Probability: u.probability, Certainty: certainty, opened: c.opened,
			})
		}
		r.doubt(u.probability, certainty)
	}
	slices.SortStableFunc(out.Links, func(a, b Link) int { return cmp.Compare(a.Exchange.Start(), b.Exchange.Start()) })
	switch {
	case r.late:
		r.doubt(0, Ambiguous)
	case len(out.Links) == 0 && r.samples > 0:
		p := min(float64(r.childless/r.samples), mostProbable)
		if p >= LikelyFrom {
			r.doubt(p, Likely)
		} else {
			r.doubt(p, Ambiguous)
		}
	}
}

// calls counts those of a request's settled units.
func (r *request) calls() (n int) {
	for _, u := range r.settled {
		n += len(u.calls)
	}
	return n
}

// doubt lowers a request's certainty to that of a link.
func (r *request) doubt(p float64, c Certainty) {
	r.out.Confidence = min(r.out.Confidence, p)
	if c == Ambiguous || c == Likely && r.out.Certainty == Certain {
		r.out.Certainty = c
	}
}

// addCall adds what a link explains: its exchange, the handshake before it, and what was
// lost on its connection meanwhile.
func (l *Linker) addCall(out *Request, i int, add func(Slice, bool)) {
	k := &out.Links[i]
	x := k.Exchange
	loopback := x.Server().Addr().IsLoopback()
	last := x.Response.Last.Packet
	if !x.Answered() {
		last = x.Request.Last.Packet
	}
	add(Slice{Cause: k.Cause, Peer: k.Peer, From: x.Start(), To: x.End(), Link: i, Packets: [2]uint64{x.Request.First.Packet, last}}, loopback)
	from := x.Start()
	if k.opened != 0 {
		from = k.opened
		addConnect(k, i, add)
	}
	for _, s := range l.stalls[x.Conn] {
		if s.Kind <= capture.StallTail && s.To.Time > from && s.From.Time < x.End() {
			add(Slice{
				Cause: Retransmit, Peer: k.Peer, From: max(s.From.Time, from), To: min(s.To.Time, x.End()), Link: i,
				Packets: [2]uint64{s.From.Packet, s.To.Packet},
			}, false)
		}
	}
}

// addConnect adds a handshake; its repeated SYNs were lost bytes.
func addConnect(k *Link, i int, add func(Slice, bool)) {
	conn := k.Exchange.Conn
	syn, up := conn.SYNs[0], conn.Established
	if !up.Seen() {
		up = conn.SYNACK
	}
	add(Slice{Cause: Connect, Peer: k.Peer, From: syn.Time, To: up.Time, Link: i, Packets: [2]uint64{syn.Packet, up.Packet}}, false)
	for j := 1; j < len(conn.SYNs); j++ {
		a, b := conn.SYNs[j-1], conn.SYNs[j]
		add(Slice{Cause: Retransmit, Peer: k.Peer, From: a.Time, To: b.Time, Link: i, Packets: [2]uint64{a.Packet, b.Packet}}, false)
	}
}

// addClient adds what the network to the client took: the request's arrival, and what its
// connection lost.
func (l *Linker) addClient(out *Request, add func(Slice, bool)) {
	x := out.Exchange
	from := x.Request.First
	if h := x.HTTP; h != nil && h.Continue && h.Interim.Seen() && h.Interim.Time <= x.Request.Last.Time {
		from = h.Interim // before it the service had the headers and thought about them
	}
	add(Slice{
		Cause: ClientNetwork, From: from.Time, To: x.Request.Last.Time, Link: -1,
		Packets: [2]uint64{from.Packet, x.Request.Last.Packet},
	}, false)
	for _, s := range l.stalls[x.Conn] {
		k := Slice{Cause: Retransmit, From: s.From.Time, To: s.To.Time, Link: -1, Packets: [2]uint64{s.From.Packet, s.To.Packet}}
		switch {
		case s.Kind == capture.StallZeroWindow && s.Sender == capture.Server:
			k.Cause = ClientNetwork
		case s.Kind > capture.StallTail:
			continue
		default:
			k.Peer = clientPeer
		}
		add(k, false)
	}
}

// clientPeer is the peer of bytes that were lost between the client and the service.
const clientPeer = "client"

// cover appends slices that split a time between overlapping stretches: in each moment the
// best of those open has it, where there is none it is self.
func (o *openStretches) cover(out []Slice, start, end capture.Time) []Slice {
	slices.SortStableFunc(o.all, func(a, b stretch) int { return cmp.Compare(a.From, b.From) })
	o.heap = o.heap[:0]
	next := 0
	for t := start; t < end; {
		var s Slice
		if o.Len() == 0 && alone(o.all[next:], t) {
			s = o.all[next].Slice
			next++
		} else {
			s, next = o.at(t, next, end)
		}
		s.From = t
		if n := len(out); n > 0 && sameWait(&out[n-1], &s) {
			out[n-1].To = s.To
		} else {
			out = append(out, s)
		}
		t = s.To
	}
	return out
}

// alone says whether the first of stretches begins now and ends before the next one begins.
func alone(all []stretch, t capture.Time) bool {
	return len(all) > 0 && all[0].From <= t && t < all[0].To && (len(all) == 1 || all[0].To <= all[1].From)
}

// at is what has the time from a moment on, of those open and those from next on; until
// another one may have it.
func (o *openStretches) at(t capture.Time, next int, end capture.Time) (Slice, int) {
	for next < len(o.all) && o.all[next].From <= t {
		heap.Push(o, next)
		next++
	}
	for o.Len() > 0 && o.all[o.heap[0]].To <= t {
		heap.Pop(o)
	}
	s := Slice{Cause: Self, Link: -1, To: end}
	if o.Len() > 0 {
		s = o.all[o.heap[0]].Slice
	}
	if next < len(o.all) {
		s.To = min(s.To, o.all[next].From)
	}
	return s, next
}

func sameWait(a, b *Slice) bool {
	return a.Cause == b.Cause && a.Peer == b.Peer && a.Link == b.Link && a.Packets == b.Packets
}

// openStretches is a heap of stretches of one request: the one that has the time is first.
type openStretches struct {
	all  []stretch
	heap []int
}

func (o *openStretches) Len() int      { return len(o.heap) }
func (o *openStretches) Swap(i, j int) { o.heap[i], o.heap[j] = o.heap[j], o.heap[i] }
func (o *openStretches) Push(x any)    { o.heap = append(o.heap, x.(int)) }

func (o *openStretches) Pop() any {
	last := o.heap[len(o.heap)-1]
	o.heap = o.heap[:len(o.heap)-1]
	return last
}

// Less puts the more particular cause first. Of one cause, it is the call that leaves the
// machine, and of those the one that ends last: the request waits until then.
func (o *openStretches) Less(i, j int) bool {
	a, b := &o.all[o.heap[i]], &o.all[o.heap[j]]
	switch {
	case a.rank != b.rank:
		return a.rank < b.rank
	case a.loopback != b.loopback:
		return b.loopback
	case a.To != b.To:
		return a.To > b.To
	}
	return o.heap[i] < o.heap[j]
}
