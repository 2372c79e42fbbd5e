package explain

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/synth"
)

var servicePairs = map[string]map[string]pair{
	"cpu-throttling": {
		"pauses": across(20, 19, func(s *story, n int) { s.pauses(throttled(n)) }),
		"no shorter": across(10*ms, 10*ms-1, func(s *story, one time.Duration) {
			p := throttled(20)
			p.one = one
			s.pauses(p)
		}),
		"no longer": across(time.Second, time.Second+1, func(s *story, one time.Duration) {
			p := throttled(20)
			p.one = one
			s.pauses(p)
		}),
		"agreement of the ends": across(59*ms+ms/2, 60*ms, func(s *story, spread time.Duration) {
			p := throttled(400)
			p.ends = spread
			s.pauses(p)
		}),
		"by chance": across(39*ms, 40*ms, func(s *story, spread time.Duration) {
			p := throttled(24)
			p.ends = spread
			s.pauses(p)
		}),
		"than of the beginnings": across(45*ms, 44*ms, func(s *story, spread time.Duration) {
			p := throttled(400)
			p.starts = spread
			s.pauses(p)
		}),
	},
	"n-plus-one": {
		"calls":    across(5, 4, func(s *story, calls int) { s.loops(looping{requests: 3, calls: calls}) }),
		"requests": across(3, 2, func(s *story, n int) { s.loops(looping{requests: n, calls: 5}) }),
		"share": across(65*ms, 65*ms+1, func(s *story, own time.Duration) {
			s.loops(looping{requests: 3, calls: 5, own: own})
		}),
		"one after the other": across(1, -1, func(s *story, between time.Duration) {
			s.loops(looping{requests: 3, calls: 5, between: between})
		}),
	},
}

// pausing is requests that do their own work until a period of 100 ms is over.
type pausing struct {
	n int
	// ends and starts are over how much of a period the moments spread, evenly.
	ends, starts time.Duration
	// one is how long the first pause is, if it is not 0.
	one time.Duration
}

// throttled is pauses that begin at any time and end together.
func throttled(n int) pausing { return pausing{n: n, starts: 100 * ms} }

// golden is what a sequence advances by that fills each stretch of itself evenly.
const golden = 0.6180339887498949

// pauses has requests that pause. What they lose is the pauses, times how much the ends
// agree: moments that fill an angle of 2a evenly agree by sin a / a, and 24 and more of
// them by that within 5 %.
func (s *story) pauses(p pausing) {
	const period, apart = 100 * ms, 300 * ms
	even := func(i int, over time.Duration) time.Duration {
		_, part := math.Modf(golden * float64(i))
		return time.Duration(float64(over) * (part - 0.5))
	}
	agreement := 1.0
	if p.ends > 0 {
		angle := math.Pi * float64(p.ends) / float64(period)
		agreement, s.slack = math.Sin(angle)/angle, 0.05
	}
	for i := range p.n {
		end := 2*time.Second + time.Duration(i)*apart + even(i, p.ends)
		pause := 100*ms + even(i*7+3, p.starts)
		if i == 0 && p.one > 0 {
			pause = p.one
		}
		s.now = end - pause
		s.request(func(at time.Duration) time.Duration {
			s.shows(at, end)
			s.lose(time.Duration(float64(pause) * agreement))
			return pause
		})
	}
}

// looping is requests that call one after the other.
type looping struct {
	requests, calls int
	between, own    time.Duration // own work between two calls, 1 ms if it is 0, and after them
}

// loops has requests ask for one item after the other, 6 ms each.
func (s *story) loops(l looping) {
	const took = 6 * ms
	pool, between := [2]*synth.Talk{s.pooled(backend), s.pooled(backend)}, cmp.Or(l.between, ms)
	for range l.requests {
		s.request(func(at time.Duration) time.Duration {
			now := at + ms
			for i := range l.calls {
				c := pool[i%2]
				c.Send(now, capture.Client, synth.Get("GET", fmt.Sprintf("/items/%d", 1000+i), "backend", "client/1", nil))
				c.Send(now+took, capture.Server, synth.Answer(200, []byte("{}")))
				s.shows(now)
				now += took + between
			}
			s.lose(time.Duration(l.calls-1) * took)
			return now - between + l.own - at
		})
	}
}
