package contracttest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// verdict is a test that may fail without failing this one.
type verdict struct {
	testing.TB
	said []string
}

func (v *verdict) Helper() {}

func (v *verdict) Error(args ...any) { v.said = append(v.said, fmt.Sprint(args...)) }

func (v *verdict) Fatalf(format string, args ...any) {
	v.Error(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

func judge(test func(testing.TB)) []string {
	v := &verdict{}
	done := make(chan struct{})
	go func() { defer close(done); test(v) }()
	<-done
	return v.said
}

const contract = `{"name": "a", "n": 1, "ok": true, "unknown": null, "list": [{"x": 1.5}], "deep": {"s": "t"}}`

func TestHas(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		output string
		want   []string
	}{
		"the same":     {contract, nil},
		"other values": {`{"name": "b", "n": -3e9, "ok": false, "unknown": [], "list": [{"x": 0}, {"x": 1, "y": 2}], "deep": {"s": ""}, "more": 1}`, nil},
		"empty list":   {`{"name": "b", "n": 0, "ok": false, "unknown": 1, "list": [], "deep": {"s": ""}}`, nil},
		"lacks": {`{"name": "b", "ok": false, "unknown": null, "list": [{"x": 0}, {}], "deep": {}}`,
			[]string{`$.deep lacks "s"`, `$.list[1] lacks "x"`, `$ lacks "n"`}},
		"lacks what may be anything": {`{"name": "b", "n": 1, "ok": false, "list": [], "deep": {"s": ""}}`, []string{`$ lacks "unknown"`}},
		"other kinds": {`{"name": 1, "n": "1", "ok": 0, "unknown": null, "list": null, "deep": []}`, []string{
			"$.deep is a list, want an object", "$.list is null, want a list", "$.n is a string, want a number",
			"$.name is a number, want a string", "$.ok is a number, want a boolean",
		}},
		"no object": {`[]`, []string{"$ is a list, want an object"}},
		"no JSON":   {`{`, []string{"reading the output: unexpected end of JSON input"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := judge(func(t testing.TB) { Has(t, contract, []byte(tt.output)) })
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

type point struct {
	X    float64   `json:"x"`
	Tags []string  `json:"tags"`
	Next *point    `json:"next"`
	Ys   []float64 `json:"ys,omitempty"`
}

func TestKeeps(t *testing.T) {
	t.Parallel()
	whole := func(p *point) any { return p }
	for name, tt := range map[string]struct {
		contract string
		write    func(*point) any
		want     []string
	}{
		"kept":          {`{"x": 1, "tags": ["a"], "next": null, "ys": [1, 2]}`, whole, nil},
		"no place":      {`{"z": 1}`, whole, []string{`reading the contract into *contracttest.point: json: unknown field "z"`}},
		"not written":   {`{"ys": [0]}`, func(*point) any { return map[string]any{} }, []string{`$ lacks "ys"`}},
		"another value": {`{"x": 1, "next": {"x": 2}}`, func(p *point) any { p.X++; p.Next.X--; return p }, []string{"$.next.x is 1, want 2", "$.x is 2, want 1"}},
		"shorter":       {`{"tags": ["a", "b"]}`, func(p *point) any { p.Tags = p.Tags[1:]; return p }, []string{"$.tags has 1 elements, want 2"}},
		"no longer null": {`{"next": null}`, func(p *point) any { p.Next = &point{}; return p },
			[]string{"$.next is an object, want null"}},
		"not a list": {`{"tags": []}`, func(p *point) any { p.Tags = nil; return p }, []string{"$.tags is null, want a list"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p point
			got := judge(func(t testing.TB) {
				Keeps(t, tt.contract, &p, func(w io.Writer) error { return json.NewEncoder(w).Encode(tt.write(&p)) })
			})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
	failed := judge(func(t testing.TB) {
		Keeps(t, `{}`, &point{}, func(io.Writer) error { return errors.New("disk full") })
	})
	if diff := cmp.Diff([]string{"writing *contracttest.point: disk full"}, failed); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
}
