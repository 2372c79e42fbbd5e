package stream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/socket"
)

// A responsiveness trial follows draft-ietf-ippm-responsiveness-08 ("Test Parameters",
// "Measuring Responsiveness", "Final Algorithm"), over TCP alone, with load both ways at once:
//
//   - for a fifth of its time there is no load: that is idle latency;
//   - then a connection each way is added at every interval, until goodput is stable or
//     there are as many as the spec's Streams each way, for two fifths at most;
//   - for the rest, probes count: foreign ones open a connection (tcp_f) and ask on it
//     (http_f), and as many self probes go within connections that carry load (http_l).
//
// What the draft does and this does not: it ends when responsiveness is stable, this when
// the time is over, so that trials can be compared. Its interval is a second; here it
// is shorter where the trial is shorter than a minute or so.
const (
	idleShare = 5 // 1/5
	rampShare = 5 // 2/5
	// probesPerS is the draft's MPS, of each kind, unless the spec has a rate.
	probesPerS = 100
	// movingAverage is the draft's MAD, in intervals.
	movingAverage = 4
	// tolerance is the draft's SDT.
	tolerance = 0.05
	// foreignAtOnce bounds the probes on connections of their own that are under way.
	foreignAtOnce = 4
	// longestInterval is the draft's ID.
	longestInterval = time.Second
	// intervals are what the time for adding connections is divided into at least: goodput
	// is stable after seven at the earliest.
	intervals = 12
)

// loader is the near end of a responsiveness trial.
type loader struct {
	*end
	line probe.Line
	crew *crew
	// before and loaded are when probes count as idle latency, and as loaded.
	before, loaded span
	over           atomic.Bool
	carriers       []*carrier
	callers        []*caller
	idle           []*probe.Distribution // of each caller
}

// underLoad is the near end of responsiveness.
func (e *end) underLoad(line probe.Line) (outcome, error) {
	l := &loader{end: e, line: line, crew: newCrew(e.cpu, e.group.Shutdown)}
	for range foreignAtOnce {
		l.callers = append(l.callers, e.newCaller(line, 1, 1))
		l.idle = append(l.idle, probe.NewDistribution())
	}
	for i := range foreignAtOnce {
		l.crew.start(func() error { return l.foreign(i) })
	}
	failed := l.phases()
	// From here on, threads are expected to fail.
	l.over.Store(true)
	e.over(line)
	e.group.Shutdown()
	usage, _ := l.crew.wait()
	got := l.outcome(usage)
	if failed == nil {
		return got, nil
	}
	var why early
	if !errors.As(failed, &why) {
		failed = e.broken(failed, e.now())
	}
	if len(l.carriers) == 0 && got.idle.Count() == 0 {
		failed = fmt.Errorf("no probe to %s was answered: %v", line.Peer, failed)
	}
	return got, failed
}

// phases goes through the trial's phases, until the trial is over or cannot go on.
func (l *loader) phases() error {
	idle, ramp := l.spec.Duration/idleShare, 2*l.spec.Duration/rampShare
	l.before.open(l.now(), idle)
	if err := l.pause(idle); err != nil {
		return err
	}
	began := l.now()
	if err := l.ramp(ramp); err != nil {
		return err
	}
	rest := l.spec.Duration - idle - (l.now() - began)
	if rest <= 0 {
		return errSlowStart
	}
	l.loaded.open(l.now(), rest)
	return l.selfProbes(rest)
}

// pause lets time pass.
func (l *loader) pause(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-l.crew.failed:
		return l.crew.failure()
	case <-l.ctx.Done():
		return l.ctx.Err()
	}
}

// errSlowStart is a path on which connecting alone takes too long.
var errSlowStart = errors.New("no time was left to measure under load: let the trial take longer")

// ramp adds connections until goodput is stable, or the time for it is over.
func (l *loader) ramp(most time.Duration) error {
	interval := min(most/intervals, longestInterval)
	var averages, goodput []float64
	moved := int64(0)
	// The queue that is being filled may swallow what opens a connection: then there are
	// enough of them.
	enough, cancel := context.WithTimeout(l.ctx, most)
	defer cancel()
	if err := l.grow(l.ctx); err != nil {
		return err
	}
	for enough.Err() == nil {
		if err := l.pause(interval); err != nil {
			return err
		}
		total := l.moved()
		goodput = append(goodput, float64(total-moved))
		moved = total
		averages = append(averages, mean(last(goodput)))
		if stable(averages) {
			return nil
		}
		if len(l.carriers) < 2*l.spec.Streams {
			if err := l.grow(enough); err != nil && enough.Err() == nil {
				return err
			}
		}
	}
	return nil
}

// grow adds a connection each way, unless ctx ends before.
func (l *loader) grow(ctx context.Context) error {
	for _, kind := range []byte{kindOut, kindIn} {
		fd, err := l.dial(ctx, l.line, kind)
		if err != nil {
			return err
		}
		c := &carrier{
			end: l.end, fd: fd, span: &l.loaded, outgoing: kind == kindOut,
			tally: newTally(l.spec.Duration), rtt: probe.NewDistribution(),
		}
		l.carriers = append(l.carriers, c)
		if !c.outgoing {
			l.crew.start(c.read)
			continue
		}
		if err := socket.LimitUnsent(fd, unsent); err != nil {
			return err
		}
		l.crew.start(c.write)
		l.crew.start(c.readAnswers)
	}
	return nil
}

// moved is how many bytes all connections have moved so far.
func (l *loader) moved() int64 {
	var total int64
	for _, c := range l.carriers {
		total += c.moved.Load()
	}
	return total
}

// last are the latest of a series, as many as a moving average has.
func last(v []float64) []float64 { return v[max(0, len(v)-movingAverage):] }

func mean(v []float64) float64 {
	var sum float64
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// stable tells whether the latest moving averages differ by less than the tolerance: their
// standard deviation is within it of the last of them. The first averages have too few
// intervals to count.
func stable(averages []float64) bool {
	if len(averages) < 2*movingAverage-1 {
		return false
	}
	latest := last(averages)
	middle, squares := mean(latest), 0.0
	for _, a := range latest {
		squares += (a - middle) * (a - middle)
	}
	return math.Sqrt(squares/movingAverage) < tolerance*latest[movingAverage-1]
}

// rate is how many probes of each kind are sent per second.
func (l *loader) rate() float64 {
	if l.spec.RatePerS > 0 {
		return l.spec.RatePerS
	}
	return probesPerS
}

// selfProbes asks within the load, on any of its connections, for that long.
func (l *loader) selfProbes(length time.Duration) error {
	tick := time.NewTicker(max(time.Duration(float64(time.Second)/l.rate()), time.Microsecond))
	defer tick.Stop()
	over := time.NewTimer(length)
	defer over.Stop()
	for {
		select {
		case <-tick.C:
			if err := l.carriers[rand.IntN(len(l.carriers))].ask(); err != nil {
				return err
			}
		case <-over.C:
			return nil
		case <-l.crew.failed:
			return l.crew.failure()
		case <-l.ctx.Done():
			return l.ctx.Err()
		}
	}
}

// foreign sends probes on connections of their own: it is one of several that take turns.
// Who is still waiting when its turn comes misses it, since what the path cannot answer in
// time must not pile up.
func (l *loader) foreign(i int) error {
	undo, err := socket.Punctual()
	if err != nil {
		return err
	}
	defer undo()
	s := schedule{start: l.base, rate: l.rate()}
	failed := 0
	for k := int64(i); !l.over.Load(); k += foreignAtOnce {
		missed := int64(time.Since(s.at(k)).Seconds()*s.rate) / foreignAtOnce
		k += max(0, missed) * foreignAtOnce
		if err := socket.Until(l.ctx, s.at(k)); err != nil {
			return l.broken(err, l.now())
		}
		if failed, err = l.foreignProbe(l.callers[i], l.idle[i], failed); err != nil {
			return err
		}
	}
	return nil
}

// foreignProbe sends one. It counts if it began and ended within the same phase.
func (l *loader) foreignProbe(c *caller, idle *probe.Distribution, failed int) (int, error) {
	t, err := c.call(1)
	if err != nil && l.over.Load() {
		return 0, nil
	}
	c.tally.sent++
	if err != nil {
		if failed++; failed < failures && l.ctx.Err() == nil {
			return failed, nil
		}
		return failed, l.broken(err, l.now())
	}
	c.tally.received++
	within := func(s *span) bool {
		_, began := s.at(t.began.Sub(l.base))
		_, ended := s.at(t.answered.Sub(l.base))
		return began && ended
	}
	switch {
	case within(&l.before):
		idle.Record(t.answered.Sub(t.connected))
	case within(&l.loaded):
		c.connect.Record(t.connected.Sub(t.began))
		c.rtt.Record(t.answered.Sub(t.connected))
	}
	return 0, nil
}

// outcome adds everything up.
func (l *loader) outcome(usage probe.Usage) outcome {
	got := outcome{
		rtt: probe.NewDistribution(), connect: probe.NewDistribution(), load: probe.NewDistribution(), idle: sum(l.idle),
	}
	all := make([]*tally, 0, len(l.carriers))
	for _, c := range l.carriers {
		all = append(all, c.tally)
		got.load.Add(c.rtt)
	}
	for _, c := range l.callers {
		got.unanswered += c.tally.sent - c.tally.received
		got.rtt.Add(c.rtt)
		got.connect.Add(c.connect)
	}
	got.side = side(all, usage)
	return got
}
