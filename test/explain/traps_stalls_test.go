package explain

import (
	"bytes"
	"time"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/synth"
)

// one is a stall that lasts a second, which counts alone.
const one = time.Second

var stallPairs = map[string]map[string]pair{
	"nagle-delayed-ack": {
		"segments": across(3, 2, func(s *story, n int) { s.delayed(n, 40*ms) }),
		"a delay":  across(35*ms, 35*ms-1, func(s *story, delay time.Duration) { s.delayed(3, delay) }),
	},
	"retransmit-timeout": {
		"times":                across(3, 2, func(s *story, n int) { s.sendsAgain(n, 0, 200*ms) }),
		"a wait":               across(200*ms, 200*ms-1, func(s *story, wait time.Duration) { s.sendsAgain(3, 0, wait) }),
		"one":                  across(one, one-1, func(s *story, wait time.Duration) { s.sendsAgain(1, 0, wait) }),
		"a wait after a probe": across(200*ms, 200*ms-1, func(s *story, wait time.Duration) { s.sendsAgain(3, 100*ms, wait) }),
		"of packets": across(100_000, 100_001, func(s *story, packets int) {
			s.sendsAgain(1, 0, one)
			s.fill(packets)
		}),
	},
	"zero-window": {
		"times":  across(3, 2, func(s *story, n int) { s.closesWindow(n, 30*ms) }),
		"a wait": across(10*ms+1, 10*ms, func(s *story, wait time.Duration) { s.closesWindow(3, wait) }),
		"one":    across(one, one-1, func(s *story, wait time.Duration) { s.closesWindow(1, wait) }),
	},
	"slow-start-after-idle": {
		"times": across(3, 2, func(s *story, n int) { s.startsSlowly(n, time.Second, 40*ms) }),
		"idle": across(200*ms+40*ms+ms/100+1, 200*ms+40*ms+ms/100, func(s *story, idle time.Duration) {
			s.startsSlowly(3, idle, 40*ms)
		}),
		"one": across(one, one-1, func(s *story, roundTrip time.Duration) { s.startsSlowly(1, 5*time.Second, roundTrip) }),
	},
	"syn-loss": {
		"connections": across(2, 1, func(s *story, n int) { s.knocksTwice(n, time.Second) }),
		"no sooner":   across(900*ms, 900*ms-1, func(s *story, again time.Duration) { s.knocksTwice(2, again) }),
		"no later":    across(3300*ms, 3300*ms+1, func(s *story, again time.Duration) { s.knocksTwice(2, again) }),
	},
	"mtu-black-hole": {
		"tries": across(3, 2, func(s *story, tries int) {
			s.swallows(2, tries, false)
		}).alsoFound("retransmit-timeout").foundInstead("retransmit-timeout"),
		"connections": across(2, 1, func(s *story, n int) {
			s.swallows(n, 3, false)
		}).alsoFound("retransmit-timeout").foundInstead("retransmit-timeout"),
		"small ones pass": across(false, true, func(s *story, small bool) {
			s.swallows(2, 3, small)
		}).alsoFound("retransmit-timeout").foundInstead("retransmit-timeout"),
	},
}

// delayed has calls sent in two small pieces, the second after an acknowledgement that was
// delayed by so much more than the way to the server and back.
func (s *story) delayed(n int, delay time.Duration) {
	const way, after = ms / 2, ms / 20
	c := s.pooled(backend)
	for range n {
		s.request(func(at time.Duration) time.Duration {
			question := synth.Get("POST", "/search", "backend", "client/1", bytes.Repeat([]byte("q"), 80))
			head, body := question[:len(question)-80], question[len(question)-80:]
			first, second := at+ms, at+ms+way+delay+after
			c.Send(first, capture.Client, head)
			c.Acknowledge(second-after, capture.Server)
			c.Send(second, capture.Client, body)
			c.Send(second+5*ms, capture.Server, synth.Answer(200, []byte("{}")))
			c.Acknowledge(second+6*ms, capture.Client)
			s.shows(first, second)
			s.lose(second - first)
			return second + 10*ms - at
		})
	}
}

// sendsAgain has calls whose question is sent again after a wait: in vain as a probe before,
// if probe is not 0.
func (s *story) sendsAgain(n int, probe, wait time.Duration) {
	c := s.pooled(backend)
	question := synth.Get("GET", "/search", "backend", "client/1", nil)
	for range n {
		s.request(func(at time.Duration) time.Duration {
			sent := at + ms
			c.Send(sent, capture.Client, question)
			if probe > 0 {
				sent += probe
				c.SendAgain(sent, capture.Client, question)
			}
			again := sent + wait
			c.SendAgain(again, capture.Client, question)
			c.Send(again+5*ms, capture.Server, synth.Answer(200, []byte("{}")))
			c.Acknowledge(again+6*ms, capture.Client)
			s.shows(sent, again)
			s.lose(wait)
			return again + 20*ms - at
		})
	}
}

// closesWindow has calls whose answer finds no room for a while.
func (s *story) closesWindow(n int, wait time.Duration) {
	c := s.pooled(backend)
	answer := synth.Answer(200, bytes.Repeat([]byte("x"), 6000))
	for range n {
		s.request(func(at time.Duration) time.Duration {
			full, room := at+4*ms, at+4*ms+wait
			asks(c, at+ms)
			c.Send(at+3*ms, capture.Server, answer[:3000])
			c.Window(full, capture.Client, 0)
			c.Window(room, capture.Client, 500)
			c.Send(room+ms, capture.Server, answer[3000:])
			c.Acknowledge(room+2*ms, capture.Client)
			s.shows(full, room)
			s.lose(wait)
			return wait + 10*ms
		})
	}
}

// startsSlowly has calls, after a connection was idle, whose answers come in two bursts of
// full segments, a round trip apart.
func (s *story) startsSlowly(n int, idle, roundTrip time.Duration) {
	const segment, behind, window = 1448, 4 * time.Microsecond, 10
	const ack = ms / 100
	c := s.Dial(5*ms, 2*roundTrip, s.own(), backend)
	s.now = 3 * roundTrip
	answer := synth.Answer(200, bytes.Repeat([]byte("x"), 3*window*segment-200))
	burst, rest := answer[:window*segment], answer[window*segment:]
	s.request(func(at time.Duration) time.Duration { // the first answer tells nothing
		asks(c, at+ms)
		c.Send(at+ms+roundTrip, capture.Server, synth.Answer(200, []byte("{}")))
		c.Acknowledge(at+ms+roundTrip+ack, capture.Client)
		return roundTrip + 10*ms
	})
	ended := s.now - s.gap - 9*ms // the answer
	for range n {
		began := ended + idle
		s.now = began - roundTrip - ms
		s.request(func(at time.Duration) time.Duration {
			asks(c, at+ms)
			c.Send(began, capture.Server, burst)
			last := began + (window-1)*behind
			c.AcknowledgeUpTo(last+ack, capture.Client, 0)
			next := last + roundTrip
			c.Send(next, capture.Server, rest)
			ended = next + time.Duration((len(rest)-1)/segment)*behind
			c.Acknowledge(ended+ack, capture.Client)
			s.shows(last, next)
			s.lose(roundTrip)
			return ended + ms - at
		})
	}
}

// knocksTwice has calls whose connection is opened at the second attempt.
func (s *story) knocksTwice(n int, again time.Duration) {
	for range n {
		s.request(func(at time.Duration) time.Duration {
			c := s.Knock(at+ms, s.own(), backend)
			c.Knock(at + ms + again)
			c.Accept(at+ms+again, ms)
			call(c, at+again+5*ms, 5*ms)
			s.shows(at+ms, at+ms+again)
			s.lose(again)
			return again + 20*ms
		})
	}
}

// swallows has calls whose question, a full segment, never arrives: it is sent again after
// 200 ms, then 400, then 800, until the client gives up. On the last connection a small
// one may be lost before.
func (s *story) swallows(n, tries int, small bool) {
	question := synth.Get("POST", "/bulk", "backend", "client/1", bytes.Repeat([]byte("q"), 1448))
	body := len(question) - 1448
	question = synth.Get("POST", "/bulk", "backend", "client/1", bytes.Repeat([]byte("q"), 1448-body))
	for i := range n {
		s.request(func(at time.Duration) time.Duration {
			c := s.dial(at+ms, backend)
			begun := at + 5*ms
			if small && i == n-1 {
				short := synth.Get("GET", "/search", "backend", "client/1", nil)
				c.Send(begun, capture.Client, short)
				c.SendAgain(begun+250*ms, capture.Client, short)
				c.Send(begun+260*ms, capture.Server, synth.Answer(200, []byte("{}")))
				begun += 300 * ms
			}
			c.Send(begun, capture.Client, question)
			sent := begun
			for try := range tries {
				again := sent + 200*ms<<try
				c.SendAgain(again, capture.Client, question)
				if try == 2 {
					s.shows(sent, again)
				}
				s.lose(again - sent)
				sent = again
			}
			c.Reset(sent+500*ms, capture.Client)
			return sent + time.Second - at
		})
	}
}

// fill adds packets that tell nothing, until the capture has so many.
func (s *story) fill(packets int) {
	c := s.pooled(backend)
	for i := range packets - s.Capture().Len() {
		c.Acknowledge(s.now+time.Duration(i)*ms, capture.Client)
	}
}
