package datagram

import (
	"context"
	"time"

	"taper.dev/taper/internal/probe/socket"
)

// epoch is where the package's monotonic clock begins.
var epoch = time.Now()

// now is a reading of the monotonic clock.
func now() time.Duration { return time.Since(epoch) }

// spun is for how long before a message is due a thread looks for answers instead of
// waiting for them: it would be woken up too late by so much.
const spun = 30 * time.Microsecond

// pace says when messages are meant to be sent.
type pace struct {
	start    time.Duration
	interval float64 // nanoseconds
}

// paceOf is the pace of one of several streams that share a rate evenly, and in turn.
func paceOf(ratePerS float64, stream, streams int) pace {
	return pace{
		start:    time.Duration(float64(stream) * 1e9 / ratePerS),
		interval: float64(streams) * 1e9 / ratePerS,
	}
}

// due is when a message is meant to be sent, on the clock of [now].
func (p pace) due(number int64) time.Duration {
	return p.start + time.Duration(float64(number)*p.interval)
}

// sleepUntil waits for a time on the clock of [now], which is at most a tick away.
func sleepUntil(at time.Duration) {
	_ = socket.Until(context.Background(), epoch.Add(at)) // no reason to end early
}
