package sim

import (
	"math"
	"time"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/internal/random"
)

// loop is a control loop: it reads what servers did over its last interval, late and not
// always right, decides, and has proxies told.
type loop struct {
	*Weigher
	engine   *engine
	chance   *random.Source
	interval float64 // seconds

	// counters are those of the last reading, read at readAt; fresh are readings that are not
	// old enough to be known to the loop, and known is the newest that is.
	counters []counters
	readAt   float64
	fresh    fifo[reading]
	known    model.Snapshot

	memory  balance.Memory
	current model.Weights // decided
	inForce model.Weights // as proxies have them

	decided  []Decided
	verdicts []balance.Verdict
}

// counters are what metrics count of a server.
type counters struct {
	cpu, present float64
	served       uint64
}

// reading is a snapshot, and when it was true.
type reading struct {
	at       float64
	snapshot model.Snapshot
}

func newLoop(e *engine, w *Weigher, chance *random.Source) *loop {
	return &loop{
		Weigher: w, engine: e, chance: chance, interval: w.Policy.Interval.Seconds(), known: model.Snapshot{},
		counters: make([]counters, len(e.servers)),
	}
}

// begin enters the first reading and the first decision.
func (l *loop) begin() {
	// Readings are taken so that each is as old as the delay says when it is used.
	first := l.interval - math.Mod(l.Delay, l.interval)
	l.engine.agenda.add(first, l.read)
	l.engine.agenda.add(l.interval, l.decide)
}

// read takes a snapshot of what servers did since the last one.
func (l *loop) read() {
	e := l.engine
	e.agenda.add(e.now+l.interval, l.read)
	seconds := e.now - l.readAt
	snapshot := make(model.Snapshot, len(e.members))
	for i := range e.servers {
		now := counters{cpu: e.cpu(i), present: e.servers[i].present, served: e.servers[i].served}
		before := l.counters[i]
		l.counters[i] = now
		if !e.standing[i].member || l.chance.Unit() <= l.Missing {
			continue
		}
		s := model.Sample{Window: time.Duration(seconds * float64(time.Second))}
		if l.Evidence != balance.FromInFlight {
			s.CPU = l.noisy((now.cpu - before.cpu) / seconds)
		}
		if l.Evidence != balance.FromCPUOnly {
			s.Requests = l.noisy(float64(now.served-before.served) / seconds)
		}
		if l.Evidence != balance.FromCPUOnly && !l.NoInFlight {
			s.InFlight = l.noisy((now.present - before.present) / seconds)
		}
		snapshot[e.service.Servers[i].Address] = s
	}
	l.readAt = e.now
	l.fresh.push(reading{e.now, snapshot})
}

// noisy is a value as it is read.
func (l *loop) noisy(value float64) model.Reading {
	if l.Noise > 0 {
		value *= max(0, 1+l.Noise*l.chance.Normal())
	}
	return model.Reading{Value: value, At: at(l.engine.now)}
}

// decide asks for a decision about what is known by now.
func (l *loop) decide() {
	e := l.engine
	e.agenda.add(e.now+l.interval, l.decide)
	const same = 1e-9 // seconds, of sums that differ in how they were added up
	for l.fresh.len() > 0 && l.fresh.first().at <= e.now-l.Delay+same {
		l.known = l.fresh.pop().snapshot
	}
	snapshot := l.known
	for _, o := range l.Outages {
		if e.within(o.From, o.Until) {
			snapshot = model.Snapshot{}
		}
	}
	if len(e.members) == 0 {
		return
	}
	d := l.ask(snapshot)
	l.verdicts = d.Verdicts
	decided := Decided{At: e.now, Weights: make([]uint32, len(e.servers)), Hold: d.Hold}
	for _, i := range e.members {
		decided.Weights[i] = d.Weights[e.service.Servers[i].Address]
	}
	l.decided = append(l.decided, decided)
	weights := d.Weights
	e.agenda.add(e.now+l.Propagation, func() {
		l.inForce = weights
		e.assign()
	})
}

// follow has members that come and go followed at once, as the operator does.
func (l *loop) follow() {
	if l.current == nil || len(l.engine.members) == 0 {
		return
	}
	l.inForce = l.ask(nil).Weights
}

// ask is one decision.
func (l *loop) ask(snapshot model.Snapshot) balance.Decision {
	e := l.engine
	in := balance.Input{Now: at(e.now), Snapshot: snapshot, Current: l.current, Memory: l.memory, Policy: l.Policy}
	for _, i := range e.members {
		s := e.service.Servers[i]
		in.Endpoints = append(in.Endpoints, model.Endpoint{Address: s.Address, Capacity: s.Cores})
	}
	d := l.Decide(in)
	l.current, l.memory = d.Weights, d.Memory
	return d
}

// weight is what proxies have for a server: one that nothing was decided about has the
// least, as a mesh does it.
func (l *loop) weight(server int) uint32 {
	return max(1, l.inForce[l.engine.service.Servers[server].Address])
}
