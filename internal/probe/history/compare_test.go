package history_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/history"
)

var goal = history.Goal{Share: .05, Latency: 5 * time.Microsecond}

// run is a run of which all figures are around these, with 1 % of noise.
func run(seed uint64, name string, bytesPerS, us float64) *probe.Result {
	random := rand.New(rand.NewPCG(seed, 1))
	trials := func(v float64) []float64 {
		var all []float64
		for range 20 {
			all = append(all, v*(1+.01*random.NormFloat64()))
		}
		return all
	}
	return &probe.Result{From: "web-1", To: "10.0.0.2:4000", Name: name, Path: probe.HostPath, Tests: []probe.TestResult{
		{Test: probe.TCPBandwidth, Direction: probe.Out, MessageBytes: 128 << 10, Streams: 1, Trials: trials(bytesPerS)},
		{Test: probe.TCPLatency, Direction: probe.Out, MessageBytes: 1, Streams: 1, Trials: trials(us)},
	}}
}

func compare(t *testing.T, old, new history.Entry) *probe.Comparison {
	t.Helper()
	c, err := history.Compare("old", old, "new", new, goal)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRunsAreCompared(t *testing.T) {
	t.Parallel()
	old := history.Entry{Version: 1, Result: run(1, "host", 1e9, 50)}
	old.Result.Others = []probe.Result{*run(2, "pod", 8e8, 70)}
	new := history.Entry{Version: 1, Result: run(3, "host", 1e9, 50)}
	new.Result.Others = []probe.Result{*run(4, "pod", 6e8, 40)}
	c := compare(t, old, new)
	if len(c.Tests) != 4 || len(c.Notes) != 0 {
		t.Fatalf("%d tests, notes %q", len(c.Tests), c.Notes)
	}
	for i, want := range []probe.Outcome{probe.CannotTell, probe.CannotTell, probe.Worse, probe.Better} {
		got := c.Tests[i]
		if got.Verdict.Outcome != want {
			t.Errorf("%s over %s is %s, want %s: %+v", got.Test, got.Path, got.Verdict.Outcome, want, got.Verdict)
		}
		if got.OldTrials != 20 || got.NewTrials != 20 || got.Verdict.Floor <= 1 || got.Verdict.CI == nil {
			t.Errorf("%s over %s: %+v", got.Test, got.Path, got)
		}
	}
	if v := c.Tests[2].Verdict; v.Ratio < .74 || v.Ratio > .76 || v.CI[0] > .75 || v.CI[1] < .75 {
		t.Errorf("three quarters of the bandwidth are told as %+v", v)
	}
	if !c.Tests[0].Verdict.Within {
		t.Errorf("the same with 1 %% of noise leaves room for 5 %%: %+v", c.Tests[0].Verdict)
	}
}

// Of runs of the same path, few are called different, whatever the seed.
func TestTheSameIsHardlyCalledDifferent(t *testing.T) {
	t.Parallel()
	wrong := 0
	for seed := range uint64(200) {
		c := compare(t, history.Entry{Result: run(2*seed, "host", 1e9, 50)}, history.Entry{Result: run(2*seed+1, "host", 1e9, 50)})
		for _, test := range c.Tests {
			if test.Verdict.Outcome != probe.CannotTell {
				wrong++
				break
			}
		}
	}
	if wrong > 10 {
		t.Errorf("%d of 200 pairs of runs of the same are called different, want at most 5 %%", wrong)
	}
}

// What is told together with others has to be surer.
func TestManyComparisonsAreSurerEach(t *testing.T) {
	t.Parallel()
	one, two := run(1, "host", 1e9, 50), run(2, "host", 1e9, 50)
	many := func(r *probe.Result, seed uint64) *probe.Result {
		all := *r
		for i := range uint64(5) {
			all.Others = append(all.Others, *run(seed+i, fmt.Sprint("pod-", i), 1e9, 50))
		}
		return &all
	}
	alone := compare(t, history.Entry{Result: one}, history.Entry{Result: two}).Tests[0].Verdict.Floor
	together := compare(t, history.Entry{Result: many(one, 10)}, history.Entry{Result: many(two, 20)}).Tests[0].Verdict.Floor
	if together <= alone {
		t.Errorf("the floor of one of 12 comparisons is %v, of one of 2 %v", together, alone)
	}
}

func TestWhatHasNoCounterpartIsNoted(t *testing.T) {
	t.Parallel()
	old, new := run(1, "host", 1e9, 50), run(2, "host", 1e9, 50)
	old.From = "web-9"
	old.Tests[1].MessageBytes = 64
	new.Others = []probe.Result{*run(3, "pod", 1e9, 50)}
	c := compare(t, history.Entry{Result: old}, history.Entry{Result: new})
	if len(c.Tests) != 1 || c.Tests[0].Test != probe.TCPBandwidth {
		t.Errorf("compared are %+v", c.Tests)
	}
	for _, want := range []string{"different places: web-9 and web-1", "Only the old run has tcp_lat over host.", "Only the new run has tcp_lat over host, tcp_bw out over pod, tcp_lat over pod."} {
		if notes := strings.Join(c.Notes, " "); !strings.Contains(notes, want) {
			t.Errorf("the notes %q lack %q", notes, want)
		}
	}
	renamed := compare(t, history.Entry{Result: run(1, "10.0.0.2", 1e9, 50)}, history.Entry{Result: new})
	if len(renamed.Tests) != 2 || !strings.Contains(renamed.Notes[0], "called 10.0.0.2 in the old run and host in the new") {
		t.Errorf("a path with another name: %d tests, notes %q", len(renamed.Tests), renamed.Notes)
	}
}

// matrixOf has n agents, whose pairs give so much.
func matrixOf(seed uint64, n int, bytesPerS float64) *probe.Matrix {
	random := rand.New(rand.NewPCG(seed, 7))
	m := &probe.Matrix{}
	for i := range n {
		for k := range n {
			if i != k {
				m.Cells = append(m.Cells, probe.Cell{From: fmt.Sprint(i), To: fmt.Sprint(k), Path: probe.PodPath, BytesPerS: bytesPerS * (1 + .02*random.NormFloat64())})
			}
		}
	}
	return m
}

func TestMatricesAreComparedByTheirPairs(t *testing.T) {
	t.Parallel()
	old, new := matrixOf(1, 6, 1e9), matrixOf(2, 5, 8e8)
	c := compare(t, history.Entry{Matrix: old}, history.Entry{Matrix: new})
	if len(c.Tests) != 1 || c.Tests[0].Verdict.Outcome != probe.Worse || c.Tests[0].OldTrials != 20 || c.Tests[0].NewTrials != 20 {
		t.Errorf("of 20 pairs that both have: %+v", c.Tests)
	}
	same := compare(t, history.Entry{Matrix: matrixOf(3, 6, 1e9)}, history.Entry{Matrix: matrixOf(4, 6, 1e9)})
	if same.Tests[0].Verdict.Outcome != probe.CannotTell {
		t.Errorf("the same is %+v", same.Tests[0].Verdict)
	}
}

func TestWhatCannotBeCompared(t *testing.T) {
	t.Parallel()
	r, m, p := history.Entry{Result: &probe.Result{}}, history.Entry{Matrix: &probe.Matrix{}}, history.Entry{PageLoad: &probe.PageLoad{}}
	for _, test := range []struct {
		old, new history.Entry
		want     string
	}{
		{r, m, "old is a test and new is a matrix: only runs of one kind can be compared"},
		{p, p, "page loads have no trials"},
	} {
		if _, err := history.Compare("old", test.old, "new", test.new, goal); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, want %q in it", err, test.want)
		}
	}
	for _, g := range []history.Goal{{}, {Share: 1, Latency: 1}, {Share: .1}, {Latency: 1}} {
		if g.Validate() == nil {
			t.Errorf("%+v is taken for a goal", g)
		}
	}
	one := &history.File{Entries: []history.Entry{r, m, p}}
	if _, _, err := one.LastTwo(); err == nil || !strings.Contains(err.Error(), "only one run of its kind (page load)") {
		t.Errorf("the last two of different kinds: %v", err)
	}
	if _, _, err := history.SameKind(&history.File{Entries: []history.Entry{r}}, &history.File{Entries: []history.Entry{m}}); err == nil {
		t.Error("a test and a matrix are of the same kind")
	}
	if old, new, err := history.SameKind(one, &history.File{Entries: []history.Entry{m, r}}); err != nil || old.Kind() != "test" || new.Kind() != "test" {
		t.Errorf("the last of the same kind are %s and %s, %v", old.Kind(), new.Kind(), err)
	}
}
