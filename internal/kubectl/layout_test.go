package kubectl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/terminal"
)

// examples are the policies that the scripts see too.
func examples(t testing.TB) []*v1alpha1.BalancePolicy {
	t.Helper()
	objects, err := readObjects("testdata/objects.yaml", now)
	if err != nil {
		t.Fatal(err)
	}
	policies := make([]*v1alpha1.BalancePolicy, len(objects))
	for i, o := range objects {
		policies[i] = convert(t, o)
	}
	return policies
}

func convert(t testing.TB, o *unstructured.Unstructured) *v1alpha1.BalancePolicy {
	t.Helper()
	var p v1alpha1.BalancePolicy
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &p); err != nil {
		t.Fatal(err)
	}
	return &p
}

// everything is all that the plugin can show of the policies.
func everything(policies []*v1alpha1.BalancePolicy, width int, color bool) string {
	var text bytes.Buffer
	p := &printer{terminal.New(&text, terminal.Options{Width: width, Color: color})}
	var views []policyView
	var diffs diffView
	for _, policy := range policies {
		views = append(views, newPolicyView(policy, now))
		diffs.Policies = append(diffs.Policies, diffOf(policy, now))
	}
	diffs.sum()
	p.status(&statusView{summary(views, now), views}, "", now)
	for _, policy := range policies {
		fmt.Fprintln(p)
		detail := newDetailView(policy, now)
		p.detail(&detail)
		for _, e := range policy.Status.Endpoints {
			fmt.Fprintln(p)
			p.why(&whyView{Pod: e.Pod, Listed: true, Policies: reasonsOf(policy, e.Pod, now)})
			break
		}
	}
	fmt.Fprintln(p)
	p.diff(&diffs, mostChanges, now)
	p.Flush()
	return text.String()
}

func TestWidths(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		golden string
		width  int
		color  bool
	}{{"wide", 0, false}, {"terminal", 100, true}, {"narrow", 60, false}, {"phone", 40, false}} {
		t.Run(tt.golden, func(t *testing.T) {
			t.Parallel()
			got := everything(examples(t), tt.width, tt.color)
			compareGolden(t, tt.golden, got)
		})
	}
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	golden := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

// The JSON is a contract: a field may be added here, none may go or change.
func TestJSON(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	all := examples(t)
	var diffs diffView
	for _, p := range all[:2] {
		diffs.Policies = append(diffs.Policies, diffOf(p, now))
	}
	diffs.sum()
	stale := newDetailView(all[0], now)
	for _, view := range []any{
		statusView{summary([]policyView{stale.policyView}, now), []policyView{stale.policyView}}, stale,
		whyView{Namespace: "demo", Pod: "fib-6c9f7d9b5d-wq7pl", Listed: true, Policies: reasonsOf(all[0], "fib-6c9f7d9b5d-wq7pl", now), Explanation: []string{}},
		diffs,
	} {
		if err := printJSON(&got, view); err != nil {
			t.Fatal(err)
		}
	}
	compareGolden(t, "json", got.String())
}

// No line is longer than the terminal, but commands, which are to be copied, and
// words that are longer themselves.
func TestWidthHolds(t *testing.T) {
	t.Parallel()
	for _, width := range []int{50, 60, 80, 120} {
		for line := range strings.Lines(everything(examples(t), width, false)) {
			line = strings.TrimRight(line, "\n")
			if utf8.RuneCountInString(line) > width && !strings.HasPrefix(line, "  kubectl ") {
				t.Errorf("%d columns in a terminal of %d: %q", utf8.RuneCountInString(line), width, line)
			}
		}
	}
}

// Whatever an object says, the output moves no cursor, and its JSON is JSON.
func FuzzOutput(f *testing.F) {
	f.Add("fib", "Stale", "no\x1b[2Jsample\r\n\tyounger", "0.5", int64(20), int64(-3), 40)
	f.Add("", "", "", "NaN", int64(0), int64(0), 0)
	f.Fuzz(func(t *testing.T, name, reason, message, share string, weight, proposed int64, width int) {
		p := policy(v1alpha1.Enforce, condition(v1alpha1.ConditionHeld, "True", reason, time.Hour))
		p.Name, p.Status.EndpointCount = name, int32(proposed)
		p.Status.Conditions[1].Message = message
		p.Status.Endpoints = []v1alpha1.EndpointStatus{
			{Pod: name, Reason: reason, Message: message, Share: share, Utilization: share, Weight: weight, ProposedWeight: proposed},
			{Pod: name + message, ProposedWeight: weight},
		}
		text := everything([]*v1alpha1.BalancePolicy{p}, width%200, false)
		for _, r := range text {
			if r < ' ' && r != '\n' || r == 0x7f || r >= 0x80 && r < 0xa0 {
				t.Fatalf("%q has the control character %q", text, r)
			}
		}
		for _, view := range []any{newDetailView(p, now), diffOf(p, now), reasonsOf(p, name, now)} {
			if _, err := json.Marshal(view); err != nil {
				t.Fatal(err)
			}
		}
	})
}
