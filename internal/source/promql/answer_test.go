package promql

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

type element struct {
	Labels []string
	Value  float64
}

func decodeAll(text string, labels ...string) (answer, []element, error) {
	var all []element
	got, err := decode(iotest.OneByteReader(strings.NewReader(text)), labels, func(s *series) error {
		e := element{Value: s.value}
		for _, l := range s.labels {
			e.Labels = append(e.Labels, string(l))
		}
		all = append(all, e)
		return nil
	})
	return got, all, err
}

// TestGolden reads what stores have answered.
func TestGolden(t *testing.T) {
	for name, test := range map[string]struct {
		want   answer
		series []element
	}{
		"prometheus.json": {
			answer{status: "success", resultType: "vector"},
			[]element{{[]string{"value", "web-1"}, 0.25}, {[]string{"time", "web-1"}, 1732187440.123}},
		},
		"thanos-partial.json": {
			answer{status: "success", resultType: "vector", warning: `No StoreAPIs matched for this query`},
			[]element{{[]string{"value", "web-1"}, 0.25}},
		},
		"victoriametrics-partial.json": {
			answer{status: "success", resultType: "vector", partial: true},
			[]element{{[]string{"value", "web-1"}, 0.25}, {[]string{"time", "web-1"}, 1732187440.123}},
		},
		"prometheus-error.json": {answer{status: "error", errorType: "bad_data", failure: `invalid parameter "query": 1:4: parse error: unexpected end of input inside braces`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			got, series, err := decodeAll(string(text), kindLabel, "pod")
			if err != nil || got != test.want {
				t.Errorf("%+v, %v; want %+v", got, err, test.want)
			}
			if diff := cmp.Diff(test.series, series); diff != "" {
				t.Errorf("series (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecode(t *testing.T) {
	one := func(element string) string {
		return `{"status":"success","data":{"resultType":"vector","result":[` + element + `]}}`
	}
	for name, test := range map[string]struct {
		text  string
		want  []element
		fails string
	}{
		"escapes":        {one(`{"m\u0065tric":{"p\u006fd":"a\"\u00e4\n"},"value":[1,"\u0031"]}`), []element{{[]string{"a\"ä\n"}, 1}}, ""},
		"not UTF-8":      {one("{\"metric\":{\"pod\":\"a\xff\"},\"value\":[1,\"1\"]}"), []element{{[]string{"a\ufffd"}, 1}}, ""},
		"labels unasked": {one(`{"value":[1,"1"],"metric":{"a":"b","c":{"d":[]}}}`), []element{{[]string{""}, 1}}, ""},
		"labels are not kept": {
			one(`{"metric":{"pod":"long"},"value":[1,"1"]},{"metric":{},"value":[1,"2"]},{"metric":{"pod":"b"},"value":[1,"3"]}`),
			[]element{{[]string{"long"}, 1}, {[]string{""}, 2}, {[]string{"b"}, 3}}, "",
		},
		"infinities":       {one(`{"metric":{},"value":[1,"+Inf"]},{"metric":{},"value":[1,"-Inf"]}`), nil, ""},
		"a label twice":    {one(`{"metric":{"pod":"a","pod":"b"},"value":[1,"1"]}`), nil, "duplicate object member name"},
		"a number label":   {one(`{"metric":{"pod":1},"value":[1,"1"]}`), nil, "there is a JSON number where a query's answer has string"},
		"a plain number":   {one(`{"metric":{},"value":[1,1]}`), nil, "there is a JSON number where"},
		"a time in quotes": {one(`{"metric":{},"value":["1","1"]}`), nil, "there is a JSON string where"},
		"no number":        {one(`{"metric":{},"value":[1,""]}`), nil, `has the value ""; want a number`},
		"too large":        {one(`{"metric":{},"value":[1,"1e999"]}`), nil, `has the value "1e999"`},
		"three values":     {one(`{"metric":{},"value":[1,"1","2"]}`), nil, "there is a JSON string where"},
		"null":             {one(`null`), nil, "there is a JSON null where"},
		"cut":              {one(`{"metric":{},"value":[1,"1"]}`)[:80], nil, "unexpected EOF"},
		"a page":           {"<html>", nil, "invalid character '<'"},
		"deep":             {`{"x":` + strings.Repeat("[", 100_000), nil, "exceeded max depth"},
		"partly so":        {`{"isPartial":1}`, nil, "where a query's answer has true or false"},
		"empty":            {"", nil, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, got, err := decodeAll(test.text, "pod")
			if (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Errorf("%v; want an error with %q", err, test.fails)
			}
			if diff := cmp.Diff(test.want, got); test.want != nil && diff != "" {
				t.Errorf("series (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzDecode sees that what is accepted is what the standard library reads.
func FuzzDecode(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.json")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"data":{"result":[1,"2"],"resultType":"scalar"},"status":"success"}`))
	f.Add([]byte(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"pod":"\ud800\u0061"},"value":[1e3,"NaN"]}]},"warnings":["a","PromQL info: b"]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, series, err := decodeAll(string(text), kindLabel, "pod")
		if err != nil {
			return
		}
		var want map[string]any
		if err := json.NewDecoder(bytes.NewReader(text)).Decode(&want); err != nil {
			t.Fatalf("accepted: %v", err)
		}
		if s, _ := want["status"].(string); s != got.status {
			t.Errorf("status %q, want %q", got.status, s)
		}
		if p, _ := want["isPartial"].(bool); p != got.partial {
			t.Errorf("partial %v, want %v", got.partial, p)
		}
		if list, _ := want["warnings"].([]any); len(list) == 0 && got.warning != "" {
			t.Errorf("warning %q out of nothing", got.warning)
		}
		data, _ := want["data"].(map[string]any)
		if kind, _ := data["resultType"].(string); kind != got.resultType {
			t.Errorf("result of type %q, want %q", got.resultType, kind)
		}
		if diff := cmp.Diff(reference(t, data["result"], len(series)), series, same); len(series) > 0 && diff != "" {
			t.Errorf("series (-want +got):\n%s", diff)
		}
	})
}

// reference reads a result by way of the standard library.
func reference(t *testing.T, result any, n int) []element {
	list, _ := result.([]any)
	number := func(v any) float64 {
		text, _ := v.(string)
		parsed, err := strconv.ParseFloat(text, 64)
		if err != nil && n > 0 {
			t.Errorf("%q was accepted as a number", text)
		}
		return parsed
	}
	if len(list) == 2 && n == 1 {
		if _, ok := list[0].(float64); ok {
			return []element{{nil, number(list[1])}}
		}
	}
	var all []element
	for _, one := range list {
		fields, _ := one.(map[string]any)
		metric, _ := fields["metric"].(map[string]any)
		pair, _ := fields["value"].([]any)
		if len(pair) != 2 {
			continue
		}
		kind, _ := metric[kindLabel].(string)
		pod, _ := metric["pod"].(string)
		all = append(all, element{[]string{kind, pod}, number(pair[1])})
	}
	return all
}
