// Package contracttest holds JSON output to a contract: an example of the output, in
// which every name is there for good and every value is of the kind that it always is.
// Output may have more than its contract, never less. [Keeps] has a type read the example
// and write it again; [Has] looks at what a program has written.
package contracttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Keeps checks that a type keeps a contract: that it has a place for all of it, and
// writes everything again as it was. The value is a pointer to the type's zero value, and
// write writes it as JSON.
func Keeps(t testing.TB, contract string, value any, write func(io.Writer) error) {
	t.Helper()
	in := json.NewDecoder(strings.NewReader(contract))
	in.DisallowUnknownFields()
	if err := in.Decode(value); err != nil {
		t.Fatalf("reading the contract into %T: %v", value, err)
	}
	var written bytes.Buffer
	if err := write(&written); err != nil {
		t.Fatalf("writing %T: %v", value, err)
	}
	report(t, lacks("$", decode(t, "the contract", contract), decode(t, "what is written", written.String()), true))
}

// Has checks that output has all that a contract promises: every name, with a value of
// the same kind. Each element of a list is held to the first one of the contract's list.
// What is null in the contract may be anything.
func Has(t testing.TB, contract string, output []byte) {
	t.Helper()
	report(t, lacks("$", decode(t, "the contract", contract), decode(t, "the output", string(output)), false))
}

func decode(t testing.TB, what, text string) any {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("reading %s: %v", what, err)
	}
	return value
}

func report(t testing.TB, wrong []string) {
	t.Helper()
	for _, line := range wrong {
		t.Error(line)
	}
}

// lacks says what of the promise got has not, one line each. With exact, values have to
// be equal and lists as long as each other.
func lacks(path string, promise, got any, exact bool) []string {
	if promise == nil && !exact {
		return nil
	}
	if kind(promise) != kind(got) {
		return []string{fmt.Sprintf("%s is %s, want %s", path, kind(got), kind(promise))}
	}
	switch promise := promise.(type) {
	case map[string]any:
		return lacksNames(path, promise, got.(map[string]any), exact)
	case []any:
		return lacksElements(path, promise, got.([]any), exact)
	}
	if exact && got != promise {
		return []string{fmt.Sprintf("%s is %v, want %v", path, got, promise)}
	}
	return nil
}

func lacksNames(path string, promise, got map[string]any, exact bool) []string {
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(promise)) {
		value, ok := got[name]
		if !ok {
			wrong = append(wrong, fmt.Sprintf("%s lacks %q", path, name))
			continue
		}
		wrong = append(wrong, lacks(path+"."+name, promise[name], value, exact)...)
	}
	return wrong
}

func lacksElements(path string, promise, got []any, exact bool) []string {
	if exact && len(got) != len(promise) {
		return []string{fmt.Sprintf("%s has %d elements, want %d", path, len(got), len(promise))}
	}
	var wrong []string
	for i, value := range got {
		element := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case exact:
			wrong = append(wrong, lacks(element, promise[i], value, exact)...)
		case len(promise) > 0:
			wrong = append(wrong, lacks(element, promise[0], value, exact)...)
		}
	}
	return wrong
}

// kind is what JSON calls a decoded value.
func kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	}
	return "a number"
}
