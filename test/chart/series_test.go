package chart

import (
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// load makes series that can be queried of promtool's notation: a sample per minute,
// the first at time 0.
func load(t *testing.T, lines []string) storage.Queryable {
	t.Helper()
	var all []storage.Series
	for _, line := range lines {
		series, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		samples := make([]chunks.Sample, len(values))
		for i, v := range values {
			samples[i] = sample{t: int64(i) * 60_000, value: v.Value}
		}
		all = append(all, storage.NewListSeries(series, samples))
	}
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			return &selection{left: slices.DeleteFunc(slices.Clone(all), func(s storage.Series) bool { return !matches(s.Labels(), matchers) })}
		},
	}}
}

func matches(series labels.Labels, matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if !m.Matches(series.Get(m.Name)) {
			return false
		}
	}
	return true
}

// selection is a storage.SeriesSet.
type selection struct {
	left []storage.Series
	at   storage.Series
}

func (s *selection) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.at, s.left = s.left[0], s.left[1:]
	return true
}

func (s *selection) At() storage.Series                { return s.at }
func (s *selection) Err() error                        { return nil }
func (s *selection) Warnings() annotations.Annotations { return nil }

// sample is a float; what only histograms have is not implemented.
type sample struct {
	chunks.Sample
	t     int64 // in ms
	value float64
}

func (s sample) T() int64                 { return s.t }
func (s sample) ST() int64                { return 0 }
func (s sample) F() float64               { return s.value }
func (s sample) Type() chunkenc.ValueType { return chunkenc.ValFloat }
