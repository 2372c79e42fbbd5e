package measure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
)

// simulated is a path whose figures are known. A trial takes no time.
type simulated struct {
	random *rand.Rand
	// bandwidth is in bytes per second, latency a round trip; each trial's differs from it
	// by a share of noise.
	bandwidth float64
	latency   time.Duration
	noise     float64
	// before is called before each trial, with its number from 1.
	before func(int) error
	trials int
	seen   *[]string
	name   string
}

func (s *simulated) Run(_ context.Context, spec probe.Spec) (probe.Trial, error) {
	s.trials++
	if s.seen != nil {
		*s.seen = append(*s.seen, s.name)
	}
	t := probe.Trial{Spec: spec}
	if s.before != nil {
		if err := s.before(s.trials); err != nil {
			return t, err
		}
	}
	factor := 1 + s.noise*s.random.NormFloat64()
	near, far := &t.Near, &t.Far
	if spec.Direction == probe.In {
		near, far = far, near
	}
	near.Elapsed, far.Elapsed = spec.Duration, spec.Duration
	switch spec.Test {
	case probe.TCPBandwidth:
		far.ReceivedBytes = int64(s.bandwidth * factor * spec.Duration.Seconds())
		far.Bins = slices.Repeat([]int64{1e6}, int(spec.Duration/probe.BinWidth)+1)
		near.TCP = []probe.TCPInfo{{Busy: spec.Duration, RwndLimited: spec.Duration / 2, Segments: 1000, PMTU: 1450}}
	case probe.UDPBandwidth:
		near.Sent, far.Received = 1000, 990
		far.ReceivedBytes = int64(s.bandwidth * factor * spec.Duration.Seconds())
	case probe.PathMTU:
		t.PathMTU = &probe.PathMTUFound{Out: 1400, In: 1400, Believed: 1450}
	default:
		t.RTT = probe.NewDistribution()
		for range 1000 {
			t.RTT.Record(time.Duration(float64(s.latency) * factor))
		}
	}
	return t, nil
}

func path(name string, seed uint64, s simulated) Path {
	s.random, s.name = rand.New(rand.NewPCG(seed, 1)), name
	return Path{Name: name, Kind: probe.HostPath, From: "here", To: name, Prober: &s}
}

func options(paths ...Path) Options {
	return Options{
		Paths: paths, Specs: []probe.Spec{probe.Default(probe.TCPBandwidth), probe.Default(probe.TCPLatency)},
		RatePerS: DefaultRatePerS, Rounds: 12, Budget: time.Minute, Difference: 0.05, DifferenceLatency: 5 * time.Microsecond, Seed: 7,
	}
}

func mustRun(t *testing.T, o Options) *probe.Result {
	t.Helper()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestADifferenceIsTold(t *testing.T) {
	t.Parallel()
	native := simulated{bandwidth: 1e9, latency: 50 * time.Microsecond, noise: 0.01}
	slower := simulated{bandwidth: 0.9e9, latency: 62 * time.Microsecond, noise: 0.01}
	r := mustRun(t, options(path("native", 1, native), path("overlay", 2, slower), path("same", 3, native)))
	if len(r.Others) != 2 {
		t.Fatalf("%d paths are compared with the first, want 2", len(r.Others))
	}
	for i, want := range []probe.Outcome{probe.Worse, probe.CannotTell} {
		for _, test := range r.Others[i].Tests {
			if test.Verdict.Outcome != want {
				t.Errorf("%s %s is %s, want %s: %+v", r.Others[i].Name, test.Test, test.Verdict.Outcome, want, *test.Verdict)
			}
		}
	}
	bandwidth := r.Others[0].Tests[0]
	if v := bandwidth.Verdict; v.Ratio < 0.88 || v.Ratio > 0.92 || v.CI[0] > 0.9 || v.CI[1] < 0.9 {
		t.Errorf("0.9 of the bandwidth is told as %+v", *v)
	}
	if got := r.Tests[1].MedianUS; got < 49 || got > 51 {
		t.Errorf("a latency of 50 µs is told as %v", got)
	}
	if half := *r.Tests[1].QperfUS; half < 24 || half > 26 {
		t.Errorf("as qperf it is told as %v, want half", half)
	}
	if floor := r.Conditions.NoiseFloorUS; floor == nil || *floor <= 0 || *floor > 5 {
		t.Errorf("noise of 1 %% makes a floor of %v µs", floor)
	}
}

func TestPathsTakeTurnsInRandomOrder(t *testing.T) {
	t.Parallel()
	var seen []string
	s := simulated{bandwidth: 1e9, latency: time.Millisecond, noise: 0.01, seen: &seen}
	o := options(path("a", 1, s), path("b", 2, s))
	o.Specs = o.Specs[:1]
	mustRun(t, o)
	orders := map[string]int{}
	for round := 0; round+3 <= len(seen); round += 3 {
		orders[strings.Join(seen[round:round+3], "")]++
	}
	for _, order := range []string{"aab", "aba", "baa"} {
		if orders[order] == 0 {
			t.Errorf("in %d rounds there is none in the order %s: %v", len(seen)/3, order, orders)
		}
	}
	if len(orders) != 3 {
		t.Errorf("a round is not a, a again, and b: %v", orders)
	}
}

func TestAPathThatFailsIsGivenUpAndKept(t *testing.T) {
	t.Parallel()
	s := simulated{bandwidth: 1e9, latency: time.Millisecond, noise: 0.001}
	dying := s
	dying.before = func(trial int) error {
		if trial > 10 {
			return errors.New("the peer is gone")
		}
		return nil
	}
	dead := path("dead", 2, dying)
	r := mustRun(t, options(path("alive", 1, s), dead))
	other := r.Others[0]
	if !strings.Contains(other.Incomplete, "given up after 3 failures in a row: the peer is gone") {
		t.Errorf("the reason given is %q", other.Incomplete)
	}
	if n := dead.Prober.(*simulated).trials; n != 13 {
		t.Errorf("it was asked %d times, want 3 after the last that came back", n)
	}
	if b := other.Tests[0]; len(b.Trials) != 4 || b.Incomplete == 0 || b.Why != "the peer is gone" {
		t.Errorf("of its trials %d are kept, %d are incomplete (%q)", len(b.Trials), b.Incomplete, b.Why)
	}
	if r.Incomplete != "" || len(r.Tests[0].Trials) < 12 {
		t.Errorf("the other path suffered: %q, %d trials", r.Incomplete, len(r.Tests[0].Trials))
	}
}

func TestWhenNothingCanBeMeasuredTheErrorSaysWhy(t *testing.T) {
	t.Parallel()
	fails := simulated{before: func(int) error { return errors.New("no route") }}
	_, err := Run(t.Context(), options(path("a", 1, fails)))
	if err == nil || !strings.Contains(err.Error(), "a: given up after 3 failures in a row: no route") {
		t.Errorf("the error is %v", err)
	}
}

func TestAnInterruptKeepsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	s := simulated{bandwidth: 1e9, latency: time.Millisecond, noise: 0.001, before: func(trial int) error {
		if trial == 11 {
			interrupt()
		}
		return nil
	}}
	r, err := Run(ctx, options(path("a", 1, s)))
	if err != nil {
		t.Fatal(err)
	}
	if r.Incomplete != "interrupted" || len(r.Tests[0].Trials) != 4 {
		t.Errorf("%d trials are kept, marked %q", len(r.Tests[0].Trials), r.Incomplete)
	}
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(interrupted, options(path("a", 1, s))); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted before the first trial, the error is %v", err)
	}
}

// An agent was waited for already when it says that it is busy.
func TestABusyAgentIsAskedOnce(t *testing.T) {
	t.Parallel()
	asked := 0
	_, err := Run(t.Context(), options(Path{Name: "a", Prober: proberFunc(func(context.Context, probe.Spec) (probe.Trial, error) {
		asked++
		return probe.Trial{}, fmt.Errorf("%w: tcp_bw of 10.0.0.9", probe.ErrBusy)
	})}))
	if asked != 1 || err == nil || err.Error() != "a: the agent is at another trial: tcp_bw of 10.0.0.9" {
		t.Errorf("asked %d times: %v", asked, err)
	}
}

// It may have taken minutes.
func TestAnInterruptKeepsTheLookForShaping(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	o := options(Path{Name: "a", Prober: proberFunc(func(_ context.Context, s probe.Spec) (probe.Trial, error) {
		interrupt()
		far := probe.Side{Elapsed: time.Second, ReceivedBytes: 1e9, Bins: slices.Repeat([]int64{1e8}, 10)}
		return probe.Trial{Spec: s, Far: far, Incomplete: "interrupted"}, nil
	})})
	o.Sustain = time.Minute
	r, err := Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Conditions.ShapingBytes != 1e9 || r.Incomplete != "interrupted" {
		t.Errorf("%d bytes were looked at, marked %q", r.Conditions.ShapingBytes, r.Incomplete)
	}
}

// A firewall that drops UDP lets TCP through.
func TestOneTransportIsGivenUpAlone(t *testing.T) {
	t.Parallel()
	s := simulated{random: rand.New(rand.NewPCG(1, 1)), bandwidth: 1e9, latency: time.Millisecond, noise: 0.001}
	blocked := 0
	o := options(Path{Name: "a", Prober: proberFunc(func(ctx context.Context, spec probe.Spec) (probe.Trial, error) {
		if spec.Test.Datagrams() {
			blocked++
			return probe.Trial{}, errors.New("no datagram came back")
		}
		return s.Run(ctx, spec)
	})})
	o.Specs = append(o.Specs, probe.Default(probe.UDPBandwidth), probe.Default(probe.UDPLatency))
	r := mustRun(t, o)
	if r.Incomplete != "" || len(r.Tests[0].Trials) < 12 || blocked != giveUpAfter {
		t.Errorf("TCP has %d trials, UDP was tried %d times: %q", len(r.Tests[0].Trials), blocked, r.Incomplete)
	}
	if notes := strings.Join(r.Conditions.Notes, " "); !strings.Contains(notes, "Tests over UDP were given up after 3 failures in a row: no datagram came back.") {
		t.Errorf("notes: %s", notes)
	}
}

func TestEachTestHasItsFigures(t *testing.T) {
	t.Parallel()
	o := options(path("a", 1, simulated{bandwidth: 2e8, latency: time.Millisecond, noise: 0.001}))
	o.Specs = nil
	for _, test := range probe.Tests {
		if test != probe.Responsiveness { // a trial of it takes three distributions
			o.Specs = append(o.Specs, probe.Default(test))
		}
	}
	o.Tools = []probe.Tool{probe.Qperf, probe.Iperf3}
	r := mustRun(t, o)
	has := map[probe.Test]probe.TestResult{}
	for _, test := range r.Tests {
		has[test.Test] = test
	}
	tcp := has[probe.TCPBandwidth]
	if tcp.BytesPerS < 1.9e8 || tcp.QperfBytesPerS == nil || tcp.Iperf3BytesPerS == nil || tcp.NetperfBytesPerS != nil {
		t.Errorf("bandwidth and tools: %+v", tcp)
	}
	if len(tcp.Bins) != 10*len(tcp.Trials) {
		t.Errorf("%d trials of 1 s have %d whole bins, want 10 each", len(tcp.Trials), len(tcp.Bins))
	}
	if tcp.Limits == nil || tcp.Limits.Receiver != 0.5 || !strings.Contains(tcp.Limits.Reason, "the receiver's window was full 50 %") {
		t.Errorf("why it is slow: %+v", tcp.Limits)
	}
	if udp := has[probe.UDPBandwidth]; udp.LostShare == nil || *udp.LostShare < 0.0099 || *udp.LostShare > 0.0101 {
		t.Errorf("10 of 1,000 datagrams lost is told as %v", udp.LostShare)
	}
	if lat := has[probe.TCPLatency]; lat.RTT == nil || lat.RTT.P99 == nil || len(lat.Curve) == 0 {
		t.Errorf("latency: %+v", lat)
	}
	if found := has[probe.PathMTU]; found.PathMTU == nil || len(found.Trials) != 1 {
		t.Errorf("the path MTU: %+v", found)
	}
	if r.Conditions.MTU != 1400 {
		t.Errorf("the MTU is %d, want the one that was found", r.Conditions.MTU)
	}
}

// A bucket of 50 MB of frames, filled at 62.5 MB/s: 500 Mbit/s.
func TestABucketIsToldInFrames(t *testing.T) {
	t.Parallel()
	const frames = 1514.0 / 1448
	bucket := 50e6
	shaped := Path{Name: "shaped", Prober: proberFunc(func(_ context.Context, s probe.Spec) (probe.Trial, error) {
		trial := probe.Trial{Spec: s, Near: probe.Side{Elapsed: s.Duration, TCP: []probe.TCPInfo{{Busy: s.Duration, PMTU: 1500, MSS: 1448}}}}
		trial.Far.Elapsed = s.Duration
		for range s.Duration / probe.BinWidth {
			burst := min(bucket, 200e6*probe.BinWidth.Seconds())
			bucket -= burst
			bin := int64((62.5e6*probe.BinWidth.Seconds() + burst) / frames)
			trial.Far.Bins = append(trial.Far.Bins, bin)
			trial.Far.ReceivedBytes += bin
		}
		return trial, nil
	})}
	o := options(shaped)
	o.Specs, o.Sustain = o.Specs[:1], 4*time.Second
	r := mustRun(t, o)
	s := r.Conditions.Shaping
	if !r.Conditions.Shaped || s == nil {
		t.Fatalf("no bucket was seen within %d bytes", r.Conditions.ShapingBytes)
	}
	if s.BucketBytes < 45e6 || s.BucketBytes > 55e6 || s.SustainedBytesPerS < 61e6 || s.SustainedBytesPerS > 64e6 || s.Direction != probe.Out {
		t.Errorf("50 MB, then 62.5 MB/s, is told as %+v", *s)
	}
	steady := mustRun(t, o)
	if steady.Conditions.Shaped || steady.Conditions.ShapingBytes == 0 {
		t.Errorf("with the bucket empty there is nothing to see: %+v", steady.Conditions)
	}
}

type proberFunc func(context.Context, probe.Spec) (probe.Trial, error)

func (f proberFunc) Run(ctx context.Context, s probe.Spec) (probe.Trial, error) { return f(ctx, s) }

func TestOptionsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := simulated{}
	for _, test := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.Paths = nil }, "there is no path"},
		{func(o *Options) { o.Paths = append(o.Paths, o.Paths[0]) }, `two paths are called "a"`},
		{func(o *Options) { o.Specs = nil }, "there is nothing to measure"},
		{func(o *Options) { o.Specs[0].Streams = 0 }, "0 streams"},
		{func(o *Options) { o.Rounds = 0 }, "0 rounds"},
		{func(o *Options) { o.Budget = 0 }, "a budget of 0s"},
		{func(o *Options) { o.Sustain = -1 }, "looking for shaping for -1ns"},
		{func(o *Options) { o.RatePerS = 0 }, "0 messages per second"},
		{func(o *Options) { o.Difference = 1 }, "a difference of 1"},
		{func(o *Options) { o.DifferenceLatency = 0 }, "a difference of 0s"},
	} {
		o := options(path("a", 1, s))
		test.change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q in it", err, test.want)
		}
	}
}

func ExampleRun() {
	o := options(path("native", 1, simulated{bandwidth: 1e9, latency: 50 * time.Microsecond, noise: 0.01}),
		path("overlay", 2, simulated{bandwidth: 5e8, latency: 90 * time.Microsecond, noise: 0.01}))
	r, err := Run(context.Background(), o)
	if err != nil {
		panic(err)
	}
	for _, test := range r.Others[0].Tests {
		fmt.Println(r.Others[0].Name, test.Test, test.Verdict.Outcome)
	}
	// Output:
	// overlay tcp_bw worse
	// overlay tcp_lat worse
}
