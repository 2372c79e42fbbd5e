package embedded

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// memory keeps the newest samples of each series. It implements
// [storage.Queryable], which is what the query engine reads.
type memory struct {
	retention int64 // milliseconds
	capacity  int   // samples per series

	mu     sync.RWMutex
	series map[string]*series // by seriesKey
}

// series is a ring of samples, oldest first from start once it is full.
type series struct {
	labels labels.Labels
	ring   []sample
	start  int
}

func newMemory(every, retention time.Duration) *memory {
	return &memory{
		retention: retention.Milliseconds(),
		capacity:  int(retention/every) + 1,
		series:    map[string]*series{},
	}
}

func seriesKey(l labels.Labels) string { return string(l.Bytes(nil)) }

// add stores the values of one scrape, and forgets the series that have had no
// sample for the retention: that bounds the memory when series come and go.
func (m *memory) add(at int64, values []value) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range values {
		s := m.series[v.key]
		if s == nil {
			s = &series{labels: v.labels}
			m.series[v.key] = s
		}
		s.add(sample{at, v.value}, m.capacity)
	}
	maps.DeleteFunc(m.series, func(_ string, s *series) bool { return s.newest().t < at-m.retention })
}

// add drops a sample that is not newer than the last: time runs forward only.
func (s *series) add(next sample, capacity int) {
	switch {
	case len(s.ring) > 0 && next.t <= s.newest().t:
	case len(s.ring) < capacity:
		s.ring = append(s.ring, next)
	default:
		s.ring[s.start] = next
		s.start = (s.start + 1) % capacity
	}
}

func (s *series) newest() sample { return s.ring[(s.start+len(s.ring)-1)%len(s.ring)] }

// between copies the samples from mint to maxt, both included.
func (s *series) between(mint, maxt int64) samples {
	var found samples
	for i := range s.ring {
		if at := s.ring[(s.start+i)%len(s.ring)]; at.t >= mint && at.t <= maxt {
			found = append(found, at)
		}
	}
	return found
}

// Querier implements [storage.Queryable].
func (m *memory) Querier(mint, maxt int64) (storage.Querier, error) {
	return querier{m, mint, maxt}, nil
}

type querier struct {
	memory     *memory
	mint, maxt int64
}

// Select implements [storage.Querier]. What it returns is a copy.
func (q querier) Select(_ context.Context, sorted bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	q.memory.mu.RLock()
	defer q.memory.mu.RUnlock()
	set := &seriesSet{}
	for _, s := range q.memory.series {
		if !matches(s.labels, matchers) {
			continue
		}
		if found := s.between(q.mint, q.maxt); len(found) > 0 {
			set.rest = append(set.rest, &storage.SeriesEntry{
				Lset:             s.labels,
				SampleIteratorFn: func(chunkenc.Iterator) chunkenc.Iterator { return storage.NewListSeriesIterator(found) },
			})
		}
	}
	if sorted {
		slices.SortFunc(set.rest, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	}
	return set
}

func matches(l labels.Labels, matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if !m.Matches(l.Get(m.Name)) {
			return false
		}
	}
	return true
}

// LabelValues implements [storage.Querier]; the query engine does not call it.
func (querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// LabelNames implements [storage.Querier]; the query engine does not call it.
func (querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// Close implements [storage.Querier].
func (querier) Close() error { return nil }

// seriesSet implements [storage.SeriesSet] over a slice.
type seriesSet struct {
	current storage.Series
	rest    []storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.rest) == 0 {
		return false
	}
	s.current, s.rest = s.rest[0], s.rest[1:]
	return true
}

func (s *seriesSet) At() storage.Series                { return s.current }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// samples implements [storage.Samples].
type samples []sample

func (s samples) Get(i int) chunks.Sample { return s[i] }
func (s samples) Len() int                { return len(s) }

// sample implements [chunks.Sample] for a plain number; t is in Unix milliseconds.
type sample struct {
	t int64
	f float64
}

func (s sample) T() int64                      { return s.t }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.f }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }
