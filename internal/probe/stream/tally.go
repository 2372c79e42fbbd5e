package stream

import (
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/socket"
)

// tally is what one stream of one end counted. Only its thread touches it.
type tally struct {
	sent, received           int64 // messages
	sentBytes, receivedBytes int64
	carried                  int64 // bytes, whenever: see spend
	elapsed                  time.Duration
	bins                     []int64
	tcp                      []probe.TCPInfo
	_                        [64]byte // no two threads write to one line of the cache
}

// newTally has room for a trial of that length.
func newTally(length time.Duration) *tally {
	return &tally{bins: make([]int64, (length+probe.BinWidth-1)/probe.BinWidth)}
}

// tallies are those of n streams.
func tallies(n int, length time.Duration) []*tally {
	all := make([]*tally, n)
	for i := range all {
		all[i] = newTally(length)
	}
	return all
}

// bin counts bytes at a time within the trial's length.
func (t *tally) bin(at time.Duration, n int) {
	if i := int(at / probe.BinWidth); i < len(t.bins) {
		t.bins[i] += int64(n)
	}
}

// explain asks the kernel why the stream was as fast as it was. That it cannot say is no
// reason to lose the trial.
func (t *tally) explain(fd int) {
	if info, err := socket.Info(fd); err == nil {
		t.tcp = append(t.tcp[:0], info)
	}
}

// side adds up streams.
func side(all []*tally, usage probe.Usage) probe.Side {
	s := probe.Side{Usage: usage}
	for _, t := range all {
		s.Sent += t.sent
		s.Received += t.received
		s.SentBytes += t.sentBytes
		s.ReceivedBytes += t.receivedBytes
		s.Elapsed = max(s.Elapsed, t.elapsed)
		s.TCP = append(s.TCP, t.tcp...)
		for len(s.Bins) < len(t.bins) {
			s.Bins = append(s.Bins, 0)
		}
		for i, n := range t.bins {
			s.Bins[i] += n
		}
	}
	// What did not take place has no bins.
	s.Bins = s.Bins[:min(len(s.Bins), int((s.Elapsed+probe.BinWidth-1)/probe.BinWidth))]
	return s
}
