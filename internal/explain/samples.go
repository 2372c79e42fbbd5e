package explain

import (
	"math/rand/v2"
	"time"

	"taper.dev/taper/internal/capture"
)

// samples is a reservoir of requests: each request of a route is in it with the same
// probability, however many there are. Chance is seeded, so that the same captures
// always give the same answer. A nil *samples keeps nothing.
type samples struct {
	kept  []sample
	limit int
	seen  uint64
	rng   *rand.Rand

	// names says what each part is called in the route, and population how many
	// requests the samples stand for.
	names      []partKey
	population uint64
}

// sample is a request: its time by the index of the route's part.
type sample struct {
	start    capture.Time
	duration time.Duration
	parts    []partTime
}

type partTime struct {
	part int
	time time.Duration
}

func newSamples(limit int) *samples {
	return &samples{limit: limit, rng: rand.New(rand.NewPCG(1, 2))}
}

// slot is where the next request is to be kept, nil if it is not.
func (s *samples) slot() *sample {
	if s == nil {
		return nil
	}
	s.seen++
	if len(s.kept) < s.limit {
		s.kept = append(s.kept, sample{})
		return &s.kept[len(s.kept)-1]
	}
	if at := s.rng.Uint64N(s.seen); at < uint64(s.limit) {
		return &s.kept[at]
	}
	return nil
}

func (s *sample) begin(start capture.Time, duration time.Duration) {
	if s != nil {
		s.start, s.duration, s.parts = start, duration, s.parts[:0]
	}
}

func (s *sample) add(part int, d time.Duration) {
	if s != nil && d != 0 {
		s.parts = append(s.parts, partTime{part, d})
	}
}
