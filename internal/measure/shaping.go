package measure

import (
	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/verdict"
)

// shaping looks for a token bucket in what the path gave while it was asked for long.
func (m *measured) shaping(c *probe.Conditions) {
	for _, direction := range []probe.Direction{probe.Out, probe.In} {
		t := m.sustain[direction]
		if t == nil {
			continue
		}
		sender, receiver := sides(*t)
		c.ShapingBytes = max(c.ShapingBytes, receiver.ReceivedBytes)
		found, ok := verdict.Shaping(receiver.Bins, probe.BinWidth, limitedByEnds(sender.TCP))
		if !ok || c.Shaped {
			continue
		}
		frames := framing(sender.TCP)
		c.Shaped = true
		c.Shaping = &probe.Shaping{
			Direction: direction, AtS: found.At.Seconds(), BucketBytes: found.Bucket * frames,
			BurstBytesPerS: found.Burst * frames, SustainedBytesPerS: found.Sustained * frames,
		}
	}
}

// limitedByEnds is the share of the time in which the ends held flows back.
func limitedByEnds(infos []probe.TCPInfo) float64 {
	r := record{infos: infos}
	if l := r.limits(); l != nil {
		return l.Receiver + l.Sender
	}
	return 0
}

const ethernetHeader = 14

// framing is how many bytes an Ethernet frame has for each of payload, in full segments:
// shapers count frames. 1 if nobody knows.
func framing(infos []probe.TCPInfo) float64 {
	for _, i := range infos {
		if i.MSS > 0 && i.PMTU > i.MSS {
			return float64(i.PMTU+ethernetHeader) / float64(i.MSS)
		}
	}
	return 1
}
