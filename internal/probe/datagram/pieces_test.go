package datagram

import (
	"math"
	"slices"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
)

func TestHeader(t *testing.T) {
	t.Parallel()
	var b [headerBytes]byte
	want := header{tag: 0xdeadbeef, kind: given, number: 1 << 63}
	want.put(b[:])
	if got, ok := parse(b[:]); !ok || got != want {
		t.Errorf("%+v %v; want %+v", got, ok, want)
	}
	for name, b := range map[string][]byte{"none": nil, "too short": b[:15], "no kind": make([]byte, 16), "no such kind": append([]byte{0, 0, 0, 0, byte(kinds)}, b[5:]...)} {
		if got, ok := parse(b); ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A number, as a message of 16 bytes or more begins with it, is never taken for a header.
func TestNumberIsNoHeader(t *testing.T) {
	t.Parallel()
	most := uint64(probe.MaxRatePerS * probe.MaxDuration.Seconds())
	if most >= 1<<32 {
		t.Fatalf("a trial may have %d messages, whose numbers have more than 4 bytes", most)
	}
	for _, n := range []uint64{0, 1, 255, 256, most} {
		b := make([]byte, 100)
		putNumber(b, numberBytes, n)
		if h, ok := parse(b); ok {
			t.Errorf("%d reads as %+v", n, h)
		}
		if got := number(b, numberBytes); got != n {
			t.Errorf("%d reads as %d", n, got)
		}
		if putNumber(b, 1, n); number(b, 1) != n&0xff {
			t.Errorf("the low byte of %d reads as %d", n, number(b, 1))
		}
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	b := make([]byte, sizesBytes)
	putSizes(b, 1500, 65536)
	if size, believed, ok := parseSizes(b); size != 1500 || believed != 65536 || !ok {
		t.Errorf("%d, %d, %v", size, believed, ok)
	}
	putSizes(b, 1<<16, 0)
	if _, _, ok := parseSizes(b); ok {
		t.Error("a packet of 64 KiB, which IP cannot carry, is taken")
	}
	if _, _, ok := parseSizes(b[:sizesBytes-1]); ok {
		t.Error("half a pair is taken")
	}
}

func TestWindow(t *testing.T) {
	t.Parallel()
	const far = 3*windowBits + 5
	steps := []struct {
		number uint64
		want   arrival
	}{
		{0, fresh}, {0, duplicate}, {2, fresh}, {1, reordered}, {1, duplicate}, {2, duplicate}, {3, fresh},
		{windowBits + 2, fresh},                                        // its bit is that of 2
		{4, reordered}, {4, duplicate}, {3, duplicate}, {2, duplicate}, // 2 is forgotten
		{far, fresh}, {far - windowBits + 1, reordered}, {far - windowBits, duplicate}, {5, duplicate},
		{math.MaxUint64 - 1, fresh}, {math.MaxUint64, fresh}, // nobody sends so much
	}
	w := newWindow()
	for i, s := range steps {
		if got := w.see(s.number); got != s.want {
			t.Errorf("step %d: %d is %d; want %d", i, s.number, got, s.want)
		}
	}
}

// All numbers that a window remembers are told apart, whatever order they come in.
func TestWindowAgainstASet(t *testing.T) {
	t.Parallel()
	w, seen, highest, random := newWindow(), map[uint64]bool{}, int64(-1), uint64(1)
	for i := range uint64(200_000) {
		random = random*6364136223846793005 + 1442695040888963407
		n := i*3 + random>>33%5000
		want := fresh
		switch {
		case seen[n]:
			want = duplicate
		case int64(n) < highest:
			want = reordered
		}
		if got := w.see(n); got != want {
			t.Fatalf("%d is %d; want %d", n, got, want)
		}
		seen[n], highest = true, max(highest, int64(n))
	}
}

func TestJournal(t *testing.T) {
	t.Parallel()
	for _, w := range []int{1, numberBytes} {
		var j journal
		if _, got := j.answered(0, 0, w); got != unknown {
			t.Errorf("the answer to nothing is %d", got)
		}
		for n := range uint64(300) {
			j.write(n, time.Duration(n+1))
			if n == 290 {
				continue // is given up
			}
			if at, got := j.answered(n&mask(w), n, w); got != awaited || at != time.Duration(n+1) {
				t.Fatalf("width %d: the answer to %d, of %v, is %d", w, n, at, got)
			}
		}
		if _, got := j.answered(299&mask(w), 299, w); got != again {
			t.Errorf("an answer that comes twice is %d", got)
		}
		if n := j.unused(290 + journalled); n != 291+journalled {
			t.Errorf("%d is used, which looks like 290, not yet answered", n)
		}
		if at, got := j.answered(290&mask(w), 299, w); got != late || at != 291 {
			t.Errorf("a late answer, of %v, is %d", at, got)
		}
		if n := j.unused(290 + journalled); n != 290+journalled {
			t.Errorf("%d is used, though 290 was answered", n)
		}
	}
	var full journal
	for n := range uint64(journalled) {
		full.write(n, 1)
	}
	if n := full.unused(journalled); n != journalled {
		t.Errorf("with nothing answered, %d is next; want %d", n, journalled)
	}
	if _, got := full.answered(7+journalled, 9, numberBytes); got != unknown {
		t.Errorf("an answer to what was not sent is %d", got)
	}
}

// mask is what is known of a number.
func mask(width int) uint64 {
	if width == 1 {
		return 0xff
	}
	return math.MaxUint64
}

func TestPace(t *testing.T) {
	t.Parallel()
	var all []time.Duration
	for stream := range 3 {
		p := paceOf(1000, stream, 3)
		for n := range int64(4) {
			all = append(all, p.due(n))
		}
	}
	slices.Sort(all)
	for i, due := range all {
		if want := time.Duration(i) * time.Millisecond; (due - want).Abs() > time.Nanosecond {
			t.Errorf("message %d of three streams is due at %v; want %v", i, due, want)
		}
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		mtu      int  // of the path
		first    int  // of the sender's interface
		tells    bool // whether somebody says what is too large
		high     int
		most     int // tries
		wantHole bool
	}{
		"nothing in the way":       {65535, 65535, true, 65535, 1, false},
		"the interface":            {1500, 1500, true, 65535, 3, false},
		"a router":                 {1400, 1500, true, 65535, 5, false},
		"a black hole":             {1450, 1500, false, 65535, 14, true},
		"a black hole, jumbo":      {1450, 9000, false, 65535, 17, true},
		"nothing but what is sure": {60, 1500, false, 65535, 14, true},
		"asked for less":           {1500, 1500, true, 1000, 1, false},
	}
	for name, test := range tests {
		s := newSearch(60, test.high)
		tries := 0
		for size, more := s.next(); more; size, more = s.next() {
			tries++
			switch {
			case size > test.first:
				s.refused(size, test.first)
			case size <= test.mtu:
				s.passed(size)
			case test.tells:
				s.refused(size, test.mtu)
			default:
				s.vanished(size)
			}
			if tries > 100 {
				t.Fatalf("%s: no end", name)
			}
		}
		if want := min(test.mtu, test.high); s.low != want || tries > test.most || s.holeWithin(test.first) != test.wantHole {
			t.Errorf("%s: found %d with %d tries, hole at %d; want %d with %d, %v", name, s.low, tries, s.hole, want, test.most, test.wantHole)
		}
	}
}

func TestFit(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(s *probe.Spec)
		test   probe.Test
		want   func(s *probe.Spec)
	}{
		"as it is":             {func(*probe.Spec) {}, probe.UDPLatency, func(*probe.Spec) {}},
		"room for the number":  {func(s *probe.Spec) { s.RatePerS = 5 }, probe.UDPLatency, func(s *probe.Spec) { s.MessageBytes, s.ReplyBytes = 8, 8 }},
		"room for the header":  {func(s *probe.Spec) { s.MessageBytes = 1 }, probe.UDPBandwidth, func(s *probe.Spec) { s.MessageBytes = 16 }},
		"one stream, no rate":  {func(s *probe.Spec) { s.Streams, s.RatePerS = 9, 9 }, probe.PathMTU, func(s *probe.Spec) { s.Streams, s.RatePerS = 1, 0 }},
		"larger than it needs": {func(s *probe.Spec) { s.MessageBytes = 1400 }, probe.UDPBandwidth, func(*probe.Spec) {}},
	}
	for name, test := range tests {
		s := probe.Default(test.test)
		test.change(&s)
		got, err := fit(s)
		test.want(&s)
		if err != nil || got != s {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, s)
		}
		if again, err := fit(got); err != nil || again != got {
			t.Errorf("%s: fitted again %+v, %v; want %+v", name, again, err, got)
		}
	}
}

// What runs for each message leaves nothing to be collected.
func TestNoAllocation(t *testing.T) {
	for _, mode := range []probe.Mode{probe.Cold, probe.Hot} {
		a, b := pair(t, mode)
		ta := newTally(probe.Default(probe.UDPLatency), new(origin), nil)
		c := &caller{end: a, tally: ta, message: make([]byte, 1), reply: 1, width: 1}
		seen := newWindow()
		tb := newTally(probe.Default(probe.UDPBandwidth), new(origin), nil)
		var recent journal
		n := uint64(0)
		allocations := testing.AllocsPerRun(200, func() {
			recent.write(n, now())
			if err := c.post(n); err != nil {
				t.Fatal(err)
			}
			m, err := b.receive()
			if err != nil {
				t.Fatal(err)
			}
			tb.count(seen.see(n), now(), len(m))
			if err := b.send(m); err != nil {
				t.Fatal(err)
			}
			if err := c.awaitAnswer(n, &recent); err != nil {
				t.Fatal(err)
			}
			if err := a.control(finish, n); err != nil {
				t.Fatal(err)
			}
			if _, err := b.receiveWithin(tick); err != nil {
				t.Fatal(err)
			}
			if _, err := b.poll(); err != errQuiet {
				t.Fatal(err)
			}
			n++
		})
		if allocations > 0 {
			t.Errorf("%s: %v allocations for a message", mode, allocations)
		}
	}
}
