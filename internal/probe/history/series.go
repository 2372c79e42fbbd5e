package history

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/prompb"

	"taper.dev/taper/internal/probe"
)

// metrics gathers samples of one run.
type metrics struct {
	at     int64 // milliseconds
	series []prompb.TimeSeries
}

// add adds one sample, unless there is no figure. Empty labels are left out: to Prometheus
// they are the same.
func (m *metrics) add(name string, value float64, labels ...prompb.Label) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	all := []prompb.Label{{Name: "__name__", Value: name}, {Name: "job", Value: "taper_net"}}
	for _, l := range labels {
		if l.Value != "" {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b prompb.Label) int { return cmp.Compare(a.Name, b.Name) })
	m.series = append(m.series, prompb.TimeSeries{Labels: all, Samples: []prompb.Sample{{Value: value, Timestamp: m.at}}})
}

// figure adds one that is never 0, and missing if it is.
func (m *metrics) figure(name string, value float64, labels ...prompb.Label) {
	if value > 0 {
		m.add(name, value, labels...)
	}
}

func (m *metrics) optional(name string, value *float64, labels ...prompb.Label) {
	if value != nil {
		m.add(name, *value, labels...)
	}
}

// quantiles adds what is known of a distribution in microseconds, in seconds.
func (m *metrics) quantiles(name string, l *probe.Latency, labels ...prompb.Label) {
	if l == nil || l.Count == 0 {
		return
	}
	for _, q := range []struct {
		name string
		us   *float64
	}{{"0.5", l.P50}, {"0.9", l.P90}, {"0.99", l.P99}, {"0.999", l.P999}, {"0.9999", l.P9999}, {"1", &l.Max}} {
		if q.us != nil {
			m.add(name, *q.us/1e6, append(slices.Clone(labels), label("quantile", q.name))...)
		}
	}
}

func label(name, value string) prompb.Label { return prompb.Label{Name: name, Value: value} }

func whole(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// samples are those of a run, with the time at which it started.
func samples[T Kept](kept *T) []prompb.TimeSeries {
	e := entry(kept)
	m := &metrics{at: e.Started().UnixMilli()}
	if e.Started().IsZero() {
		m.at = time.Now().UnixMilli()
	}
	switch {
	case e.Result != nil:
		m.result(e.Result)
		for i := range e.Result.Others {
			m.result(&e.Result.Others[i])
		}
	case e.Matrix != nil:
		m.matrix(e.Matrix)
	case e.PageLoad != nil:
		m.pageLoad(e.PageLoad)
	}
	return m.series
}

func (m *metrics) result(r *probe.Result) {
	where := []prompb.Label{label("from", r.From), label("to", r.To), label("name", r.Name), label("path", string(r.Path))}
	for i := range r.Tests {
		m.test(&r.Tests[i], where)
	}
	c := &r.Conditions
	shaped := 0.0
	if c.Shaped && c.Shaping != nil {
		shaped = 1
		way := append(slices.Clone(where), label("direction", string(c.Shaping.Direction)))
		m.figure("taper_net_shaping_bucket_bytes", c.Shaping.BucketBytes, way...)
		m.figure("taper_net_shaping_sustained_bytes_per_second", c.Shaping.SustainedBytesPerS, way...)
	}
	if c.Shaped || c.ShapingBytes > 0 {
		m.add("taper_net_shaped", shaped, where...)
	}
	m.optional("taper_net_cpu_throttled_seconds", c.ThrottledS, where...)
}

func (m *metrics) test(t *probe.TestResult, where []prompb.Label) {
	labels := append(slices.Clone(where), label("test", string(t.Test)), label("direction", string(t.Direction)),
		label("message_bytes", whole(t.MessageBytes)), label("streams", whole(t.Streams)), label("mode", string(t.Mode)))
	m.figure("taper_net_bandwidth_bytes_per_second", t.BytesPerS, labels...)
	m.figure("taper_net_rtt_median_seconds", t.MedianUS/1e6, labels...)
	m.figure("taper_net_responsiveness_round_trips_per_minute", t.RoundTripsPerMinute, labels...)
	m.quantiles("taper_net_rtt_seconds", t.RTT, labels...)
	m.quantiles("taper_net_connect_seconds", t.Connect, labels...)
	m.quantiles("taper_net_idle_rtt_seconds", t.Idle, labels...)
	m.quantiles("taper_net_loaded_rtt_seconds", t.Load, labels...)
	m.optional("taper_net_lost_ratio", t.LostShare, labels...)
	if p := t.PathMTU; p != nil {
		m.figure("taper_net_path_mtu_bytes", float64(p.Out), labels...)
		hole := 0.0
		if p.BlackHole {
			hole = 1
		}
		m.add("taper_net_path_mtu_black_hole", hole, labels...)
	}
	m.add("taper_net_incomplete_trials", float64(t.Incomplete), labels...)
}

func (m *metrics) matrix(x *probe.Matrix) {
	blocks := map[string]string{}
	for _, a := range x.Agents {
		blocks[a.Name] = a.Block
	}
	for i := range x.Cells {
		c := &x.Cells[i]
		labels := []prompb.Label{
			label("from", c.From), label("to", c.To), label("path", string(c.Path)),
			label("from_block", blocks[c.From]), label("to_block", blocks[c.To]),
		}
		m.figure("taper_net_bandwidth_bytes_per_second", c.BytesPerS, append(slices.Clone(labels), label("test", string(probe.TCPBandwidth)))...)
		m.quantiles("taper_net_rtt_seconds", c.RTT, append(labels, label("test", string(probe.TCPLatency)))...)
	}
}

func (m *metrics) pageLoad(p *probe.PageLoad) {
	for i := range p.Targets {
		t := &p.Targets[i]
		for _, s := range t.Steps {
			labels := []prompb.Label{label("target", cmp.Or(t.Name, t.URL)), label("users", whole(s.Users))}
			m.add("taper_net_page_bytes_per_second", s.BytesPerS, labels...)
			m.add("taper_net_pages_per_second", s.PagesPerS, labels...)
			m.add("taper_net_page_errors", float64(s.Errors), labels...)
			m.optional("taper_net_page_client_busy_ratio", s.ClientBusy, labels...)
			for _, q := range []struct {
				name string
				ms   *float64
			}{{"0.5", s.P50}, {"0.9", s.P90}, {"0.99", s.P99}} {
				if q.ms != nil {
					m.add("taper_net_page_seconds", *q.ms/1e3, append(slices.Clone(labels), label("quantile", q.name))...)
				}
			}
		}
	}
}
