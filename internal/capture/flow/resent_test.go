package flow

import (
	"testing"
	"time"

	"taper.dev/taper/internal/capture"
)

func TestKindOfLoss(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		loss loss
		want capture.StallKind
	}{
		"reported":                         {loss{elapsed: 30 * ms, rtt: 20 * ms, told: true, since: ms, tries: 1}, capture.StallFast},
		"reported, again":                  {loss{elapsed: 30 * ms, rtt: 20 * ms, told: true, since: ms, tries: 2}, capture.StallFast},
		"reported at the tail":             {loss{elapsed: 30 * ms, rtt: 20 * ms, told: true, since: ms, tail: true, tries: 1}, capture.StallFast},
		"reported, but that was long ago":  {loss{elapsed: 300 * ms, rtt: 20 * ms, told: true, since: 200 * ms, tries: 1}, capture.StallTimeout},
		"reported late on a long path":     {loss{elapsed: 600 * ms, rtt: 500 * ms, told: true, since: 199 * ms, tries: 1}, capture.StallFast},
		"not reported":                     {loss{elapsed: 200 * ms, rtt: 20 * ms, tries: 1}, capture.StallTimeout},
		"not reported, the tail":           {loss{elapsed: 200 * ms, rtt: 20 * ms, tail: true, tries: 1}, capture.StallTimeout},
		"the tail, soon":                   {loss{elapsed: 199 * ms, rtt: 20 * ms, tail: true, tries: 1}, capture.StallTail},
		"the tail, soon, again":            {loss{elapsed: 100 * ms, rtt: 20 * ms, tail: true, tries: 2}, capture.StallTimeout},
		"the middle, after two trips":      {loss{elapsed: 40 * ms, rtt: 20 * ms, tries: 1}, capture.StallTimeout},
		"the middle, sooner":               {loss{elapsed: 39 * ms, rtt: 20 * ms, tries: 1}, capture.StallFast},
		"the middle, of an unknown length": {loss{elapsed: 150 * ms, tries: 1}, capture.StallFast},
	} {
		if got := test.loss.kind(); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// TestManyInFlight sends more at once than is remembered one by one: the oldest segments,
// which are those that are sent again, keep nearly their times.
func TestManyInFlight(t *testing.T) {
	t.Parallel()
	const n = 3000
	for _, which := range []int{0, 1, n / 2, n - 1} {
		w := newWire(0xfff00000, 2000).handshake(10 * ms)
		for i := range n {
			w.at(100*ms+time.Duration(i)*10*us).data(client, full)
		}
		w.at(400 * ms).again(3 + which)
		s := track(w.frames)
		if len(s.stalls) != 1 || s.stalls[0].Kind != capture.StallTimeout {
			t.Fatalf("segment %d: stalls %+v; want a timeout", which, s.stalls)
		}
		sent := w.frames[3+which].Time
		if late := sent.Sub(s.stalls[0].From.Time); late < 0 || late > n/16*10*us {
			t.Errorf("segment %d: the stall begins %v before it was sent", which, late)
		}
	}
}

// TestPartsOfASegment are sent again one by one, as they are after one large segment was
// cut on the way: each wait begins when that part was sent before.
func TestPartsOfASegment(t *testing.T) {
	t.Parallel()
	w := newWire(1000, 2000).handshake(10 * ms)
	w.at(100*ms).data(client, "aabbcc")
	for i, at := range []time.Duration{400, 410, 420, 1000} {
		w.seq[client] = 1001 + uint32(2*(i%3))
		w.at(at*ms).data(client, "aabbcc"[2*(i%3):2*(i%3)+2])
	}
	w.seq[client] = 1007
	var got []string
	s := track(w.frames)
	for _, stall := range s.stalls {
		got = append(got, stalled(stall))
	}
	want := []string{
		"retransmission timeout of the client, 4→5, 300ms, try 1",
		"retransmission timeout of the client, 5→6, 10ms, try 1",
		"retransmission timeout of the client, 6→7, 10ms, try 1",
		"retransmission timeout of the client, 7→8, 580ms, try 2",
	}
	if len(got) != len(want) || s.conns[0].Retransmitted[client] != 4 {
		t.Fatalf("%q, %d retransmitted; want %q", got, s.conns[0].Retransmitted[client], want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("stall %d: %s, want %s", i, got[i], want[i])
		}
	}
}
