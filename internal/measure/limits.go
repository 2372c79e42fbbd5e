package measure

import (
	"fmt"
	"time"

	"taper.dev/taper/internal/probe"
)

// What makes one of a flow's limits the reason for its speed.
const (
	limitedShare = 0.2   // of the time in which there was something to send
	lossyShare   = 0.001 // of the segments: a loss-based congestion control halves for each
	busyShare    = 0.9   // of a CPU
)

// limits says why flows were as slow as they were; nil if the kernel said nothing.
func (r *record) limits() *probe.Limits {
	var busy, receiver, sender time.Duration
	var again, segments float64
	for _, i := range r.infos {
		busy += i.Busy
		receiver += i.RwndLimited
		sender += i.SndbufLimited
		again += float64(i.Retransmits)
		segments += float64(i.Segments)
	}
	if busy <= 0 {
		return nil
	}
	l := &probe.Limits{Receiver: share(receiver, busy), Sender: share(sender, busy)}
	l.Network = max(0, 1-l.Receiver-l.Sender)
	if segments > 0 {
		l.RetransmitShare = again / segments
	}
	l.Reason = r.reason(l)
	return l
}

func share(part, whole time.Duration) float64 { return min(1, float64(part)/float64(whole)) }

// reason is the first thing to look at.
func (r *record) reason(l *probe.Limits) string {
	sends, receives := r.nearBusy, r.farBusy
	if r.spec.Direction == probe.In {
		sends, receives = receives, sends
	}
	switch {
	case l.RetransmitShare >= lossyShare:
		return fmt.Sprintf("%.2g %% of the segments were sent again: packets are lost on the way", 100*l.RetransmitShare)
	case receives >= busyShare && receives >= sends:
		return fmt.Sprintf("the receiving thread used %.0f %% of a CPU", 100*receives)
	case sends >= busyShare:
		return fmt.Sprintf("the sending thread used %.0f %% of a CPU", 100*sends)
	case l.Receiver >= limitedShare && l.Receiver >= l.Sender:
		return fmt.Sprintf("the receiver's window was full %.0f %% of the time: its program or its buffer (net.ipv4.tcp_rmem) is too slow", 100*l.Receiver)
	case l.Sender >= limitedShare:
		return fmt.Sprintf("the send buffer was full %.0f %% of the time (net.ipv4.tcp_wmem)", 100*l.Sender)
	}
	return "the network: neither end, nor loss, held it back"
}
