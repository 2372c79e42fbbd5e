package emulated

import (
	"math"
	"slices"
	"sync"
	"time"

	"taper.dev/taper/internal/lab/alarm"
)

// never is when the alarm goes off while there is nothing to wait for: in 146
// years. Later departures would not fit a [time.Duration].
const never = time.Duration(1 << 62)

// scheduler runs the processors of the whole fleet in real time. Whatever
// happens, an arrival or the alarm, takes all of them to the
// present, tells the requests that have been served, and sets the one alarm to
// the next departure.
type scheduler struct {
	origin time.Time
	alarm  *alarm.Alarm
	ended  chan struct{}

	mu         sync.Mutex
	processors []*processor
	completed  []uint64
	// set is when the alarm goes off, counted from the origin; 0 when it is not set.
	set time.Duration
}

// newScheduler starts a scheduler for processors with the given numbers of cores.
func newScheduler(cores []float64) (*scheduler, error) {
	a, err := alarm.New()
	if err != nil {
		return nil, err
	}
	s := &scheduler{
		origin:    time.Now(),
		alarm:     a,
		ended:     make(chan struct{}),
		completed: make([]uint64, len(cores)),
	}
	for _, c := range cores {
		s.processors = append(s.processors, &processor{cores: c})
	}
	go s.run()
	return s, nil
}

// run wakes at each departure, until close.
func (s *scheduler) run() {
	defer close(s.ended)
	for s.alarm.Wait() == nil {
		s.mu.Lock()
		s.set = 0
		s.advance()
		s.arm()
		s.mu.Unlock()
	}
}

// admit gives the processor i a job of the given demand, in CPU-seconds.
func (s *scheduler) admit(i int, demand float64) *job {
	j := &job{served: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	s.processors[i].add(j, demand)
	s.arm()
	return j
}

// await returns when the job has been served; false if the scheduler ended first.
func (s *scheduler) await(j *job) bool {
	select {
	case <-j.served:
		return true
	case <-s.ended:
		return false
	}
}

// counters returns the present and, for each processor, the CPU-seconds used
// and the jobs served until then.
func (s *scheduler) counters() (at time.Time, used []float64, completed []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at = s.advance()
	s.arm()
	for _, p := range s.processors {
		used = append(used, p.used)
	}
	return at, used, slices.Clone(s.completed)
}

// advance takes every processor to the present, which it returns. s.mu is held.
func (s *scheduler) advance() time.Time {
	now := time.Now()
	for i, p := range s.processors {
		for _, j := range p.advance(now.Sub(s.origin).Seconds()) {
			s.completed[i]++
			close(j.served)
		}
	}
	return now
}

// arm sets the alarm to the next departure of the fleet. s.mu is held.
func (s *scheduler) arm() {
	first := never.Seconds()
	for _, p := range s.processors {
		if at, some := p.next(); some {
			first = math.Min(first, at)
		}
	}
	// Rounded up, lest the alarm go off just before the departure.
	at := time.Duration(math.Ceil(first * float64(time.Second)))
	// Most arrivals leave the next departure of the fleet as it is.
	if at != s.set && s.alarm.Set(s.origin.Add(at)) == nil {
		s.set = at
	}
}

// close ends the scheduler. Jobs that are still active are never served.
func (s *scheduler) close() {
	s.alarm.Close()
	<-s.ended
}
