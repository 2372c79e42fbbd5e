package agent

import (
	"fmt"
	"net/netip"
	"time"

	"taper.dev/taper/internal/probe"
)

// Limits are what an agent lets others do. The zero value of each is its default.
type Limits struct {
	// Duration is of the longest trial; 10 minutes.
	Duration time.Duration
	// Bytes is how much payload a trial may carry, both ways together, before it is cut
	// off; 1 TB.
	Bytes int64
	// BufferBytes is what the messages of all streams of a trial may take in memory; 256 MiB.
	BufferBytes int64
	// Sessions is how many may be connected at once; 64.
	Sessions int
	// Peers may ask and send; nil is everybody.
	Peers []netip.Prefix
	// Targets are where the agent may be told to measure to; nil is everywhere.
	Targets []netip.Prefix
}

const (
	defaultDuration    = 10 * time.Minute
	defaultBytes       = 1e12
	defaultBufferBytes = 256 << 20
	defaultSessions    = 64

	// maxWait is how long a trial can wait for its turn, whatever it says.
	maxWait = 10 * time.Minute
	// maxStrangers bounds the connections that have not said who they are. When there are
	// more the oldest is closed: it had the most time.
	maxStrangers = 256
)

func (l Limits) withDefaults() Limits {
	if l.Duration == 0 {
		l.Duration = defaultDuration
	}
	if l.Bytes == 0 {
		l.Bytes = defaultBytes
	}
	if l.BufferBytes == 0 {
		l.BufferBytes = defaultBufferBytes
	}
	if l.Sessions == 0 {
		l.Sessions = defaultSessions
	}
	return l
}

func (l Limits) validate() error {
	if l.Duration < 0 || l.Bytes < 0 || l.BufferBytes < 0 || l.Sessions < 0 {
		return fmt.Errorf("limits of %v, %d bytes, %d bytes of buffers and %d sessions are not possible: none may be below 0",
			l.Duration, l.Bytes, l.BufferBytes, l.Sessions)
	}
	return nil
}

// grant is the spec as this agent runs it, or why it does not.
func (l Limits) grant(spec probe.Spec) (probe.Spec, error) {
	if err := spec.Validate(); err != nil {
		return spec, err
	}
	if spec.Duration > l.Duration {
		return spec, fmt.Errorf("a trial of %v is longer than the %v that the agent allows: ask for less, or start it with a higher limit",
			spec.Duration, l.Duration)
	}
	// The factor of two is for a buffer each way.
	if need := 2 * int64(spec.Streams) * int64(max(spec.MessageBytes, spec.ReplyBytes)); need > l.BufferBytes {
		return spec, fmt.Errorf("%d streams with messages of %d bytes need %d bytes of buffers, more than the %d that the agent allows: use fewer streams or smaller messages",
			spec.Streams, max(spec.MessageBytes, spec.ReplyBytes), need, l.BufferBytes)
	}
	if spec.MaxBytes == 0 || spec.MaxBytes > l.Bytes {
		spec.MaxBytes = l.Bytes
	}
	return spec, nil
}

// mayAsk tells whether an address is among the peers.
func (l Limits) mayAsk(a netip.Addr) bool { return contains(l.Peers, a) }

// mayTarget says why the agent may not be told to measure to an address.
func (l Limits) mayTarget(a netip.Addr) error {
	if !contains(l.Targets, a) {
		return fmt.Errorf("%v is not among the addresses that the agent may be told to measure to", a)
	}
	return nil
}

// contains is true for no list at all.
func contains(list []netip.Prefix, a netip.Addr) bool {
	if list == nil {
		return true
	}
	a = a.Unmap().WithZone("")
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
