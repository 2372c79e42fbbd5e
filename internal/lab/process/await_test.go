package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var errNotYet = errors.New("no answer on port 1")

func TestAwait(t *testing.T) {
	t.Run("ready", func(t *testing.T) {
		p := startShell(t, `sleep 60`)
		asked := 0
		err := Await(t.Context(), p, func(context.Context) error {
			if asked++; asked < 3 {
				return errNotYet
			}
			return nil
		}, 10*time.Second)
		if err != nil || asked != 3 {
			t.Errorf("after %d questions: %v", asked, err)
		}
	})
	t.Run("the process dies", func(t *testing.T) {
		p := startShell(t, `sleep 0.1; echo bad config; exit 1`)
		err := Await(t.Context(), p, func(ctx context.Context) error {
			<-ctx.Done() // as a request that hangs
			return ctx.Err()
		}, time.Minute)
		if want := "shell died: exit status 1: bad config"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
	t.Run("the process is stopped", func(t *testing.T) {
		p := startShell(t, `sleep 60`)
		p.Stop(time.Second)
		err := Await(t.Context(), p, func(context.Context) error { return errNotYet }, time.Minute)
		if err == nil || !strings.Contains(err.Error(), "stopped") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("deadline", func(t *testing.T) {
		p := startShell(t, `sleep 60`)
		err := Await(t.Context(), p, func(context.Context) error { return errNotYet }, 50*time.Millisecond)
		if want := "shell not ready within 50ms: no answer on port 1"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if !errors.Is(err, errNotYet) {
			t.Error("the probe's error is not wrapped")
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		p := startShell(t, `sleep 60`)
		ctx, cancel := context.WithCancel(t.Context())
		err := Await(ctx, p, func(context.Context) error { cancel(); return errNotYet }, time.Minute)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
	})
}

func TestLookup(t *testing.T) {
	const hint = `run "make tools", or name it with --envoy`
	dir := t.TempDir()
	tool := filepath.Join(dir, "envoy")
	if err := os.WriteFile(tool, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)

	tests := []struct {
		name, path, err string
	}{
		{"envoy", tool, ""},
		{tool, tool, ""},
		{"nginx", "", `nginx not found in PATH: ` + hint},
		{dir + "/no", "", dir + `/no cannot be run: no such file or directory: ` + hint},
		{plain, "", plain + ` cannot be run: permission denied: ` + hint},
	}
	for _, test := range tests {
		path, err := Lookup(test.name, hint)
		if path != test.path {
			t.Errorf("Lookup(%s) = %q, want %q", test.name, path, test.path)
		}
		if got := errorText(err); got != test.err {
			t.Errorf("Lookup(%s): error %q, want %q", test.name, got, test.err)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
