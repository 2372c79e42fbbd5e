// Package goldentest holds output to files that were looked at once and committed, golden
// files. A test package has a flag of its own that writes them anew, -update by custom.
package goldentest

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Holds checks that output is as its file has it; with update the file is written first.
func Holds(t testing.TB, path, output string, update bool) {
	t.Helper()
	if update {
		if err := os.WriteFile(path, []byte(output), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), output); diff != "" {
		t.Errorf("%s: -want +got (-update accepts it):\n%s", path, diff)
	}
}
