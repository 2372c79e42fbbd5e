package explain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// What is written is what the standard library's indentation writes.
func TestIndentation(t *testing.T) {
	t.Parallel()
	long := make([]string, 20_000)
	for i := range long {
		long[i] = fmt.Sprintf(`{"%d": [`, i)
	}
	for name, value := range map[string]any{
		"nothing":     nil,
		"a number":    -1.5e-7,
		"empty":       []any{[]int{}, map[string]int{}, []any{[]int{}}, ""},
		"nested":      map[string]any{"a": []any{1, true, nil, map[string]any{"b": []string{"x"}}}, "": 0},
		"quotes":      []string{`"`, `\`, `\\`, `a\"`, `{"a": [1,2]}`, `\\"`, "\n\t\x00<é日>"},
		"long":        long,
		"explanation": goldenExplanation(t),
	} {
		var want, got bytes.Buffer
		encoder := json.NewEncoder(&want)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(value); err != nil {
			t.Fatal(err)
		}
		if err := writeJSON(&got, value); err != nil {
			t.Fatal(err)
		}
		if got.String() != want.String() {
			t.Errorf("%s: %.300q; want %.300q", name, got.String(), want.String())
		}
	}
}

func goldenExplanation(t *testing.T) *Explanation {
	t.Helper()
	e := &Explanation{}
	if err := json.Unmarshal([]byte(contract), e); err != nil {
		t.Fatal(err)
	}
	return e
}

// A pipe that is closed is an error, at once or after some of it.
func TestJSONNowhere(t *testing.T) {
	t.Parallel()
	for room := range 3 {
		w := &narrow{room: room}
		if err := writeJSON(w, strings.Split(strings.Repeat("text ", 50_000), " ")); !errors.Is(err, errNarrow) || w.room != 0 {
			t.Errorf("after %d writes: %v", room, err)
		}
	}
}

var errNarrow = errors.New("no room")

// narrow takes as many writes as it has room for.
type narrow struct{ room int }

// Write implements [io.Writer].
func (n *narrow) Write(b []byte) (int, error) {
	if n.room == 0 {
		return 0, errNarrow
	}
	n.room--
	return len(b), nil
}

// FuzzIndentation does the same with any JSON, made compact.
func FuzzIndentation(f *testing.F) {
	for _, text := range []string{contract, differenceContract, `[{},[],"\\\"",1e9,null]`, `"\\"`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var compact, want, got bytes.Buffer
		if json.Compact(&compact, text) != nil {
			t.Skip()
		}
		if err := json.Indent(&want, compact.Bytes(), "", "  "); err != nil {
			t.Fatal(err)
		}
		if err := writeIndented(&got, compact.Bytes()); err != nil || got.String() != want.String() {
			t.Errorf("%q: %q, %v; want %q", compact.String(), got.String(), err, want.String())
		}
	})
}
