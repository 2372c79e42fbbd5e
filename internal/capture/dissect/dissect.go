package dissect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/flow"
	"taper.dev/taper/internal/capture/frame"
)

// Source gives packets; io.EOF is the end. The packet's Data may be overwritten by the
// next call.
type Source interface {
	Next(*capture.Packet) error
}

const (
	// checkEvery is after how many packets ctx is looked at.
	checkEvery = 1024
	// stepBack is how far back in time a packet must lie to count as a step of the clock;
	// less is the order in which interfaces were read.
	stepBack = time.Second
)

// Run tells sink what the packets of source say, until source ends or ctx does. When it
// ends early the error says why; what was read until then is told all the same, and the
// statistics are those of it.
func Run(ctx context.Context, source Source, sink capture.Sink) (capture.Stats, error) {
	var (
		stats   capture.Stats
		decoder = frame.New()
		tracker = flow.New(protocols(), sink, flow.Options{})
	)
	err := read(ctx, source, decoder, tracker, &stats)
	tracker.Finish()
	decoder.AddTo(&stats)
	tracker.AddTo(&stats)
	return stats, err
}

func read(ctx context.Context, source Source, d *frame.Decoder, t *flow.Tracker, stats *capture.Stats) error {
	var (
		p    capture.Packet
		f    capture.Frame
		last capture.Time
	)
	for {
		if stats.Packets%checkEvery == 0 {
			if err := context.Cause(ctx); err != nil {
				return fmt.Errorf("stopped after %d packets: %w", stats.Packets, err)
			}
		}
		if err := source.Next(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("after %d packets: %w", stats.Packets, err)
		}
		count(stats, &p, last)
		last = p.Time
		if d.Decode(&p, &f) == frame.Decoded {
			t.Frame(&f)
		}
	}
}

// count counts a packet; last is the time of the one before it.
func count(s *capture.Stats, p *capture.Packet, last capture.Time) {
	if s.Packets == 0 {
		s.First, s.Last = p.Time, p.Time
	} else if last.Sub(p.Time) > stepBack {
		s.Backwards++
	}
	s.Packets++
	s.Bytes += uint64(max(p.Length, len(p.Data)))
	s.First, s.Last = min(s.First, p.Time), max(s.Last, p.Time)
}
