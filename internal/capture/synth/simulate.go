package synth

import (
	"container/heap"
	"math/rand/v2"
	"net/netip"
	"time"

	"taper.dev/taper/internal/capture"
)

// Generate tells the packets of a plan in the order of time. The packet given to emit is
// valid during the call; an error of emit ends it. tell, which may be nil, is given each
// request when it has ended; the background calls' first packets are returned.
func Generate(p Plan, emit func(*capture.Packet) error, tell func(Request)) ([]uint64, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	s := newSimulation(p, emit, tell)
	s.arrivals()
	for i := range p.Background {
		s.background(i)
	}
	for s.err == nil && len(s.events) > 0 {
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		e.do()
	}
	return s.unasked, s.err
}

// simulation is a service at work. Everything happens in events, in the order of time.
type simulation struct {
	plan   Plan
	rand   *rand.Rand
	spoil  *rand.Rand // of its own: spoiling a capture leaves what happens as it is
	now    capture.Time
	events events
	order  uint64
	err    error

	emit    func(*capture.Packet) error
	packet  capture.Packet
	buffer  []byte
	number  uint64
	ids     uint16
	inbound []*conn
	pools   map[netip.AddrPort][]*conn
	ports   uint32

	left    int // requests that have not arrived
	open    int // that have not been answered
	tell    func(Request)
	unasked []uint64
}

func newSimulation(p Plan, emit func(*capture.Packet) error, tell func(Request)) *simulation {
	if p.Link == capture.LinkNull {
		p.Link = capture.LinkSLL2
	}
	if p.Start.IsZero() {
		p.Start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	}
	if tell == nil {
		tell = func(Request) {}
	}
	return &simulation{
		plan: p, emit: emit, tell: tell,
		rand:  rand.New(rand.NewPCG(p.Seed, 1)),
		spoil: rand.New(rand.NewPCG(p.Seed, 2)),
		now:   capture.At(p.Start),
		pools: map[netip.AddrPort][]*conn{},
		left:  p.Requests,
	}
}

type event struct {
	at    capture.Time
	order uint64 // of what is at the same time, the first that was said
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	(*e)[len(*e)-1] = event{}
	*e = (*e)[:len(*e)-1]
	return last
}

// after does something in a while.
func (s *simulation) after(d time.Duration, do func()) {
	s.order++
	heap.Push(&s.events, event{at: s.now.Add(d), order: s.order, do: do})
}

// arrivals lets requests arrive at random moments.
func (s *simulation) arrivals() {
	between := Gamma(s.plan.between(), 1)
	var next func()
	next = func() {
		s.left--
		s.open++
		s.request()
		if s.left > 0 {
			s.after(between.draw(s.rand), next)
		}
	}
	s.after(between.draw(s.rand), next)
}

// background calls while there are requests.
func (s *simulation) background(i int) {
	b := s.plan.Background[i]
	between := Gamma(b.Every, 1)
	var next func()
	next = func() {
		if s.left == 0 && s.open == 0 {
			return
		}
		s.call(b.Call, 0, func(c TrueCall) { s.unasked = append(s.unasked, c.Packet) }, func() {})
		s.after(between.draw(s.rand), next)
	}
	s.after(between.draw(s.rand), next)
}

func (s *simulation) route() int {
	var sum float64
	for _, r := range s.plan.Routes {
		sum += r.oftenness()
	}
	x := s.rand.Float64() * sum
	for i, r := range s.plan.Routes {
		if x -= r.oftenness(); x < 0 {
			return i
		}
	}
	return len(s.plan.Routes) - 1
}

// walk is a request on its way.
type walk struct {
	*simulation
	truth Request
	route Route
	trace string
	conn  *conn
	// running counts calls in flight, and ended says that there are no further steps.
	running int
	ended   bool
}

func (s *simulation) request() {
	i := s.route()
	w := &walk{simulation: s, route: s.plan.Routes[i], truth: Request{Route: i}}
	if s.plan.Keys {
		w.trace = traceID(s.rand)
	}
	s.arrive(func(c *conn) {
		w.conn = c
		c.busy = true
		message := request(w.route.Method, fill(w.route.Path, s.rand), "shop.example", "curl/8.5.0", w.trace, nil)
		s.send(c, capture.Client, message, func(first sent) {
			w.truth.Packet, w.truth.Start = first.packet, first.at
		}, func() { w.step(0, 0) })
	})
}

// step takes the step i for the n-th time, unless there is none.
func (w *walk) step(i, n int) {
	if i == len(w.route.Steps) {
		w.ended = true
		w.finish()
		return
	}
	step := w.route.Steps[i]
	next := func() {
		if n+1 < step.Times {
			w.step(i, n+1)
			return
		}
		w.step(i+1, 0)
	}
	if n == 0 && step.Skip > 0 && w.rand.Float64() < step.Skip {
		w.step(i+1, 0)
		return
	}
	beside := i+1 < len(w.route.Steps) && w.route.Steps[i+1].Beside
	w.running++
	w.after(step.Pause.draw(w.rand), func() {
		c := step.Call
		w.callWith(c, i, w.trace, func(c TrueCall) { w.truth.Calls = append(w.truth.Calls, c) }, func() {
			w.running--
			if beside {
				w.finish()
				return
			}
			next()
		})
		if beside {
			next()
		}
	})
}

// finish answers once all calls are back.
func (w *walk) finish() {
	if !w.ended || w.running > 0 {
		return
	}
	w.after(w.route.Finish.draw(w.rand), func() {
		status := w.route.Status
		if status == 0 {
			status = 200
		}
		w.send(w.conn, capture.Server, response(status, filler(200)), nil, func() {
			w.truth.End = w.conn.lastData
			w.conn.busy = false
			w.open--
			w.tell(w.truth)
			if w.plan.Clients == 0 {
				w.close(w.conn, capture.Client)
			}
		})
	})
}
