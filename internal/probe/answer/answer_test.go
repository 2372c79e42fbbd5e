package answer

import (
	"math"
	"slices"
	"strings"
	"testing"

	"taper.dev/taper/internal/probe"
)

func TestUnits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ got, want string }{
		{Rate(1.25e9), "10.0 Gbit/s"}, {Rate(124.99e6), "1.00 Gbit/s"}, {Rate(62.5e6), "500 Mbit/s"}, {Rate(73750), "590 kbit/s"},
		{Rate(1), "8.00 bit/s"}, {Rate(0), "–"}, {Rate(-1), "–"}, {Rate(math.NaN()), "–"}, {Rate(math.Inf(1)), "–"},
		{Duration(.5), "0.50 µs"}, {Duration(92.04), "92.0 µs"}, {Duration(999.9), "1.00 ms"}, {Duration(1500), "1.50 ms"}, {Duration(2.5e6), "2.50 s"},
		{Size(52.4e6), "52.4 MB"}, {Size(209e3), "209 kB"}, {Size(12), "12 bytes"}, {Size(3e12), "3.00 TB"},
		{Value(probe.Responsiveness, 22030.4), "22,030 RPM"}, {Value(probe.PathMTU, 1450), "1,450 bytes"},
		{Value(probe.UDPLatency, 12), "12.0 µs"}, {Value(probe.UDPBandwidth, 125e6), "1.00 Gbit/s"},
		{interval(probe.TCPBandwidth, 1.2e8, &[2]float64{1.1e8, 1.3e8}), "880..1,040"}, {interval(probe.TCPLatency, 50, nil), "–"},
		{Percent(.1173), "11.7 %"}, {Percent(1.03), "103 %"}, {Percent(0), "–"},
		{message(65536), "64 KiB"}, {message(1 << 20), "1 MiB"}, {message(1400), "1400 B"}, {Price(.00754), "0.0075"},
		{cpus([]int{0, 1, 2, 5, 7, 8}), "0-2,5,7-8"}, {cpus(nil), "–"}, {change(.545), "-45.5 %"}, {change(1.031), "+3.10 %"}, {change(0), "–"},
	} {
		if test.got != test.want {
			t.Errorf("%q, want %q", test.got, test.want)
		}
	}
}

func TestVerdictsInWords(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		v    probe.Verdict
		want string
	}{
		{probe.Verdict{Outcome: probe.Worse}, "worse"},
		{probe.Verdict{Outcome: probe.CannotTell, Within: true, Trials: 9, Needed: 12}, "no difference worth telling"},
		{probe.Verdict{Outcome: probe.CannotTell, Trials: 10, Needed: 44, Floor: 1.1}, "cannot tell: 34 more rounds would be needed"},
		{probe.Verdict{Outcome: probe.CannotTell, Trials: 10, Needed: 11, Floor: 1.1}, "cannot tell: 1 more round would be needed"},
		{probe.Verdict{Outcome: probe.CannotTell, Trials: 40, Floor: 1.3}, "cannot tell: it differs from itself by as much"},
		{probe.Verdict{Outcome: probe.CannotTell, Trials: 3}, "cannot tell: too few rounds"},
		{probe.Verdict{Outcome: probe.CannotTell}, "cannot tell: there is nothing to compare"},
	} {
		if got := Verdict(&test.v); got != test.want {
			t.Errorf("%+v is %q, want %q", test.v, got, test.want)
		}
	}
}

// path is one that gives so much.
func path(name string, bytesPerS, us float64, verdicts ...*probe.Verdict) probe.Result {
	r := probe.Result{Name: name, To: "10.0.0.2:4000", Path: probe.PodPath, Tests: []probe.TestResult{
		{Test: probe.TCPBandwidth, Direction: probe.Out, BytesPerS: bytesPerS, Trials: []float64{bytesPerS}},
		{Test: probe.TCPLatency, Direction: probe.Out, MedianUS: us, Trials: []float64{us}},
	}}
	for i, v := range verdicts {
		r.Tests[i].Verdict = v
	}
	return r
}

func TestHeadlinesOfPaths(t *testing.T) {
	t.Parallel()
	worse := func(ratio float64) *probe.Verdict {
		return &probe.Verdict{Outcome: probe.Worse, Ratio: ratio, Trials: 20}
	}
	better := func(ratio float64) *probe.Verdict {
		return &probe.Verdict{Outcome: probe.Better, Ratio: ratio, Trials: 20}
	}
	same := &probe.Verdict{Outcome: probe.CannotTell, Within: true, Ratio: 1, Trials: 20}
	unknown := func(needed int) *probe.Verdict {
		return &probe.Verdict{Outcome: probe.CannotTell, Ratio: 1, Trials: 20, Needed: needed, Floor: 1.1}
	}
	for _, test := range []struct {
		other probe.Result
		want  string
	}{
		{path("pod", 1.2e8, 137, worse(.12), worse(1.5)), "pod costs 88.0 % of the bandwidth and adds 45.0 µs of latency"},
		{path("pod", 1.2e9, 80, better(1.2), better(.87)), "pod has 1.20 × the bandwidth and saves 12.0 µs of latency"},
		{path("pod", 1e9, 92, same, same), "pod has the same bandwidth and the same latency"},
		{path("pod", 1e9, 137, unknown(54), worse(1.5)), "pod adds 45.0 µs of latency, its bandwidth cannot be told apart yet (34 more rounds would be needed)"},
		{path("pod", 1e9, 92, unknown(54), unknown(90)), "pod cannot be told from host yet (70 more rounds would be needed)"},
		{path("pod", 1e9, 92), "pod cannot be compared"},
	} {
		r := path("host", 1e9, 92)
		r.Others = []probe.Result{test.other}
		want := "host: 8.00 Gbit/s and 92.0 µs to 10.0.0.2:4000, pod; " + test.want
		if got := Result(&r).Headline; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestTheFarEndIsNamedAsPeopleDo(t *testing.T) {
	t.Parallel()
	r := path("", 1e9, 92)
	for _, test := range []struct {
		far  *probe.Host
		want string
	}{
		{nil, "to 10.0.0.2:4000, pod"},
		{&probe.Host{Name: "agent-x7k2"}, "to agent-x7k2 (10.0.0.2:4000, pod)"},
		{&probe.Host{Name: "agent-x7k2", Node: "web-2"}, "to web-2 (10.0.0.2:4000, pod)"},
	} {
		r.Conditions.Far = test.far
		if got := Result(&r).Headline; !strings.HasSuffix(got, test.want) {
			t.Errorf("%q, want %q at its end", got, test.want)
		}
	}
}

func TestWhatAReaderMustKnow(t *testing.T) {
	t.Parallel()
	r := path("", 1e9, 92)
	r.Incomplete = "interrupted"
	r.Conditions.Shaped, r.Conditions.Shaping = true, &probe.Shaping{Direction: probe.Out, BucketBytes: 50e6, BurstBytesPerS: 250e6, SustainedBytesPerS: 62.5e6, AtS: 2.1}
	r.Tests[0].Incomplete, r.Tests[0].Why = 2, "the peer is gone"
	r.Tests = append(r.Tests, probe.TestResult{Test: probe.PathMTU, PathMTU: &probe.PathMTUFound{Out: 1372, In: 1450, Believed: 1450, FarBelieved: 1450, BlackHole: true}})
	back := path("", 1e9, 92)
	back.Tests = append(back.Tests, probe.TestResult{Test: probe.PathMTU, PathMTU: &probe.PathMTUFound{Out: 1500, In: 1372, Believed: 1500, FarBelieved: 1450, BlackHole: true}})
	there, other := strings.Join(Result(&r).Rest, " "), strings.Join(Result(&back).Rest, " ")
	for _, want := range []string{
		"Incomplete: interrupted.", "Shaped: a burst of 50.0 MB goes out at 2.00 Gbit/s, then 500 Mbit/s is all there is",
		"the rate fell after 2.10 s", "tcp_bw out: left out 2 trials that ended early: the peer is gone.",
		"packets of more than 1,372 bytes vanish on the way there without a word, while the kernel sends up to 1,450.",
	} {
		if !strings.Contains(there, want) {
			t.Errorf("%q is not in %q", want, there)
		}
	}
	if want := "packets of more than 1,372 bytes vanish on the way back without a word, while the kernel sends up to 1,450."; !strings.Contains(other, want) {
		t.Errorf("%q is not in %q", want, other)
	}
}

func TestUnknownIsNotFine(t *testing.T) {
	t.Parallel()
	r := path("", 1e9, 92)
	if notes := strings.Join(Notes(&r), " "); !strings.Contains(strings.ToLower(notes), "whether cpu limits stopped an end is not known") {
		t.Errorf("that nobody knows of CPU limits is not said: %q", notes)
	}
	r.Conditions.ThrottledS = new(float64)
	if notes := strings.Join(Notes(&r), " "); strings.Contains(notes, "CPU limits") {
		t.Errorf("with CPU limits known, it says %q", notes)
	}
}

func TestTestsAreToldApart(t *testing.T) {
	t.Parallel()
	r := &probe.Result{Tests: []probe.TestResult{
		{Test: probe.TCPBandwidth, Direction: probe.Out, MessageBytes: 65536, Streams: 4, BytesPerS: 1},
		{Test: probe.TCPBandwidth, Direction: probe.In, MessageBytes: 1 << 20, Streams: 4, BytesPerS: 1},
		{Test: probe.TCPLatency, Direction: probe.Out, MessageBytes: 1, Streams: 1, Mode: probe.Hot, MedianUS: 1},
		{Test: probe.Responsiveness, Direction: probe.Out, Streams: 4, RoundTripsPerMinute: 1},
	}}
	var got []string
	for _, row := range Figures(r) {
		got = append(got, row.Test)
	}
	if want := []string{"tcp_bw out 64 KiB × 4", "tcp_bw in 1 MiB × 4", "tcp_lat hot", "responsiveness"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWanting(t *testing.T) {
	t.Parallel()
	r := path("", 1e9, 92)
	if got := Wanting(&r); got != "" {
		t.Errorf("without a distribution it says %q", got)
	}
	for _, test := range []struct {
		count int64
		want  string
	}{{99, "p90 takes 100, and the smallest row has 99"}, {2800, "p99.9 takes 10,000, and the smallest row has 2,800"}, {100_000, ""}} {
		r.Tests[1].RTT = &probe.Latency{Count: test.count}
		if got := Wanting(&r); !strings.Contains(got, test.want) || test.want == "" && got != "" {
			t.Errorf("of %d samples it says %q, want %q in it", test.count, got, test.want)
		}
	}
}

func TestTheOrderOfAMatrix(t *testing.T) {
	t.Parallel()
	m := &probe.Matrix{Agents: []probe.Agent{{Name: "a", Block: "x"}, {Name: "b", Block: "y"}, {Name: "c", Block: "y"}, {Name: "d", Block: "y"}}}
	for i, from := range m.Agents {
		for k, to := range m.Agents {
			v := 100.0
			if i == 2 || k == 2 {
				v = 50
			}
			if i != k && i != 3 && k != 3 {
				p50 := 1e4 / v
				m.Cells = append(m.Cells, probe.Cell{From: from.Name, To: to.Name, Path: probe.HostPath, BytesPerS: v, RTT: &probe.Latency{Count: 1, P50: &p50}})
			}
		}
	}
	// The block of the slow one first, who was not measured last in it.
	if got := Order(m); !slices.Equal(got, []int{2, 1, 3, 0}) {
		t.Errorf("the order is %v", got)
	}
	grids := Grids(m)
	if len(grids) != 2 || grids[0].Known != 6 || grids[0].Median != 50 || grids[0].Agents[0] != "c" {
		t.Fatalf("the maps are %+v", grids)
	}
	// A latency that is twice the median is as bad as half the bandwidth.
	if got := grids[1].Share(2 * grids[1].Median); got != .5 {
		t.Errorf("twice the latency is a share of %v", got)
	}
	if got := grids[0].Share(math.NaN()); !math.IsNaN(got) {
		t.Errorf("what is unknown is a share of %v", got)
	}
}

func TestTheBottleneckIsNamedOnce(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ hop, sentence, want string }{
		{"balancer", "the balancer is full: it is flat.", "The balancer is full: it is flat"},
		{"balancer", "throughput stops growing at 4 users", "The balancer is full: throughput stops growing at 4 users"},
		{"none seen", "throughput still grew", "No bottleneck was seen: throughput still grew"},
	} {
		p := &probe.PageLoad{Bottleneck: &probe.Bottleneck{Hop: test.hop, Sentence: test.sentence}}
		if got := PageLoad(p).Headline; got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

func TestManyAgentsThatFailedAreCounted(t *testing.T) {
	t.Parallel()
	m := &probe.Matrix{Agents: slices.Repeat([]probe.Agent{{Name: "a", Problem: "gone"}}, 12)}
	rest := Matrix(m).Rest
	if len(rest) != 6 || rest[0] != "a could not be measured: gone." || rest[5] != "7 agents could not be measured either." {
		t.Errorf("it says %q", rest)
	}
}
