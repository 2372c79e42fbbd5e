package strictyaml

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// size reads itself from text.
type size int

func (s *size) UnmarshalText(text []byte) error {
	switch string(text) {
	case "small":
		*s = 1
	case "large":
		*s = 2
	default:
		return errors.New("it is small or large")
	}
	return nil
}

type shared struct {
	Part *float64 `yaml:"part"`
}

// choice is a name, or one with a part.
type choice struct {
	Name string `yaml:"name"`
	shared
}

func (c *choice) UnmarshalText(text []byte) error {
	c.Name = string(text)
	return nil
}

type item struct {
	Count  *int    `yaml:"count"`
	Rate   float64 `yaml:"rate"`
	On     bool    `yaml:"on"`
	Seed   uint64  `yaml:"seed"`
	Size   size    `yaml:"size"`
	Choice *choice `yaml:"choice"`
}

type document struct {
	Name  string   `yaml:"name"`
	Items []item   `yaml:"items"`
	Words []string `yaml:"words"`
	Kept  int      `yaml:"kept"`
}

func TestDecode(t *testing.T) {
	t.Parallel()
	got := document{Kept: 7}
	lines, err := Decode([]byte(`
name: 1.5
items:
  - {count: 0, rate: 1e3, on: true, seed: 18446744073709551615, size: large}
  - choice: quick
  - choice:
      name: slow
      part: 0.5
words: [a, "b"]
`), &got)
	if err != nil {
		t.Fatal(err)
	}
	zero, half := 0, 0.5
	want := document{Name: "1.5", Kept: 7, Words: []string{"a", "b"}, Items: []item{
		{Count: &zero, Rate: 1000, On: true, Seed: 18446744073709551615, Size: 2},
		{Choice: &choice{Name: "quick"}},
		{Choice: &choice{Name: "slow", shared: shared{&half}}},
	}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(choice{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for path, line := range map[string]int{"": 2, "name": 2, "items": 3, "items[0].size": 4, "items[2].choice.part": 8, "words[1]": 9} {
		if lines[path] != line {
			t.Errorf("%q is on line %d, want %d", path, lines[path], line)
		}
	}
}

func TestErrorsSayWhereAndWhatIsRight(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"empty":              {"", "it is empty"},
		"comments alone":     {"# nothing\n", "it is empty"},
		"nothing":            {"---\n", "line 2: has no value: it takes keys: name, items, words, kept"},
		"no YAML":            {"name: [", "line 1: did not find expected node content"},
		"bytes":              {"name: \x00", "control characters are not allowed"},
		"second document":    {"name: a\n---\nname: b\n", "there is more than one YAML document: only one is read"},
		"bad second one":     {"name: a\n---\n[", "line 3: did not find expected node content"},
		"a list":             {"- a\n", "line 1: is a list: it takes keys: name, items, words, kept"},
		"a word":             {"hello", `line 1: is "hello": it takes keys: name, items, words, kept`},
		"unknown":            {"name: a\nnmae: b\n", "line 2: nmae is unknown: known here are name, items, words, kept"},
		"unknown inside":     {"items:\n- {rate: 1}\n- {rat: 1}\n", "line 3: items[1].rat is unknown: known here are count, rate, on, seed, size, choice"},
		"unknown embedded":   {"items: [{choice: {prt: 1}}]", "line 1: items[0].choice.prt is unknown: known here are name, part"},
		"unprintable key":    {"\"na\\tme\": a", `line 1: "na\tme" is unknown`},
		"percent in a key":   {"\"%d\": a", "line 1: %d is unknown"},
		"key that is a list": {"? [a]\n: b\n", "is unknown: known here are name"},
		"empty key":          {"\"\": b\n", "is unknown: known here are name"},
		"merged":             {"<<: {name: a}\n", "line 1: << is unknown"},
		"twice":              {"name: a\nkept: 1\nname: b\n", "line 3: name is there twice"},
		"anchor":             {"name: &a b\n", "line 1: name has an anchor or is an alias"},
		"alias":              {"words: [&a b, *a]\n", "line 1: words[0] has an anchor or is an alias"},
		"list for text":      {"name: [a]\n", "line 1: name is a list: it takes text"},
		"keys for a number":  {"kept: {a: 1}\n", "line 1: kept has keys: it takes a whole number"},
		"text for a list":    {"items: a\n", `line 1: items is "a": it takes a list`},
		"text for a number":  {"items: [{rate: fast}]\n", `line 1: items[0].rate is "fast": it takes a number`},
		"part for a whole":   {"kept: 1.5\n", `line 1: kept is "1.5": it takes a whole number`},
		"negative for a seed": {
			"items: [{seed: -1}]\n", `line 1: items[0].seed is "-1": it takes a whole number`,
		},
		"too large":      {"items: [{count: 99999999999999999999}]\n", `items[0].count is "99999999999999999999": it takes a whole number`},
		"text for truth": {"items: [{on: 3}]\n", `line 1: items[0].on is "3": it takes true or false`},
		"no value":       {"name:\nkept: 1\n", "line 1: name has no value: it takes text"},
		"own text":       {"items:\n- size: medium\n", `line 2: items[0].size is "medium": it is small or large`},
		"list for own":   {"items: [{choice: [a]}]\n", "line 1: items[0].choice is a list: it takes keys: name, part"},
		"long":           {"kept: " + strings.Repeat("é", 200) + "\n", "é…\": it takes a whole number"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Decode([]byte(test.text), &document{})
			if err == nil {
				t.Fatal("it passed")
			}
			if got := err.Error(); !strings.Contains(got, test.want) || strings.Contains(got, "\n") || len(got) > 300 {
				t.Errorf("got %q, want a line with %q", got, test.want)
			}
		})
	}
}

func TestErrorfFindsTheNearestLine(t *testing.T) {
	t.Parallel()
	lines := Lines{"": 1, "load": 3, "arms[1]": 7, "arms": 5}
	for path, want := range map[string]string{
		"load":               "line 3: load is wrong",
		"load.rate":          "line 3: load.rate is wrong",
		"arms[1].weights.x":  "line 7: arms[1].weights.x is wrong",
		"arms[0].name":       "line 5: arms[0].name is wrong",
		"proxies":            "line 1: proxies is wrong",
		"":                   "line 1: is wrong",
		"other[3].way.round": "line 1: other[3].way.round is wrong",
	} {
		if got := lines.Errorf(path, "is %s", "wrong").Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	cause := errors.New("cause")
	if err := (Lines{}).Errorf("a", "failed: %w", cause); !errors.Is(err, cause) || err.Error() != "a failed: cause" {
		t.Errorf("without lines: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("name: a\nitems:\n- {count: 1, choice: {name: b, part: .nan}}\n")
	f.Add("words: [&a b, *a]\n")
	f.Add("? {a: b}\n: - 1\n")
	f.Add("{\"na\\nme\": !!binary gg==}")
	f.Fuzz(func(t *testing.T, text string) {
		_, err := Decode([]byte(text), &document{})
		if err != nil && strings.ContainsRune(err.Error(), '\n') {
			t.Errorf("an error of several lines: %q", err)
		}
	})
}
