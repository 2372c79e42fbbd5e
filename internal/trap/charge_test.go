package trap

import (
	"strings"
	"testing"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

func TestSeverity(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		charge charge
		mean   time.Duration // of 100 requests
		want   Severity
	}{
		"nothing lost":                {charge{}, 50 * ms, Low},
		"a tenth of the time":         {charge{lost: 500 * ms}, 50 * ms, High},
		"a little less":               {charge{lost: 499 * ms}, 50 * ms, Medium},
		"10 ms each":                  {charge{lost: 1000 * ms}, time.Second, High},
		"a little less, of long ones": {charge{lost: 999 * ms}, time.Second, Medium},
		"one waits for a second":      {charge{lost: time.Second, longest: time.Second}, time.Minute, High},
		"one waits almost as long":    {charge{lost: 999 * ms, longest: 999 * ms}, time.Minute, Medium},
		"some fail":                   {charge{failed: true}, 50 * ms, High},
	} {
		if got := test.charge.severity(Scene{Requests: 100, Time: 100 * test.mean}); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	if got := (&charge{lost: time.Millisecond}).severity(Scene{}); got != Medium {
		t.Errorf("without requests %s, want %s", got, Medium)
	}
}

// TestUntilNext sees what a request waited for a call without an answer, 1 ms after its
// beginning, of 100 ms.
func TestUntilNext(t *testing.T) {
	t.Parallel()
	call := func(from, to float64) attribution.Link {
		x := &capture.Exchange{}
		x.Request.First = capture.Mark{Time: at(from), Packet: 1}
		x.Request.Last = x.Request.First
		if to > 0 {
			x.Response.Last = capture.Mark{Time: at(to), Packet: 2}
		}
		return attribution.Link{Exchange: x}
	}
	whole := call(0, 100)
	never := func(_, _ *attribution.Link) bool { return false }
	always := func(_, _ *attribution.Link) bool { return true }
	for name, test := range map[string]struct {
		follows func(_, _ *attribution.Link) bool
		others  []attribution.Link
		want    time.Duration
	}{
		"it asks again":             {always, []attribution.Link{call(31, 40)}, 30 * time.Millisecond},
		"after the request's end":   {always, []attribution.Link{call(131, 140)}, 99 * time.Millisecond},
		"nothing follows":           {never, nil, 99 * time.Millisecond},
		"all else was before":       {never, []attribution.Link{call(0.5, 0.7)}, 99 * time.Millisecond},
		"it goes on otherwise":      {never, []attribution.Link{call(31, 40)}, 0},
		"it goes on with an answer": {never, []attribution.Link{call(0.5, 31)}, 0},
	} {
		r := &attribution.Request{Exchange: whole.Exchange, Links: append([]attribution.Link{call(1, 0)}, test.others...)}
		if got := untilNext(r, 0, test.follows); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0 µs": 0, "420 µs": 420 * time.Microsecond, "9.3 ms": 9300 * time.Microsecond, "10 ms": 9960 * time.Microsecond,
		"86 ms": 86 * time.Millisecond, "1.0 s": 999_700 * time.Microsecond, "21.0 s": 21 * time.Second,
		"15 min": 15 * time.Minute, "6.0 h": 6 * time.Hour, "-2.0 ms": -2 * time.Millisecond,
	} {
		if got := span(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"es.example.com": "es.example.com", "a\x1b[2Jb\n": "a?[2Jb?", "\xff": "?", "größe": "größe",
		strings.Repeat("x", 80): strings.Repeat("x", 80), strings.Repeat("ü", 1000): strings.Repeat("ü", 80) + "…",
	} {
		if got := plain(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

// TestManyFindings sees that a node full of pods with one trap does not fill the screen.
func TestManyFindings(t *testing.T) {
	t.Parallel()
	var found []Finding
	for i := range maxFindings + 7 {
		found = append(found, Finding{Title: "x.", Cost: time.Duration(i)})
	}
	found = inOrder(found)
	last := found[len(found)-1]
	if len(found) != maxFindings || found[0].Cost != maxFindings+6 || !strings.HasSuffix(last.Title, "7 more findings like it left out.") {
		t.Errorf("%d findings from %v to %+v", len(found), found[0].Cost, last)
	}
}
