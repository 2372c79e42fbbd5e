package scenario

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/sim/policy"
)

// TestDocs checks that the documentation names all that there is, and that its example works.
func TestDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(text), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	if s := mustParse(t, example); len(s.Arms) < 2 || len(s.Service.Changes) == 0 {
		t.Errorf("the example is %+v", s)
	}
	words := documented(reflect.TypeFor[document]())
	for _, k := range policy.All {
		words = append(words, k.Name)
	}
	for _, p := range Parameters {
		words = append(words, p.Name)
	}
	for _, s := range balance.Strategies {
		words = append(words, string(s))
	}
	for _, word := range words {
		if !strings.Contains(string(text), "`"+word+"`") && !strings.Contains(string(text), "`"+word+":") && !strings.Contains(string(text), ": "+word+"`") {
			t.Errorf("docs/scenarios.md does not tell of %q", word)
		}
	}
}

// documented lists all keys of a section and of those in it.
func documented(section reflect.Type) []string {
	var words []string
	for i := range section.NumField() {
		f := section.Field(i)
		if !f.Anonymous {
			words = append(words, f.Tag.Get("yaml"))
		}
		inner := f.Type
		for inner.Kind() == reflect.Slice || inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			words = append(words, documented(inner)...)
		}
	}
	return words
}
