package dissect

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/capturetest"
	"taper.dev/taper/internal/capture/synth"
)

// told keeps all that is told.
type told struct {
	exchanges []*capture.Exchange
	stalls    []*capture.Stall
	conns     []*capture.Conn
	to        capture.Time
	late      int // answered exchanges that were told after Advance had passed their end
}

func (s *told) Exchange(x *capture.Exchange) {
	if x.Answered() && x.End() < s.to {
		s.late++
	}
	s.exchanges = append(s.exchanges, x)
}
func (s *told) Stall(x *capture.Stall) { s.stalls = append(s.stalls, x) }
func (s *told) Conn(c *capture.Conn)   { s.conns = append(s.conns, c) }
func (s *told) Advance(t capture.Time) { s.to = t }

// find finds the exchange that began with a packet.
func (s *told) find() map[uint64]*capture.Exchange {
	all := make(map[uint64]*capture.Exchange, len(s.exchanges))
	for _, x := range s.exchanges {
		all[x.Request.First.Packet] = x
	}
	return all
}

func generate(t *testing.T, p synth.Plan) *synth.Capture {
	t.Helper()
	c, err := synth.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestTruth finds in captures exactly what truly happened in them, with the times at which
// it did, however they are captured.
func TestTruth(t *testing.T) {
	t.Parallel()
	plan := mixedPlan(400)
	for name, spoil := range map[string]func(*synth.Plan){
		"as it is":             func(*synth.Plan) {},
		"ethernet":             func(p *synth.Plan) { p.Link = capture.LinkEthernet },
		"everything once more": func(p *synth.Plan) { p.Doubled = 1 },
		"some once more":       func(p *synth.Plan) { p.Doubled = 0.3 },
		"losses":               func(p *synth.Plan) { p.Loss = 0.05 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := plan
			spoil(&p)
			c := generate(t, p)
			var s told
			stats, err := Run(t.Context(), c, &s)
			if err != nil {
				t.Fatal(err)
			}
			if stats.Malformed+stats.Undecoded+stats.Unparsed+stats.MissingBytes != 0 || stats.Packets != uint64(c.Len()) {
				t.Errorf("stats %+v; want all understood", stats)
			}
			if s.late > 0 {
				t.Errorf("%d exchanges were told after their time had passed", s.late)
			}
			checkTruth(t, &s, &c.Truth)
		})
	}
}

// checkTruth compares what was told with what happened. An answer that was captured on its
// way out, and then lost, ends for its reader when it is sent again: a stall says so.
func checkTruth(t *testing.T, s *told, truth *synth.Truth) {
	t.Helper()
	all := s.find()
	again := map[capture.Time]bool{}
	for _, stall := range s.stalls {
		again[stall.To.Time] = true
	}
	for _, r := range truth.Requests {
		if x := all[r.Packet]; x == nil || !x.Answered() || x.Start() != r.Start || x.End() != r.End && !again[r.End] || x.Protocol != capture.HTTP {
			t.Fatalf("request of packet %d from %d to %d was told as %+v", r.Packet, r.Start, r.End, x)
		}
		for _, call := range r.Calls {
			if call.Cause == synth.Connect {
				continue
			}
			if x := all[call.Packet]; x == nil || !x.Answered() || x.Start() != call.From || x.End() != call.To {
				t.Fatalf("%s of packet %d from %d to %d was told as %+v", call.Cause, call.Packet, call.From, call.To, x)
			}
		}
	}
}

// TestSpoiltCaptures are cut, or lack packets: most of what happened must still be there.
func TestSpoiltCaptures(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spoil func(*synth.Plan)
		least float64 // share of the requests
	}{
		"cut to headers of all":   {func(p *synth.Plan) { p.Snap = 400 }, 0.99},
		"one of a thousand lacks": {func(p *synth.Plan) { p.Missed = 0.001 }, 0.95},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := mixedPlan(400)
			test.spoil(&p)
			c := generate(t, p)
			var s told
			if _, err := Run(t.Context(), c, &s); err != nil {
				t.Fatal(err)
			}
			all, found := s.find(), 0
			for _, r := range c.Truth.Requests {
				if x := all[r.Packet]; x != nil && x.Answered() && x.End() == r.End {
					found++
				}
			}
			if share := float64(found) / float64(len(c.Truth.Requests)); share < test.least {
				t.Errorf("%.3f of the requests were found; want %.2f", share, test.least)
			}
		})
	}
}

// TestTsharkTimes compares the times of answers with tshark's.
func TestTsharkTimes(t *testing.T) {
	t.Parallel()
	c := generate(t, mixedPlan(100))
	var s told
	if _, err := Run(t.Context(), c, &s); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "mixed.pcap")
	c.Rewind()
	if err := write(file, c); err != nil {
		t.Fatal(err)
	}
	took := map[string]time.Duration{}
	for _, x := range s.exchanges {
		if x.Answered() {
			took[fmt.Sprint(x.Response.Last.Packet)] = x.End().Sub(x.Request.Last.Time)
		}
	}
	for _, field := range []string{"http.time", "dns.time"} {
		rows := capturetest.Tshark{File: file, Filter: field, As: []string{"tcp.port==9200,http"}}.Fields(t, "frame.number", field)
		for _, row := range rows {
			seconds, err := strconv.ParseFloat(row[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := took[row[0]]
			if !ok || math.Abs(got.Seconds()-seconds) > 1e-6 {
				t.Errorf("packet %s: %v (%v); tshark's %s is %v s", row[0], got, ok, field, seconds)
			}
			delete(took, row[0])
		}
	}
	if len(took) != 0 {
		t.Errorf("%d answers are none for tshark: %v", len(took), took)
	}
}

func write(file string, c *synth.Capture) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	if _, err := c.WriteTo(w); err != nil {
		return err
	}
	return w.Flush()
}

// source gives packets of a second each, then fails.
type source struct {
	times []capture.Time
	err   error
	after func(n int)
	n     int
}

func (s *source) Next(p *capture.Packet) error {
	if s.n == len(s.times) {
		return s.err
	}
	*p = capture.Packet{Number: uint64(s.n + 1), Time: s.times[s.n], Link: capture.LinkEthernet, Data: []byte("junk"), Length: 60}
	s.n++
	if s.after != nil {
		s.after(s.n)
	}
	return nil
}

func TestSourceFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is gone")
	var s told
	stats, err := Run(t.Context(), &source{times: []capture.Time{5e9, 6e9}, err: broken}, &s)
	if !errors.Is(err, broken) || stats.Packets != 2 || stats.Bytes != 120 || stats.First != 5e9 || stats.Last != 6e9 {
		t.Errorf("error %v, stats %+v; want both packets, and the source's error", err, stats)
	}
}

func TestStopsWithContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	forever := &source{times: make([]capture.Time, 1<<20), err: io.EOF, after: func(n int) {
		if n == 5000 {
			cancel(enough)
		}
	}}
	stats, err := Run(ctx, forever, &told{})
	if !errors.Is(err, enough) || stats.Packets < 5000 || stats.Packets > 5000+checkEvery {
		t.Errorf("error %v after %d packets; want it soon after 5000", err, stats.Packets)
	}
}

func TestBackwards(t *testing.T) {
	t.Parallel()
	times := []capture.Time{100e9, 101e9, 100.5e9, 99e9, 98.9e9, 50e9, 51e9}
	stats, err := Run(t.Context(), &source{times: times, err: io.EOF}, &told{})
	if err != nil || stats.Backwards != 2 || stats.First != 50e9 || stats.Last != 101e9 {
		t.Errorf("%v, %+v; want 2 steps back, from 50 to 101 s", err, stats)
	}
}

func TestEmpty(t *testing.T) {
	t.Parallel()
	stats, err := Run(t.Context(), &source{err: io.EOF}, &told{})
	if err != nil || stats.Packets != 0 || stats.First != 0 || stats.Conns != 0 {
		t.Errorf("%v, %+v; want nothing", err, stats)
	}
}
