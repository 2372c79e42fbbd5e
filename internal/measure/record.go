package measure

import (
	"math"
	"time"

	"taper.dev/taper/internal/probe"
)

// record is what the trials of one spec on one path gave.
type record struct {
	spec probe.Spec
	// figures has one number for each round, and again those of the first path's second
	// turns: NaN where the trial ended early.
	figures, again []float64
	// backToBack is the round trips of all trials without a rate, timed those with one.
	backToBack, timed *probe.Distribution
	connect, load     *probe.Distribution
	idle              *probe.Distribution
	bins              []int64
	sent, received    int64
	pathMTU           *probe.PathMTUFound
	infos             []probe.TCPInfo
	// busiest is the largest share of a CPU that one end's thread used, by end.
	nearBusy, farBusy float64
	incomplete        int
	why               string
	measured          time.Duration
}

// add takes a trial in and returns its figure, NaN if it ended early.
func (r *record) add(t probe.Trial) float64 {
	if t.Incomplete != "" {
		if r.incomplete++; r.why == "" {
			r.why = t.Incomplete
		}
		return math.NaN()
	}
	r.measured += max(t.Near.Elapsed, t.Far.Elapsed)
	merge(&r.connect, t.Connect)
	merge(&r.load, t.Load)
	merge(&r.idle, t.Idle)
	if t.Spec.RatePerS > 0 && t.Spec.Test != probe.UDPBandwidth {
		merge(&r.timed, t.RTT)
	} else {
		merge(&r.backToBack, t.RTT)
	}
	sender, receiver := sides(t)
	r.bins = append(r.bins, wholeBins(receiver)...)
	r.infos = append(r.infos, sender.TCP...)
	if t.Spec.Test == probe.UDPBandwidth {
		r.sent += sender.Sent
		r.received += receiver.Received
	}
	r.nearBusy = max(r.nearBusy, busy(t.Near, t.Spec.Streams))
	r.farBusy = max(r.farBusy, busy(t.Far, t.Spec.Streams))
	if t.PathMTU != nil {
		r.pathMTU = t.PathMTU
	}
	return figure(t)
}

// wholeBins are those whose time was over: the last one would seem to be a dip.
func wholeBins(s probe.Side) []int64 {
	return s.Bins[:min(len(s.Bins), int(s.Elapsed/probe.BinWidth))]
}

func merge(into **probe.Distribution, d *probe.Distribution) {
	if d == nil {
		return
	}
	if *into == nil {
		*into = probe.NewDistribution()
	}
	(*into).Add(d)
}

// sides are the end that sends the bytes that count, and the one that receives them.
func sides(t probe.Trial) (sender, receiver probe.Side) {
	if t.Spec.Direction == probe.In {
		return t.Far, t.Near
	}
	return t.Near, t.Far
}

// busy is the share of a CPU that each thread of an end used, at the mean.
func busy(s probe.Side, threads int) float64 {
	if s.Elapsed <= 0 {
		return 0
	}
	return float64(s.Usage.User+s.Usage.System) / float64(s.Elapsed) / float64(threads)
}

// figure is the number that a trial is about: bytes per second, microseconds, round trips
// per minute, or bytes. NaN if the trial does not have it.
func figure(t probe.Trial) float64 {
	switch t.Spec.Test {
	case probe.TCPBandwidth, probe.UDPBandwidth:
		_, receiver := sides(t)
		if receiver.Elapsed <= 0 {
			return math.NaN()
		}
		return float64(receiver.ReceivedBytes) / receiver.Elapsed.Seconds()
	case probe.Responsiveness:
		if rpm, ok := probe.RPM(t); ok {
			return rpm
		}
	case probe.PathMTU:
		if t.PathMTU != nil && t.PathMTU.Out > 0 {
			return float64(t.PathMTU.Out)
		}
	default:
		if t.RTT == nil {
			break
		}
		if median, ok := t.RTT.Percentile(50); ok {
			return float64(median) / 1e3
		}
	}
	return math.NaN()
}
