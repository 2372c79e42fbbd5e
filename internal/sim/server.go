package sim

import "math"

// server is a server at work. Requests progress alike: each at the same rate, so what one
// has had since it came is the same difference of one clock, and they leave in the order of
// the clock's readings at which they will be done. (Kleinrock 1976; as in fair queueing's
// virtual time.)
type server struct {
	// at is the time up to which all below is true.
	at float64
	// clock is what each request that runs has been given since the server was last empty,
	// in CPU-seconds; rate is how fast it grows, in cores.
	clock, rate float64
	// running is a heap by the clock's reading at which each is done.
	running []job
	// waiting are those that a core is not free for, oldest first.
	waiting fifo[job]
	// free is how many cores requests can use now, atOnce how many can run.
	free   float64
	atOnce int
	// used is the CPU of requests until now, in core-seconds; present how long requests were
	// here, all together, and full for how long all cores were in use, in seconds; served is
	// how many were answered.
	used, present, full float64
	served              uint64
}

// job is an attempt at a server: until which reading of the clock, or how much if it waits.
type job struct {
	until   float64
	attempt int32
}

// open sets how many cores there are for requests.
func (s *server) open(free float64, d Discipline) {
	s.free, s.atOnce = free, math.MaxInt
	if d == FirstComeFirstServed {
		s.atOnce = max(1, int(math.Ceil(free)))
	}
	for len(s.running) < s.atOnce && s.waiting.len() > 0 {
		s.begin(s.waiting.pop())
	}
	s.pace()
}

// pace is how fast each request runs now.
func (s *server) pace() {
	switch n := float64(len(s.running)); {
	case n <= s.free:
		s.rate = 1
	default:
		s.rate = s.free / n
	}
}

// advance lets time pass.
func (s *server) advance(now float64) {
	if n := float64(len(s.running)); n > 0 {
		passed := now - s.at
		given := s.rate * passed
		s.clock += given
		s.used += given * n
		s.present += passed * float64(s.inFlight())
		if n >= s.free {
			s.full += passed
		}
	}
	s.at = now
}

// inFlight is how many requests it has.
func (s *server) inFlight() int { return len(s.running) + s.waiting.len() }

// take is the arrival of an attempt that costs so much, in CPU-seconds.
func (s *server) take(now, demand float64, attempt int32) {
	s.advance(now)
	j := job{demand, attempt}
	if len(s.running) >= s.atOnce {
		s.waiting.push(j)
		return
	}
	if len(s.running) == 0 {
		s.clock = 0
	}
	s.begin(j)
	s.pace()
}

func (s *server) begin(j job) {
	j.until += s.clock
	s.running = append(s.running, j)
	up(s.running, len(s.running)-1)
}

// next is when the next request will be done; +Inf if nothing comes.
func (s *server) next() float64 {
	if len(s.running) == 0 {
		return math.Inf(1)
	}
	left := max(0, s.running[0].until-s.clock)
	if s.rate != 1 { // most often it is, and a division takes long
		left /= s.rate
	}
	return s.at + left
}

// finish ends the request that is done now and returns its attempt.
func (s *server) finish(now float64) int32 {
	s.advance(now)
	j := s.running[0]
	last := len(s.running) - 1
	s.running[0] = s.running[last]
	s.running = s.running[:last]
	down(s.running, 0)
	s.served++
	if s.waiting.len() > 0 {
		s.begin(s.waiting.pop())
	}
	s.pace()
	return j.attempt
}

// fail ends all requests without an answer, calling lost for each.
func (s *server) fail(now float64, lost func(attempt int32)) {
	s.advance(now)
	for _, j := range s.running {
		lost(j.attempt)
	}
	for s.waiting.len() > 0 {
		lost(s.waiting.pop().attempt)
	}
	s.running = s.running[:0]
	s.pace()
}

// up and down restore the order of a binary heap around a place; what is equal stays in no
// order that matters but is the same in every run.
func up(h []job, i int) {
	j := h[i]
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent].until <= j.until {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = j
}

func down(h []job, i int) {
	if i >= len(h) {
		return
	}
	j := h[i]
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if right := child + 1; right < len(h) && h[right].until < h[child].until {
			child = right
		}
		if j.until <= h[child].until {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = j
}
