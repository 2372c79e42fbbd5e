package html_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/report/html"
	"taper.dev/taper/internal/uplot"
)

// realistic is three arms of 15 endpoints.
func realistic(t testing.TB) *report.Experiment { return read[report.Experiment](t, "experiment") }

// read is a result of the lab or the simulator, thinned out.
func read[T any](t testing.TB, name string) *T {
	t.Helper()
	data, err := os.ReadFile("../testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var result T
	if err := json.Unmarshal(data, &result); err != nil {
		t.Fatal(err)
	}
	return &result
}

func draw(t testing.TB, e *report.Experiment) string {
	t.Helper()
	var out bytes.Buffer
	if err := html.Experiment(&out, e); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

var (
	script = regexp.MustCompile(`(?s)<script>(.*?)</script>`)
	style  = regexp.MustCompile(`(?s)<style>(.*?)</style>`)
	data   = regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`)
)

func TestPolicyNamesWhatIsInThePage(t *testing.T) {
	page := draw(t, realistic(t))
	policy := regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(page)
	if policy == nil || !strings.HasPrefix(policy[1], "default-src &#39;none&#39;;") {
		t.Fatalf("the policy %q does not forbid everything", policy)
	}
	inline := append(script.FindAllStringSubmatch(page, -1), style.FindAllStringSubmatch(page, -1)...)
	if len(inline) != 4 {
		t.Fatalf("%d scripts and styles, want the library, what all pages draw with, ours and the styles", len(inline))
	}
	allowed := strings.NewReplacer("&#43;", "+", "&#39;", "'").Replace(policy[1])
	for _, match := range inline {
		sum := sha256.Sum256([]byte(match[1]))
		if hash := base64.StdEncoding.EncodeToString(sum[:]); !strings.Contains(allowed, hash) {
			t.Errorf("the policy lacks sha256-%s of %.60q…", hash, match[1])
		}
	}
	if unsafe := regexp.MustCompile(`unsafe|https?:`).FindString(policy[1]); unsafe != "" {
		t.Errorf("the policy allows %s", unsafe)
	}
}

func TestPageRefersToNothingOutside(t *testing.T) {
	page := draw(t, realistic(t))
	markup := style.ReplaceAllString(script.ReplaceAllString(page, ""), "")
	for _, attribute := range []string{` src=`, ` href=`, `url(`, `@import`, `style="`, `onclick`} {
		if strings.Contains(markup, attribute) {
			t.Errorf("the page has %s", attribute)
		}
	}
	for _, match := range style.FindAllString(page, -1) {
		if strings.Contains(match, "url(") || strings.Contains(match, "@import") {
			t.Error("a style refers to something outside")
		}
	}
}

func TestPageCarriesTheLicenceOfItsLibrary(t *testing.T) {
	if firstLine, _, _ := strings.Cut(uplot.Licence, "\n"); !strings.Contains(draw(t, realistic(t)), strings.TrimSpace(firstLine)) {
		t.Errorf("the page lacks %q", firstLine)
	}
}

const hostile = `</script><script>alert("x")</script><img src=x onerror=alert(1)>` + "\u2028'`${1}" + `<!--`

func vandalise(e *report.Experiment) {
	e.Scenario, e.Settings.Store, e.Settings.ProxyVersion, e.Settings.EndpointKind = hostile, hostile, hostile, hostile
	for i := range e.Arms {
		arm := &e.Arms[i]
		arm.Name += hostile
		for j := range arm.Endpoints {
			endpoint := &arm.Endpoints[j]
			endpoint.Address += hostile
			endpoint.Demand += hostile
			endpoint.Why += hostile
		}
		for j := range arm.Weights {
			arm.Weights[j].Held = hostile
		}
	}
	e.Disturbance.Address = hostile
}

func TestHostileNamesStayText(t *testing.T) {
	e := realistic(t)
	vandalise(e)
	page := draw(t, e)
	if n := len(script.FindAllString(page, -1)); n != 3 {
		t.Errorf("%d scripts, want 3: uPlot, drawing and the page's own", n)
	}
	if strings.Contains(page, "<img") {
		t.Error("a name became markup")
	}
	var embedded struct {
		Arms []struct {
			Name string `json:"name"`
		} `json:"arms"`
	}
	if err := json.Unmarshal([]byte(data.FindStringSubmatch(page)[1]), &embedded); err != nil {
		t.Fatalf("reading the data in the page: %v", err)
	}
	if got := embedded.Arms[1].Name; got != e.Arms[1].Name {
		t.Errorf("the name in the data is %q, want %q", got, e.Arms[1].Name)
	}
}

func TestOddNumbersAreMissing(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1} {
		for _, e := range []*report.Experiment{realistic(t), simulation(t)} {
			poison(reflect.ValueOf(e), v)
			e.Ratios["least-latency/least-request"] = report.Ratio{P50: v, P99: v, CPU: v}
			checkNoOddNumber(t, draw(t, e), v)
		}
		s := read[report.Sweep](t, "sweep")
		poison(reflect.ValueOf(s.Arms), v)
		checkNoOddNumber(t, drawSweep(t, s), v)
	}
}

// checkNoOddNumber looks for a number where there should be none.
func checkNoOddNumber(t *testing.T, page string, v float64) {
	t.Helper()
	if embedded := data.FindStringSubmatch(page)[1]; !json.Valid([]byte(embedded)) {
		t.Errorf("with %v the data is no JSON: %.300s", v, embedded)
	}
	for _, cell := range regexp.MustCompile(`<(td|dd|h1|li|code)[ >][^<]*`).FindAllString(page, -1) {
		if strings.Contains(cell, "NaN") || strings.Contains(cell, "Inf") || strings.Contains(cell, "-1") && !strings.Contains(cell, "share of") {
			t.Errorf("%v came through: %s", v, cell)
		}
	}
}

// poison sets every floating-point number to v.
func poison(node reflect.Value, v float64) {
	switch node.Kind() {
	case reflect.Pointer:
		if !node.IsNil() {
			poison(node.Elem(), v)
		}
	case reflect.Struct:
		for i := range node.NumField() {
			poison(node.Field(i), v)
		}
	case reflect.Slice:
		for i := range node.Len() {
			poison(node.Index(i), v)
		}
	case reflect.Float64:
		node.SetFloat(v)
	}
}

func FuzzExperiment(f *testing.F) {
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"arms": [{}, {"weights": [{}], "endpoints": [{}]}]}`))
	f.Add([]byte(`{"simulation": {}, "arms": [{"series": [{}, {}]}, {"kinds": [{}], "weights": [{"kind_shares": [1, 2]}]}, {}, {}, {}]}`))
	f.Add([]byte(`{"arms": [{"name": "</script>", "requests": 1, "errors": 9, "endpoints": [{}]}], "disturbance": {}}`))
	f.Fuzz(func(t *testing.T, input []byte) {
		var e report.Experiment
		if json.Unmarshal(input, &e) != nil {
			t.Skip()
		}
		page := draw(t, &e)
		if n := len(script.FindAllString(page, -1)); n != 3 {
			t.Errorf("%d scripts, want 3: uPlot, drawing and the page's own", n)
		}
		if !json.Valid([]byte(data.FindStringSubmatch(page)[1])) {
			t.Error("the data is no JSON")
		}
	})
}

func TestExperimentReportsWriteErrors(t *testing.T) {
	full := errors.New("disk full")
	if err := html.Experiment(failing{full}, realistic(t)); !errors.Is(err, full) {
		t.Errorf("error %v, want %v", err, full)
	}
}

type failing struct{ err error }

func (w failing) Write([]byte) (int, error) { return 0, w.err }
