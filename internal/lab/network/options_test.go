package network

import (
	"strings"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	if err := DefaultOptions().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no time":             {func(o *Options) { o.Measure = 0 }, "measuring for 0s: want 1s to 1h"},
		"a day":               {func(o *Options) { o.Measure = 24 * time.Hour }, "measuring for 24h0m0s"},
		"no rate":             {func(o *Options) { o.Shape.BitsPerS = 0 }, "0 bits per second for the shaped cable"},
		"too fast":            {func(o *Options) { o.Narrow.BitsPerS = 1e12 }, "1000000000000 bits per second for the narrow interface"},
		"no bucket":           {func(o *Options) { o.Shape.Bytes = 10 }, "a bucket of 10 bytes"},
		"a bucket for ever":   {func(o *Options) { o.Shape.Bytes = 3e9 }, "a bucket of 3000000000 bytes"},
		"more than the clock": {func(o *Options) { o.Shape.BitsPerS, o.Shape.Bytes = 10e6, 1e9 }, "lasts 800 s: want at most 4m0s"},
		"nobody":              {func(o *Options) { o.Users = 1 }, "1 users: want 2 to 1024"},
		"a moment":            {func(o *Options) { o.Step = time.Millisecond }, "steps of 1ms"},
		"no balancer":         {func(o *Options) { o.Envoy = "" }, "no command"},
	} {
		o := DefaultOptions()
		c.change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", name, err, c.want)
		}
	}
}

// A bucket lasts as long as what goes beyond its rate takes to empty it.
func TestDraining(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		native, rate, bucket float64 // bytes per second, bytes
		want                 time.Duration
	}{
		"quickly":             {2e9, 62.5e6, 50e6, 51612903 * time.Nanosecond},
		"slowly":              {0.1e9, 50e6, 50e6, 2 * time.Second},
		"never":               {50e6, 62.5e6, 50e6, 0},
		"too slowly":          {63e6, 62.5e6, 500e6, time.Minute},
		"nobody knows native": {0, 62.5e6, 93.75e6, time.Second},
	} {
		l := &lab{result: &Result{
			Made:  Made{ShapeBytesPerS: c.rate, BucketBytes: c.bucket},
			Paths: &probe.Result{Tests: []probe.TestResult{{Test: probe.TCPBandwidth, BytesPerS: c.native}}},
		}}
		if got := l.draining(); (got - c.want).Abs() > time.Microsecond {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A path that was given up is an error that says which and why.
func TestAResultIsWhole(t *testing.T) {
	t.Parallel()
	r := &probe.Result{Name: "native", Others: []probe.Result{{Name: "vxlan"}, {Name: "user-space", Incomplete: "given up"}}}
	if _, err := whole(r, nil); err == nil || err.Error() != "the path user-space: given up" {
		t.Errorf("%v", err)
	}
	r.Others = r.Others[:1]
	if _, err := whole(r, nil); err != nil {
		t.Error(err)
	}
}
