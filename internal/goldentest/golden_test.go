package goldentest

import (
	"os"
	"path/filepath"
	"testing"
)

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

func TestHolds(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.golden")
	Holds(t, path, "as it is", true)
	if got, err := os.ReadFile(path); err != nil || string(got) != "as it is" {
		t.Fatalf("the file has %q, %v", got, err)
	}
	Holds(t, path, "as it is", false)
	r := &recorder{TB: t}
	if Holds(r, path, "otherwise", false); !r.failed {
		t.Error("other output passes")
	}
}
