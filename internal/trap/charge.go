package trap

import (
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

const (
	// highShare and highCost are what makes a cost high, waitsLong a wait that a user
	// feels whatever the average says; see Severity.
	highShare = 0.1
	highCost  = 10 * time.Millisecond
	waitsLong = time.Second
)

// charge adds up what a trap cost requests. The zero value is no cost.
type charge struct {
	requests uint64 // that paid
	calls    uint64
	lost     time.Duration
	longest  time.Duration // that one request paid
	failed   bool          // a request or call failed because of it
}

// add charges a request. Without lost time it was not hit.
func (c *charge) add(lost time.Duration, calls int) {
	if lost <= 0 {
		return
	}
	c.requests++
	c.calls += uint64(calls)
	c.lost += lost
	c.longest = max(c.longest, lost)
}

// each is what a request that was hit paid on average.
func (c *charge) each() time.Duration { return mean(c.lost, c.requests) }

// cost is what a request of the capture paid on average.
func (c *charge) cost(s Scene) time.Duration { return mean(c.lost, s.Requests) }

func (c *charge) severity(s Scene) Severity {
	share := float64(c.lost) >= highShare*float64(s.Time) && s.Time > 0
	switch {
	case c.failed, c.longest >= waitsLong, share && c.lost > 0, c.cost(s) >= highCost:
		return High
	case c.lost > 0:
		return Medium
	}
	return Low
}

func mean(sum time.Duration, n uint64) time.Duration {
	if n == 0 {
		return 0
	}
	return sum / time.Duration(n)
}

// spent is how much of a request's time went to calls that are wanted, each moment
// counted once, and how many such calls it made. Slices of a call that went to
// something more particular, such as retransmissions, are not the call's.
func spent(r *attribution.Request, wanted func(*attribution.Link) bool, causes ...attribution.Cause) (lost time.Duration, calls int) {
	for i := range r.Links {
		if wanted(&r.Links[i]) {
			calls++
		}
	}
	if calls == 0 {
		return 0, 0
	}
	for _, s := range r.Slices {
		if s.Link < 0 || s.Link >= len(r.Links) || !has(causes, s.Cause) {
			continue
		}
		if wanted(&r.Links[s.Link]) {
			lost += s.To.Sub(s.From)
		}
	}
	return lost, calls
}

func has(causes []attribution.Cause, c attribution.Cause) bool {
	for _, x := range causes {
		if x == c {
			return true
		}
	}
	return false
}

// within is how much of the time between two moments lies in a request.
func within(r *attribution.Request, from, to capture.Time) time.Duration {
	return max(0, min(to, r.End()).Sub(max(from, r.Start())))
}

// waited is what a request spent on calls that are wanted, and what it waited after those
// that got no answer until a call that follows on it.
func waited(r *attribution.Request, wanted func(*attribution.Link) bool, follows func(call, next *attribution.Link) bool, cause attribution.Cause) (lost time.Duration, calls int) {
	lost, calls = spent(r, wanted, cause)
	for i := range r.Links {
		if wanted(&r.Links[i]) && !r.Links[i].Exchange.Answered() {
			lost += untilNext(r, i, follows)
		}
	}
	return lost, calls
}

// untilNext is how long a request waited after a call that got no answer: until the next
// one that follows on it, or until its own end if nothing else happened. It is 0 when the
// request went on otherwise.
func untilNext(r *attribution.Request, call int, follows func(call, next *attribution.Link) bool) time.Duration {
	from := r.Links[call].Exchange.Start()
	for i := call + 1; i < len(r.Links); i++ {
		if follows(&r.Links[call], &r.Links[i]) {
			return within(r, from, r.Links[i].Exchange.Start())
		}
	}
	for i := range r.Links {
		if i != call && r.Links[i].Exchange.End() > from {
			return 0
		}
	}
	return within(r, from, r.End())
}

// merge takes what another charge holds. Requests that paid both count twice: such a
// charge tells averages over all requests only.
func (c *charge) merge(o charge) {
	c.requests += o.requests
	c.calls += o.calls
	c.lost += o.lost
	c.longest = max(c.longest, o.longest)
	c.failed = c.failed || o.failed
}
