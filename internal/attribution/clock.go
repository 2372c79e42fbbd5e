package attribution

import (
	"slices"

	"taper.dev/taper/internal/capture"
)

// openClock measures how many requests were open at once.
type openClock struct {
	// past are requests that were told, and lasted longer than some that were not.
	past []lifetime
}

// lifetime is the time of a request.
type lifetime struct{ start, end capture.Time }

// measure sets Open of requests that are about to be told, of which the others were open
// meanwhile or will be.
func (c *openClock) measure(ended, others []*request) {
	if len(ended) == 0 {
		return
	}
	all := c.past
	oldest := maxTime
	for _, r := range ended {
		all = append(all, lifetime{r.start, r.end})
	}
	for _, r := range others {
		oldest = min(oldest, r.start)
		all = append(all, lifetime{r.start, r.end})
	}
	began, closed := newTally(len(all)), newTally(len(all))
	for _, t := range all {
		began.at, closed.at = append(began.at, t.start), append(closed.at, t.end)
	}
	began.sum()
	closed.sum()
	for _, r := range ended {
		r.out.Open = 1
		if d := float64(r.end - r.start); d > 0 {
			r.out.Open = max(1, (began.time(r.start, r.end)-closed.time(r.start, r.end))/d)
		}
	}
	c.past = slices.DeleteFunc(all[:len(c.past)+len(ended)], func(t lifetime) bool { return t.end < oldest })
}

// tally counts events, and knows the integral of that count over time.
type tally struct {
	at    []capture.Time
	until []float64 // from the first event to at[i]
}

func newTally(n int) *tally { return &tally{at: make([]capture.Time, 0, n)} }

func (t *tally) sum() {
	slices.Sort(t.at)
	t.until = make([]float64, len(t.at))
	for i := 1; i < len(t.at); i++ {
		t.until[i] = t.until[i-1] + float64(i)*float64(t.at[i]-t.at[i-1])
	}
}

// time is the integral, from one moment to another, of how many events there were.
func (t *tally) time(from, to capture.Time) float64 { return t.before(to) - t.before(from) }

func (t *tally) before(m capture.Time) float64 {
	i, _ := slices.BinarySearch(t.at, m)
	if i == 0 {
		return 0
	}
	return t.until[i-1] + float64(i)*float64(m-t.at[i-1])
}
