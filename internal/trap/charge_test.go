package trap

import (
	"strings"
	"testing"
	"time"
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
