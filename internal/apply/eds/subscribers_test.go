package eds

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

func TestUnknownServices(t *testing.T) {
	start := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
	envoys, log := newSubscribers("v/"), &logBuffer{}
	h := &handler{envoys: envoys, logger: slog.New(slog.NewTextHandler(log, nil))}
	warned := func(after time.Duration) int {
		h.warnUnknown(start.Add(after))
		return len(log.lines("services that taper does not serve"))
	}
	ask := func(id int64, after time.Duration, names ...string) {
		envoys.request(id, &discoveryv3.DiscoveryRequest{ResourceNames: names}, start.Add(after))
	}
	envoys.open(1, "")
	ask(1, 0, "fib", "fub", "*")

	if n := warned(time.Hour); n != 0 {
		t.Fatalf("warned before any service was known: %q", log.lines(""))
	}
	envoys.publish("fib", 1, start.Add(time.Hour))
	if n := warned(time.Hour + unknownAfter - 1); n != 0 {
		t.Fatalf("warned before other services had a chance: %q", log.lines(""))
	}
	ask(1, time.Hour, "fib", "fub", "*") // the same again is no reason to wait longer
	for range 3 {
		if n := warned(time.Hour + unknownAfter); n != 1 {
			t.Fatalf("warned %d times, want once: %q", n, log.lines(""))
		}
	}
	if line := log.lines("asked=")[0]; !strings.Contains(line, "asked=fub known=fib") {
		t.Errorf("warning = %q, want what is asked for and what is known", line)
	}

	envoys.open(2, "")
	var many []string
	for i := range 12 {
		many = append(many, fmt.Sprintf("x%02d", i))
	}
	ask(2, time.Hour, many...)
	if n := warned(time.Hour + unknownAfter - 1); n != 1 {
		t.Errorf("warned at once of what was only just asked for: %q", log.lines(""))
	}
	if n := warned(2 * time.Hour); n != 2 {
		t.Fatalf("warned %d times, want a second line", n)
	}
	if line := log.lines("x00")[0]; strings.Contains(line, "fub") || !strings.Contains(line, "x09 and 2 more") {
		t.Errorf("second warning = %q, want the first ten new ones", line)
	}
}

func TestStreamLimit(t *testing.T) {
	envoys := newSubscribers("v/")
	for i := range int64(maxStreams) {
		if !envoys.open(i, "") {
			t.Fatalf("stream %d of %d refused", i, maxStreams)
		}
	}
	if envoys.open(maxStreams, "") {
		t.Errorf("stream %d taken, want at most %d", maxStreams+1, maxStreams)
	}
	envoys.closed(maxStreams) // as the xDS server does after a refusal
	envoys.closed(0)
	if !envoys.open(maxStreams, "") {
		t.Error("refused though a stream has closed")
	}
}

func TestOnceIsBounded(t *testing.T) {
	var o once
	for i := range 3 * maxRemembered {
		if !o.first(fmt.Sprint(i)) || o.first(fmt.Sprint(i)) {
			t.Fatalf("key %d: want true once", i)
		}
		if len(o.seen) > maxRemembered {
			t.Fatalf("remembers %d keys, want at most %d", len(o.seen), maxRemembered)
		}
	}
}
