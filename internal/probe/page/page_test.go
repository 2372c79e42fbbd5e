package page_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/page"
)

func read[T any](t testing.TB, name string) *T {
	t.Helper()
	b, err := os.ReadFile("../testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return &v
}

func write(w io.Writer, v any) error {
	switch v := v.(type) {
	case *probe.Result:
		return page.Result(w, v)
	case *probe.Matrix:
		return page.Matrix(w, v)
	case *probe.PageLoad:
		return page.PageLoad(w, v)
	case *probe.Comparison:
		return page.Comparison(w, v)
	}
	return fmt.Errorf("nothing draws a %T", v)
}

func draw(t testing.TB, v any) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := write(&out, v); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func comparison() *probe.Comparison {
	return &probe.Comparison{
		Old: probe.Run{Name: "before.json", From: "web-1", To: "web-2"}, New: probe.Run{Name: "after.json", From: "web-1", To: "web-2"},
		Tests: []probe.ComparedTest{{
			Test: probe.TCPBandwidth, Direction: probe.Out, Path: "pod", Old: 1.1e9, New: 6e8, OldTrials: 20, NewTrials: 18,
			Verdict: probe.Verdict{Outcome: probe.Worse, Ratio: .545, CI: &[2]float64{.53, .56}, Floor: 1.02, Trials: 18},
		}},
		Notes: []string{"Only the new run has udp_bw out over pod."},
	}
}

// large is a matrix of n agents in racks of ten, on two paths, with an outlier of each kind.
func large(n int) *probe.Matrix {
	m := &probe.Matrix{}
	for i := range n {
		m.Agents = append(m.Agents, probe.Agent{Name: fmt.Sprintf("agent-%03d", i), Block: fmt.Sprintf("rack-%02d", i/10)})
	}
	for i := range n * n {
		from, to := i/n, i%n
		if from == to {
			continue
		}
		for k, path := range []probe.Path{probe.HostPath, probe.PodPath} {
			c := probe.Cell{From: m.Agents[from].Name, To: m.Agents[to].Name, Path: path, BytesPerS: 1e9 + float64((i*31)%97)*1e6}
			switch {
			case to == 37 && k == 0, from == n-8 && k == 0:
				c.BytesPerS *= .4
			case from/10 == 4 && to/10 == 1:
				c.BytesPerS *= .6
			case from == 3 && to == 4:
				c.BytesPerS, c.Problem = 0, "the peer is gone"
			}
			if (from+to)%20 == 0 {
				p50 := 90.0 + float64(i%13)
				c.RTT = &probe.Latency{Count: 1000, Mean: p50, P50: &p50, Max: 900}
			}
			m.Cells = append(m.Cells, c)
		}
	}
	for _, o := range []probe.Outlier{
		{Kind: "receives", Name: "agent-037", Share: .4, Sentence: "agent-037 receives at 40 % of the median over host."},
		{Kind: "sends", Name: m.Agents[n-8].Name, Share: .4, Sentence: m.Agents[n-8].Name + " sends at 40 % of the median over host."},
		{Kind: "block", Name: "rack-04→rack-01", Share: .6, Sentence: "From rack-04 to rack-01 there is 60 % of the median over host."},
	} {
		o.Path, o.Metric = probe.HostPath, "bandwidth"
		m.Outliers = append(m.Outliers, o)
	}
	return m
}

func samples(t testing.TB) map[string]any {
	return map[string]any{
		"single": read[probe.Result](t, "single"), "compared": read[probe.Result](t, "compared"), "matrix": read[probe.Matrix](t, "matrix"),
		"large": large(60), "pageload": read[probe.PageLoad](t, "pageload"), "comparison": comparison(),
		"empty": &probe.Result{}, "empty-matrix": &probe.Matrix{}, "empty-pageload": &probe.PageLoad{}, "empty-comparison": &probe.Comparison{},
	}
}

func TestNamesAreText(t *testing.T) {
	t.Parallel()
	const evil = `<script>alert(1)</script>"'><img src=x>`
	r := read[probe.Result](t, "compared")
	r.From, r.To, r.Name, r.Incomplete, r.Conditions.Notes = evil, evil, evil, evil, []string{evil}
	r.Conditions.Far.Node, r.Others[0].Name = evil, evil
	m := read[probe.Matrix](t, "matrix")
	m.Agents[0].Name, m.Agents[1].Block, m.Agents[2].Problem, m.Outliers[0].Sentence, m.Cells[0].Problem = evil, evil, evil, evil, evil
	p := read[probe.PageLoad](t, "pageload")
	p.Targets[0].Name, p.Targets[0].URL, p.Bottleneck.Sentence = evil, evil, evil
	p.Targets[0].Steps[6].Served = map[string][]int64{evil: {1}}
	c := comparison()
	c.Old.Name, c.Tests[0].Path, c.Notes[0] = evil, evil, evil
	for _, v := range []any{r, m, p, c} {
		if html := string(draw(t, v)); strings.Contains(html, "<script>alert") || strings.Contains(html, "<img") {
			t.Errorf("%T: a name is taken for markup", v)
		}
	}
}

func TestTheHeadlineIsTheAnswer(t *testing.T) {
	t.Parallel()
	all := samples(t)
	for name, want := range map[string]string{
		"single": "15.5 µs to web-2", "compared": "pod has the same latency", "matrix": "node-7 receives at 40\u00a0%",
		"pageload": "The balancer is full", "comparison": "Worse: tcp_bw out over pod", "empty": "Nothing was measured",
		"empty-matrix": "Nothing was measured", "empty-pageload": "Nothing was measured", "empty-comparison": "Nothing can be compared",
	} {
		html := string(draw(t, all[name]))
		_, after, _ := strings.Cut(html, "<h1>")
		if h1, _, _ := strings.Cut(after, "</h1>"); !strings.Contains(h1, want) {
			t.Errorf("%s: the headline is %q, want %q in it", name, h1, want)
		}
	}
}

func TestWriteErrorsAreReported(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	for name, v := range samples(t) {
		if err := write(failing{full}, v); !errors.Is(err, full) {
			t.Errorf("%s: error %v, want %v", name, err, full)
		}
	}
}

type failing struct{ err error }

func (w failing) Write([]byte) (int, error) { return 0, w.err }
