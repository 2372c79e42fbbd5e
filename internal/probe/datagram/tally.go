package datagram

import (
	"context"
	"sync/atomic"
	"time"

	"taper.dev/taper/internal/probe"
)

// origin is when the first stream of an end began; its bins count from then.
type origin struct{ at atomic.Int64 }

// since is how long after the origin t is; the first t to be asked about is the origin.
func (o *origin) since(t time.Duration) time.Duration {
	if o.at.Load() == 0 {
		o.at.CompareAndSwap(0, int64(t))
	}
	return max(0, t-time.Duration(o.at.Load()))
}

// tally is what one stream of an end saw.
type tally struct {
	probe.Side
	origin      *origin
	first, last time.Duration // on the clock of [now]; 0 before there is one
	rtt         *probe.Distribution
	unanswered  int64
	mtu         *probe.PathMTUFound
	// most is how many bytes the stream may carry; enough ends the trial when it has.
	most   int64
	enough context.CancelCauseFunc
}

// newTally has room for the bins of a trial, so that none has to be made within it.
func newTally(spec probe.Spec, o *origin, enough context.CancelCauseFunc) *tally {
	t := &tally{origin: o, enough: enough, most: spec.Share()}
	if spec.Test == probe.UDPBandwidth {
		t.Bins = make([]int64, 0, spec.Duration/probe.BinWidth+2)
	} else {
		t.rtt = probe.NewDistribution()
	}
	return t
}

// mark notes that something was sent or received at a time.
func (t *tally) mark(at time.Duration) {
	if t.first == 0 {
		t.first = at
	}
	t.last = at
}

// bin adds bytes to those of a time.
func (t *tally) bin(at time.Duration, bytes int) {
	i := int(t.origin.since(at) / probe.BinWidth)
	for len(t.Bins) <= i { // a trial has a limit, and so have its bins
		t.Bins = append(t.Bins, 0)
	}
	t.Bins[i] += int64(bytes)
}

// sent notes a message that was sent.
func (t *tally) sent(at time.Duration, bytes int) {
	t.Sent++
	t.SentBytes += int64(bytes)
	t.heed()
	t.last = at
}

// heed ends the trial when the stream has carried its share of what the trial may.
func (t *tally) heed() {
	if t.SentBytes+t.ReceivedBytes >= t.most {
		t.enough(probe.ErrEnough)
	}
}

// received notes a message that was received.
func (t *tally) received(at time.Duration, bytes int) {
	t.Received++
	t.ReceivedBytes += int64(bytes)
	t.heed()
	t.mark(at)
}

// count notes a message of a bandwidth test that was received.
func (t *tally) count(a arrival, at time.Duration, bytes int) {
	switch a {
	case duplicate:
		t.Duplicated++
		return
	case reordered:
		t.Reordered++
	}
	t.received(at, bytes)
	t.bin(at, bytes)
}

// sum is the side that all streams of an end together saw.
func sum(tallies []*tally) probe.Side {
	var s probe.Side
	var first, last time.Duration
	for _, t := range tallies {
		s.SentBytes += t.SentBytes
		s.ReceivedBytes += t.ReceivedBytes
		s.Sent += t.Sent
		s.Received += t.Received
		s.Reordered += t.Reordered
		s.Duplicated += t.Duplicated
		s.Foreign += t.Foreign
		for i, bytes := range t.Bins {
			if i == len(s.Bins) {
				s.Bins = append(s.Bins, 0)
			}
			s.Bins[i] += bytes
		}
		if t.first != 0 && (first == 0 || t.first < first) {
			first = t.first
		}
		last = max(last, t.last)
	}
	s.Elapsed = last - first
	return s
}
