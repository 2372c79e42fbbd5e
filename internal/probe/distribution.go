package probe

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Longest is what a distribution tells apart at most; what took longer counts as this.
const Longest = time.Minute

// enoughBeyond is how many samples must lie beyond a percentile for it to be told.
const enoughBeyond = 10

// Distribution holds durations to three digits, in memory that does not grow with their
// number. It is not safe for use by several goroutines.
type Distribution struct{ histogram *hdrhistogram.Histogram }

// NewDistribution is an empty one.
func NewDistribution() *Distribution {
	return &Distribution{hdrhistogram.New(1, int64(Longest), 3)}
}

// Record adds a duration. One below a nanosecond counts as one.
func (d *Distribution) Record(v time.Duration) {
	// Within its bounds a histogram takes everything.
	_ = d.histogram.RecordValue(int64(min(max(v, 1), Longest)))
}

// Add adds all that another holds.
func (d *Distribution) Add(other *Distribution) { d.histogram.Merge(other.histogram) }

// Count is how many there are.
func (d *Distribution) Count() int64 { return d.histogram.TotalCount() }

// Mean is their mean; 0 if there are none.
func (d *Distribution) Mean() time.Duration { return time.Duration(d.histogram.Mean()) }

// Max is the longest.
func (d *Distribution) Max() time.Duration { return time.Duration(d.histogram.Max()) }

// Percentile is what so many percent are not above. It is false where fewer than ten
// samples lie beyond (or none at all, for the median): chance would be told.
func (d *Distribution) Percentile(percent float64) (time.Duration, bool) {
	n := float64(d.Count())
	if n == 0 || percent > 50 && n*(100-percent)/100 < enoughBeyond {
		return 0, false
	}
	return time.Duration(d.histogram.ValueAtQuantile(percent)), true
}

// Curve is the distribution as a picture needs it: rising points of quantile (0..1) and
// duration.
func (d *Distribution) Curve() []Point {
	var points []Point
	for _, b := range d.histogram.CumulativeDistribution() {
		points = append(points, Point{b.Quantile / 100, micros(time.Duration(b.ValueAt))})
	}
	return points
}

// Point is one point of a latency curve.
type Point struct {
	Quantile float64 `json:"quantile"`
	US       float64 `json:"us"`
}

// Latency is the summary of a distribution, microseconds. A percentile with too few
// samples beyond it is missing.
type Latency struct {
	Count int64    `json:"count"`
	Mean  float64  `json:"mean"`
	P50   *float64 `json:"p50,omitempty"`
	P90   *float64 `json:"p90,omitempty"`
	P99   *float64 `json:"p99,omitempty"`
	P999  *float64 `json:"p999,omitempty"`
	P9999 *float64 `json:"p9999,omitempty"`
	Max   float64  `json:"max"`
}

// Summary summarizes; nil for an empty distribution.
func (d *Distribution) Summary() *Latency {
	if d == nil || d.Count() == 0 {
		return nil
	}
	at := func(percent float64) *float64 {
		if v, ok := d.Percentile(percent); ok {
			us := micros(v)
			return &us
		}
		return nil
	}
	return &Latency{
		Count: d.Count(), Mean: d.histogram.Mean() / 1e3, Max: micros(d.Max()),
		P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), P9999: at(99.99),
	}
}

func micros(d time.Duration) float64 { return float64(d) / 1e3 }

// MarshalJSON writes HdrHistogram's compressed form.
func (d *Distribution) MarshalJSON() ([]byte, error) {
	encoded, err := d.histogram.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, fmt.Errorf("encoding a distribution: %w", err)
	}
	return json.Marshal(string(encoded))
}

// UnmarshalJSON reads it, into bounds of our own whatever bounds it came with.
func (d *Distribution) UnmarshalJSON(b []byte) error {
	var encoded string
	if err := json.Unmarshal(b, &encoded); err != nil {
		return err
	}
	h, err := hdrhistogram.Decode([]byte(encoded))
	if err != nil {
		return fmt.Errorf("decoding a distribution: %w", err)
	}
	*d = *NewDistribution()
	d.histogram.Merge(h)
	return nil
}
