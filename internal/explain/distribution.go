package explain

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// exactUpTo is how many durations a distribution keeps as they are. More are put
	// into a histogram of three digits, whose size does not grow.
	exactUpTo = 4096
	// longest is what the histogram can hold; what is longer is counted as that.
	longest = time.Hour
)

// distribution keeps how long requests took, in bounded memory: exactly while there
// are few, then to a tenth of a percent.
type distribution struct {
	exact     []time.Duration
	histogram *hdrhistogram.Histogram
	max       time.Duration
}

func (d *distribution) add(v time.Duration) {
	v = max(v, 0) // a clock that stepped back
	d.max = max(d.max, v)
	if d.histogram == nil && len(d.exact) < exactUpTo {
		d.exact = append(d.exact, v)
		return
	}
	if d.histogram == nil {
		d.histogram = hdrhistogram.New(1, int64(longest), 3)
		for _, v := range d.exact {
			d.record(v)
		}
		d.exact = nil
	}
	d.record(v)
}

func (d *distribution) record(v time.Duration) {
	// The only error is a value out of range, which min rules out.
	_ = d.histogram.RecordValue(int64(min(v, longest)))
}

// at is the shortest duration that a share of q took at most (the nearest rank).
func (d *distribution) at(quantiles ...float64) []time.Duration {
	values := make([]time.Duration, len(quantiles))
	slices.Sort(d.exact)
	for i, q := range quantiles {
		switch {
		case q >= 1:
			values[i] = d.max
		case d.histogram != nil:
			n := int(d.histogram.TotalCount())
			percent := 100 * float64(nearestRank(n, q)+1) / float64(n)
			values[i] = min(time.Duration(d.histogram.ValueAtPercentile(percent)), d.max)
		case len(d.exact) > 0:
			values[i] = d.exact[nearestRank(len(d.exact), q)]
		}
	}
	return values
}

// nearestRank is the index of the q-quantile among n sorted values.
func nearestRank(n int, q float64) int {
	const slack = 1e-9 // 0.9 × 10 is a little more than 9 in binary
	rank := int(q*float64(n) - slack)
	return min(max(rank, 0), n-1)
}

// drawn are the quantiles of a distribution that is drawn.
var drawn = []float64{
	0, .01, .02, .05, .1, .15, .2, .25, .3, .35, .4, .45, .5, .55, .6, .65, .7, .75, .8, .85,
	.9, .91, .92, .93, .94, .95, .96, .97, .98, .99, .991, .992, .993, .994, .995, .996, .997, .998, .999, .9999, 1,
}

func (d *distribution) percentiles() []Percentile {
	points := make([]Percentile, len(drawn))
	for i, v := range d.at(drawn...) {
		points[i] = Percentile{drawn[i], milliseconds(v)}
	}
	return points
}
