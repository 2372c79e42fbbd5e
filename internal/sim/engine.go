package sim

import (
	"context"
	"math"

	"taper.dev/taper/internal/random"
)

// engine is a run. What happens next is the earliest of: an entry of the agenda, an answer
// that reaches its proxy, a departure from a server, the end of a proxy's patience, an
// arrival; at one time in this order.
type engine struct {
	service *Service
	policy  Policy
	loop    *loop // nil without one
	fixed   []uint32
	now     float64

	servers    []server
	standing   []standing
	changes    map[int][]Change // by server
	departures *departures
	agenda     agenda
	answers    fifo[due]
	timeouts   fifo[due]

	attempts []attempt
	unused   []int32 // places in attempts

	chance   *random.Source // of arrivals
	arrival  float64        // the next one; +Inf if there is none
	arrivals int

	members []int // sorted, as the policy knows them
	*recorder
}

// request is what a proxy has been asked for.
type request struct {
	arrived float64
	luck    float64 // where its cost lies among its like, 0..1
	proxy   int32
	left    int32 // retries
}

// attempt is a request on its way to one server and back.
type attempt struct {
	request
	sent   float64
	server int32
	// life counts the attempts that had this place.
	life uint32
	// abandoned is one that its proxy has given up, failed one that will not be answered.
	abandoned, failed bool
}

// due is an attempt to which something happens. All in a queue wait equally long, so that
// they are due in the order in which they were entered.
type due struct {
	at      float64
	attempt int32
	life    uint32
}

// Run simulates. It fails only when the context ends.
func Run(ctx context.Context, t Trial) (*Result, error) {
	e := newEngine(t)
	const look = 1 << 14 // events between two looks at the context
	for events := 0; !e.over(); events++ {
		if events%look == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if t.Progress != nil {
				t.Progress(min(1, e.now/e.end))
			}
		}
		e.step()
	}
	return e.conclude(), nil
}

func newEngine(t Trial) *engine {
	s := t.Service
	n := len(s.Servers)
	chance := random.New(t.Seed)
	// Each has chances of its own, so that none disturbs the others'.
	policyChance, loopChance := random.New(chance.Next()), random.New(chance.Next())
	e := &engine{
		service: s, chance: chance, departures: newDepartures(n),
		servers: make([]server, n), standing: make([]standing, n),
		recorder: newRecorder(s, t.Steps),
	}
	for i := range e.standing {
		e.standing[i] = standing{factor: 1, since: math.NaN()}
	}
	e.policy = t.NewPolicy(Setting{Proxies: s.Proxies, Servers: n, World: e, Random: policyChance})
	if w := t.Weigher; w != nil && w.Fixed != nil {
		e.fixed = w.Fixed
	} else if w != nil {
		e.loop = newLoop(e, w, loopChance)
	}
	e.plan()
	e.measure()
	if e.loop != nil {
		e.loop.begin()
	}
	e.await()
	return e
}

// over tells whether all that is measured has come to its end, or never will.
func (e *engine) over() bool {
	return e.now >= e.end && (e.open == 0 || e.now >= e.patience)
}

// step lets the next thing happen.
func (e *engine) step() {
	next := math.Inf(1)
	if len(e.agenda.entries) > 0 {
		next = e.agenda.entries[0].at
	}
	what := entered
	if e.answers.len() > 0 && e.answers.first().at < next {
		next, what = e.answers.first().at, answer
	}
	if _, at := e.departures.first(); at < next {
		next, what = at, departure
	}
	if e.timeouts.len() > 0 && e.timeouts.first().at < next {
		next, what = e.timeouts.first().at, timeout
	}
	if e.arrival < next {
		next, what = e.arrival, arrival
	}
	e.now = next
	if next > math.MaxFloat64 {
		return // nothing comes any more
	}
	switch what {
	case entered:
		e.agenda.pop()()
	case answer:
		e.answered(e.answers.pop().attempt)
	case departure:
		e.depart()
	case timeout:
		e.giveUp()
	case arrival:
		e.arrive()
	}
}

// What can happen.
const (
	entered = iota // in the agenda
	answer
	departure
	timeout
	arrival
)

// await draws when the next request comes.
func (e *engine) await() {
	at, ok := e.service.Arrivals.Next(e.arrival, e.arrivals, e.chance)
	if !ok {
		at = math.Inf(1)
	}
	e.arrival = at
	e.arrivals++
}

// arrive brings in a request.
func (e *engine) arrive() {
	proxy := int32(0)
	if e.service.Proxies > 1 {
		proxy = int32(e.chance.Below(e.service.Proxies))
	}
	// A part that is exactly 1 has no quantile.
	luck := min(e.chance.Unit(), 1-0x1p-53)
	e.begun(e.now)
	e.send(request{arrived: e.now, luck: luck, proxy: proxy, left: int32(e.service.Retries)})
	e.await()
}

// send lets a proxy choose a server for a request.
func (e *engine) send(r request) {
	if len(e.members) == 0 {
		e.ended(r, true)
		return
	}
	i := e.place()
	server := e.policy.Pick(int(r.proxy))
	a := &e.attempts[i]
	a.request, a.sent, a.server = r, e.now, int32(server)
	a.abandoned, a.failed = false, false
	if e.service.Timeout > 0 {
		e.timeouts.push(due{e.now + e.service.Timeout, i, a.life})
	}
	st := &e.standing[server]
	if st.down {
		a.failed = true
		e.answerLater(i)
		return
	}
	s := &e.servers[server]
	s.take(e.now, st.factor*e.service.Servers[server].Demand.Of(r.luck), i)
	e.departures.set(int32(server), s.next())
}

// place is where an attempt is kept.
func (e *engine) place() int32 {
	if last := len(e.unused) - 1; last >= 0 {
		i := e.unused[last]
		e.unused = e.unused[:last]
		return i
	}
	e.attempts = append(e.attempts, attempt{})
	return int32(len(e.attempts) - 1)
}

// forget gives an attempt's place back.
func (e *engine) forget(i int32) {
	e.attempts[i].life++
	e.unused = append(e.unused, i)
}

// depart ends a request at the server that is done first.
func (e *engine) depart() {
	server, _ := e.departures.first()
	s := &e.servers[server]
	i := s.finish(e.now)
	e.departures.set(server, s.next())
	e.answerLater(i)
}

// answerLater sends an answer, or the news that there is none, on its way to the proxy.
func (e *engine) answerLater(i int32) {
	if e.service.RoundTrip == 0 {
		e.answered(i)
		return
	}
	e.answers.push(due{at: e.now + e.service.RoundTrip, attempt: i})
}

// answered is when a proxy learns of an attempt's end.
func (e *engine) answered(i int32) {
	a := &e.attempts[i]
	r, failed := a.request, a.failed
	if a.abandoned {
		e.forget(i)
		return
	}
	e.policy.Done(int(a.proxy), int(a.server), Answer{e.now - a.sent, failed})
	if !failed {
		e.attempted(a, e.now)
	}
	e.forget(i)
	e.settle(r, failed)
}

// giveUp ends a proxy's patience with an attempt, which goes on at its server.
func (e *engine) giveUp() {
	d := e.timeouts.pop()
	a := &e.attempts[d.attempt]
	if a.life != d.life {
		return // it was answered before
	}
	a.abandoned = true
	r := a.request
	e.policy.Done(int(a.proxy), int(a.server), Answer{e.now - a.sent, true})
	e.settle(r, true)
}

// settle ends a request, or tries again.
func (e *engine) settle(r request, failed bool) {
	if failed && r.left > 0 {
		r.left--
		e.send(r)
		return
	}
	e.ended(r, failed)
}
