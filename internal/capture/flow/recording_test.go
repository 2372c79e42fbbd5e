package flow

import (
	"errors"
	"io"
	"testing"
	"time"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/capturetest"
	"taper.dev/taper/internal/capture/frame"
	"taper.dev/taper/internal/capture/pcapfile"
)

// recording reads the frames of a recording of real hosts' TCP.
func recording(t *testing.T, file string) []capture.Frame {
	t.Helper()
	r, err := pcapfile.Open([]string{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var frames []capture.Frame
	decoder := frame.New()
	for {
		var p capture.Packet
		if err := r.Next(&p); errors.Is(err, io.EOF) {
			return frames
		} else if err != nil {
			t.Fatal(err)
		}
		var f capture.Frame
		if decoder.Decode(&p, &f) == frame.Decoded {
			f.Payload = append([]byte(nil), f.Payload...)
			frames = append(frames, f)
		}
	}
}

// TestRecordings tracks what Linux hosts did to each other over a path of 20 ms, seen at
// both ends: what each of them was made to do is known.
func TestRecordings(t *testing.T) {
	t.Parallel()
	// counts are the least and the most stalls of a kind; kinds that are not there must
	// not be found.
	type counts map[capture.StallKind][2]int
	for name, test := range map[string]struct {
		want counts
		// each stall of the first kind takes at least and at most so long.
		kind        capture.StallKind
		least, most time.Duration
	}{
		// Ten requests in two small segments each; the first acknowledgement is quick. At the
		// server four second segments come too late to have waited for it alone: the machine
		// was held up.
		"nagle-client": {counts{capture.StallDelayedACK: {9, 9}}, capture.StallDelayedACK, 60 * ms, 250 * ms},
		"nagle-server": {counts{capture.StallDelayedACK: {5, 5}}, capture.StallDelayedACK, 60 * ms, 250 * ms},
		// The client does not read for 0.7 s; what had no room is then sent again by timer.
		"zero-client": {counts{capture.StallZeroWindow: {1, 1}, capture.StallTimeout: {1, 4}}, capture.StallZeroWindow, 600 * ms, 700 * ms},
		"zero-server": {counts{capture.StallZeroWindow: {1, 1}, capture.StallTimeout: {1, 4}}, capture.StallZeroWindow, 600 * ms, 700 * ms},
		// Answers of 70 segments after 2 s of silence: bursts of 10, 20 and 40, but for one
		// that the machine held up.
		"idle-client": {counts{capture.StallSlowStart: {4, 4}}, capture.StallSlowStart, 15 * ms, 30 * ms},
		"idle-server": {counts{capture.StallSlowStart: {4, 4}}, capture.StallSlowStart, 15 * ms, 30 * ms},
		// Three of a hundred packets were dropped. The server's end sees all that the server
		// sends twice; the client's end sees only the gaps, and its own requests.
		"lossy-client": {counts{capture.StallFast: {20, 30}, capture.StallTimeout: {3, 6}, capture.StallSlowStart: {0, 3}}, capture.StallTimeout, 200 * ms, 300 * ms},
		"lossy-server": {counts{capture.StallFast: {20, 30}, capture.StallTimeout: {4, 8}, capture.StallTail: {2, 4}, capture.StallSlowStart: {0, 4}}, capture.StallTimeout, 200 * ms, 310 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := track(recording(t, "testdata/"+name+".pcap"))
			got := map[capture.StallKind]int{}
			for _, stall := range s.stalls {
				got[stall.Kind]++
				if d := stall.Duration(); stall.Kind == test.kind && (d < test.least || d > test.most) {
					t.Errorf("%s; want between %v and %v", stalled(stall), test.least, test.most)
				}
			}
			for kind, n := range got {
				if bounds := test.want[kind]; n < bounds[0] || n > bounds[1] {
					t.Errorf("%d of %v, want %v", n, kind, bounds)
				}
			}
			for kind, bounds := range test.want {
				if got[kind] < bounds[0] {
					t.Errorf("%d of %v, want %v", got[kind], kind, bounds)
				}
			}
			checkStalls(t, s.stalls)
		})
	}
}

// TestTsharkCountsTheSame: what was sent again, or came late. Which of both it was tshark
// cannot know as well, since it does not look at timestamps; so they are taken together.
func TestTsharkCountsTheSame(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"testdata/lossy-client.pcap", "testdata/lossy-server.pcap", "testdata/zero-server.pcap"} {
		rows := capturetest.Tshark{
			File: file, Filter: "tcp.len > 0 && (tcp.analysis.retransmission || tcp.analysis.out_of_order)",
		}.Fields(t, "frame.number")
		s := track(recording(t, file))
		if got := int(s.stats.Retransmitted + s.stats.Reordered); got != len(rows) {
			t.Errorf("%s: %d packets sent again or late; tshark has %d", file, got, len(rows))
		}
		if s.stats.Reordered != 0 {
			t.Errorf("%s: %d reordered, but its path kept the order", file, s.stats.Reordered)
		}
	}
}
