package text_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/explain"
	"taper.dev/taper/internal/explain/text"
	"taper.dev/taper/internal/goldentest"
	"taper.dev/taper/internal/terminal"
	"taper.dev/taper/internal/trap"
)

var update = flag.Bool("update", false, "write the golden files anew")

func read(t testing.TB, name string, into any) {
	t.Helper()
	data, err := os.ReadFile("../testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

func article(t testing.TB) *explain.Explanation {
	t.Helper()
	var e explain.Explanation
	read(t, "article", &e)
	return &e
}

func difference(t testing.TB) *explain.Difference {
	t.Helper()
	var d explain.Difference
	read(t, "difference", &d)
	return &d
}

func draw(t testing.TB, v any, opts terminal.Options) string {
	t.Helper()
	var out bytes.Buffer
	if err := write(&out, v, opts); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func write(w io.Writer, v any, opts terminal.Options) error {
	if d, ok := v.(*explain.Difference); ok {
		return text.Difference(w, d, opts)
	}
	return text.Explanation(w, v.(*explain.Explanation), opts)
}

// refused is a capture in which calls cannot be told apart.
func refused(t *testing.T) *explain.Explanation {
	e := article(t)
	e.Refusals = []string{"no claim about single requests: 31 were open at once on average, and calls can be told apart up to 20"}
	for i := range e.Requests {
		e.Requests[i].Link = attribution.Ambiguous
	}
	return e
}

// doubtful has a likely call, a failed one, background, and a low finding.
func doubtful(t *testing.T) *explain.Explanation {
	e := article(t)
	r := &e.Requests[20]
	r.Link, r.Calls[1].Link, r.Calls[1].Probability, r.Calls[2].Failed = attribution.Likely, attribution.Likely, .95, true
	r.CallsOmitted = 4
	e.Recognised = "the capture has no directions: 10.0.0.7 was taken for the service"
	e.Capture.Files = append(e.Capture.Files, explain.File{Name: "second.pcap", FirstPacket: 805, Packets: 10})
	e.Findings = append(e.Findings, explain.Finding{ID: "cpu-throttling", Severity: trap.Low, Title: "Odd gaps", Fix: "Raise the limit.", Confirmed: "nr_throttled is 40 of 100 periods"})
	for _, peer := range []string{"a", "b", "c", "d", "e"} {
		e.Background = append(e.Background, explain.Background{Cause: attribution.Call, Peer: peer, Op: "GET /health", Count: 1200, TotalMS: 34})
	}
	return e
}

func empty(*testing.T) *explain.Explanation { return &explain.Explanation{} }

func TestGolden(t *testing.T) {
	t.Parallel()
	tests := []struct {
		golden string
		v      any
		opts   terminal.Options
	}{
		{"article", article(t), terminal.Options{Width: 80}},
		{"wide", article(t), terminal.Options{Width: 140}},
		{"narrow", article(t), terminal.Options{Width: 50}},
		{"unlimited", article(t), terminal.Options{}},
		{"color", doubtful(t), terminal.Options{Width: 100, Color: true}},
		{"doubtful", doubtful(t), terminal.Options{Width: 100}},
		{"refused", refused(t), terminal.Options{Width: 80}},
		{"empty", empty(t), terminal.Options{Width: 80}},
		{"difference", difference(t), terminal.Options{Width: 80}},
		{"difference-color", difference(t), terminal.Options{Width: 100, Color: true}},
		{"difference-empty", &explain.Difference{A: "a", B: "b"}, terminal.Options{Width: 80}},
	}
	for _, test := range tests {
		t.Run(test.golden, func(t *testing.T) {
			got := draw(t, test.v, test.opts)
			goldentest.Holds(t, filepath.Join("testdata", test.golden+".golden"), got, *update)
		})
	}
}

func TestFitsTheWidth(t *testing.T) {
	t.Parallel()
	for _, width := range []int{70, 80, 100, 132} {
		for _, v := range []any{article(t), doubtful(t), difference(t)} {
			for line := range strings.SplitSeq(draw(t, v, terminal.Options{Width: width}), "\n") {
				if n := utf8.RuneCountInString(line); n > width && !strings.Contains(line, "https://") {
					t.Errorf("%d columns for a width of %d: %s", n, width, line)
				}
			}
		}
	}
}

func TestColorsMoveNothing(t *testing.T) {
	t.Parallel()
	escape := regexp.MustCompile("\x1b\\[[0-9]*m")
	for _, v := range []any{doubtful(t), difference(t)} {
		plain, colored := draw(t, v, terminal.Options{Width: 100}), draw(t, v, terminal.Options{Width: 100, Color: true})
		if strings.Contains(plain, "\x1b") {
			t.Error("there are colours without Color")
		}
		if diff := cmp.Diff(plain, escape.ReplaceAllString(colored, "")); diff != "" {
			t.Errorf("without its colours the text differs (-plain +colored):\n%s", diff)
		}
	}
}

// Calls on one connection have one colour, those on another have another.
func TestStreamsAreColored(t *testing.T) {
	t.Parallel()
	colored := draw(t, article(t), terminal.Options{Width: 200, Color: true})
	color := func(call string) string {
		m := regexp.MustCompile("\x1b\\[([0-9]+)m" + call).FindStringSubmatch(colored)
		if m == nil {
			t.Fatalf("no colour of %s in\n%s", call, colored)
		}
		return m[1]
	}
	first, second, search := color("metadata /latest/meta-data/iam/security-credentials/ "), color("metadata /latest/meta-data/iam/security-credentials/shop"), color("elasticsearch.internal:9200 POST")
	if first != second || first == search {
		t.Errorf("colours %s and %s of one connection, %s of another", first, second, search)
	}
}

// A bar is where its call was.
func TestBarsAreInPlace(t *testing.T) {
	t.Parallel()
	e := &explain.Explanation{
		Routes: []explain.Route{{Method: "GET", Route: "/", Count: 1, MeanMS: 100, Parts: []explain.RoutePart{{Cause: attribution.Call, Peer: "p", MeanMS: 100, Share: 1, Calls: 1}}}},
		Requests: []explain.Request{{Method: "GET", Route: "/", Target: "/", DurationMS: 100, Link: attribution.Certain, Calls: []explain.Call{
			{Cause: attribution.Call, Peer: "quarter", Stream: 1, StartMS: 25, DurationMS: 25, Link: attribution.Certain},
			{Cause: attribution.Call, Peer: "all", Stream: 2, StartMS: -5, DurationMS: 300, Link: attribution.Certain},
			{Cause: attribution.Call, Peer: "instant", Stream: 3, StartMS: 100, DurationMS: 0, Link: attribution.Certain},
			{Cause: attribution.Call, Peer: "half a cell", Stream: 4, StartMS: 50, DurationMS: 1.25, Link: attribution.Certain},
		}}},
	}
	got := map[string]string{}
	for line := range strings.SplitSeq(draw(t, e, terminal.Options{Width: 98}), "\n") {
		runes := []rune(line)
		if i := slices.IndexFunc(runes, func(r rune) bool { return strings.ContainsRune("▏▎▍▌▋▊▉█▐▕", r) }); i >= 0 {
			name := strings.TrimSpace(string(runes[:47]))
			got[name] = strings.TrimRight(string(runes[49:89]), " ")
		}
	}
	want := map[string]string{
		"quarter": strings.Repeat(" ", 10) + strings.Repeat("█", 10), "all": strings.Repeat("█", 40),
		"instant": strings.Repeat(" ", 39) + "▕", "half a cell": strings.Repeat(" ", 20) + "▌",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bars (-want +got):\n%s\n%s", diff, draw(t, e, terminal.Options{Width: 100}))
	}
}

func TestNamesCannotDriveTheTerminal(t *testing.T) {
	t.Parallel()
	const evil = "evil\x1b[2J\a\r\n\u202e"
	e := article(t)
	e.Capture.Damage = []string{evil}
	e.Refusals = []string{evil}
	e.Routes[0].Route, e.Routes[0].Parts[0].Peer, e.Routes[0].Parts[0].Target, e.Routes[0].Parts[0].Provider = evil, evil, evil, ""
	e.Background = []explain.Background{{Cause: "call", Peer: evil, Op: evil}}
	for i := range e.Findings {
		f := &e.Findings[i]
		f.ID, f.Title, f.Fix, f.Reference, f.Confirmed = evil, evil, evil, evil, evil
	}
	for i := range e.Requests {
		r := &e.Requests[i]
		r.Target, r.Client, r.Method = evil, evil, evil
		for j := range r.Calls {
			r.Calls[j].Peer, r.Calls[j].Target, r.Calls[j].Op = evil, evil, evil
		}
	}
	d := difference(t)
	d.A, d.Routes[0].Route, d.Routes[0].Causes[0].Peer = evil, evil, evil
	for _, v := range []any{e, d} {
		if got := draw(t, v, terminal.Options{Width: 80}); strings.ContainsAny(got, "\x1b\a\r\u202e") {
			t.Errorf("control characters came through:\n%q", got)
		}
	}
}

func TestLongListsAreCut(t *testing.T) {
	t.Parallel()
	e := article(t)
	for range 500 {
		e.Routes = append(e.Routes, e.Routes[2])
	}
	r := &e.Requests[20]
	for range 200 {
		r.Calls = append(r.Calls, r.Calls[0])
	}
	got := draw(t, e, terminal.Options{Width: 80})
	for _, want := range []string{"… and 483 routes more", "lines more"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
	if lines := strings.Count(got, "\n"); lines > 120 {
		t.Errorf("%d lines", lines)
	}
}

func FuzzExplanation(f *testing.F) {
	for _, name := range []string{"article", "cured"} {
		var e explain.Explanation
		read(f, name, &e)
		e.Requests = e.Requests[:2]
		data, err := json.Marshal(&e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, 80)
	}
	f.Add([]byte(`{"routes": [{}], "requests": [{}, {"calls": [{"start_ms": -1e300, "duration_ms": 1e300}], "slices": [{"ms": -5}], "duration_ms": 1}]}`), 1)
	f.Add([]byte(`{"routes": [{"parts": [{"share": -3}]}], "findings": [{}], "refusals": [""]}`), -1)
	f.Fuzz(func(t *testing.T, data []byte, width int) {
		var e explain.Explanation
		if json.Unmarshal(data, &e) != nil {
			t.Skip()
		}
		if got := draw(t, &e, terminal.Options{Width: width}); !utf8.ValidString(got) {
			t.Errorf("not UTF-8: %q", got)
		}
	})
}

func TestWriteErrorsAreReported(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	for _, v := range []any{article(t), difference(t), empty(t)} {
		if err := write(failing{full}, v, terminal.Options{}); !errors.Is(err, full) {
			t.Errorf("error %v, want %v", err, full)
		}
	}
}

type failing struct{ err error }

func (w failing) Write([]byte) (int, error) { return 0, w.err }
