package history_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/history"
)

func read[T any](t testing.TB, name string) *T {
	t.Helper()
	b, err := os.ReadFile("../testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return &v
}

func mustAppend[T history.Kept](t testing.TB, path string, kept *T) {
	t.Helper()
	if err := history.Append(t.Context(), path, kept); err != nil {
		t.Fatal(err)
	}
}

func mustLoad(t testing.TB, path string) *history.File {
	t.Helper()
	f, err := history.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestWhatIsAppendedIsReadBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "net.jsonl")
	r, m, p := read[probe.Result](t, "compared"), read[probe.Matrix](t, "matrix"), read[probe.PageLoad](t, "pageload")
	mustAppend(t, path, r)
	mustAppend(t, path, m)
	mustAppend(t, path, p)
	f := mustLoad(t, path)
	if f.Runs != 3 || len(f.Entries) != 3 || len(f.Notes) != 0 {
		t.Fatalf("%d runs, %d entries, notes %q", f.Runs, len(f.Entries), f.Notes)
	}
	for i, diff := range []string{cmp.Diff(r, f.Entries[0].Result), cmp.Diff(m, f.Entries[1].Matrix), cmp.Diff(p, f.Entries[2].PageLoad)} {
		if diff != "" {
			t.Errorf("entry %d differs (-written +read):\n%s", i, diff)
		}
	}
	if !f.Entries[1].Started().Equal(m.Started) || f.Entries[1].Kind() != "matrix" {
		t.Errorf("the second is a %s of %v", f.Entries[1].Kind(), f.Entries[1].Started())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := bytes.Count(b, []byte("\n")); got != 3 {
		t.Errorf("three runs have %d lines", got)
	}
}

// What taper net prints with --json can be compared as well.
func TestPrintedJSONIsRead(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"single", "compared", "matrix", "pageload"} {
		f := mustLoad(t, "../testdata/"+name+".json")
		if f.Runs != 1 || f.Entries[0].Kind() == "" {
			t.Errorf("%s: %d runs", name, f.Runs)
		}
	}
	var printed bytes.Buffer
	if err := probe.WriteJSON(&printed, read[probe.Result](t, "single")); err != nil {
		t.Fatal(err)
	}
	f, err := history.Read(&printed)
	if err != nil || f.Entries[0].Kind() != "test" {
		t.Errorf("what is printed is read as %+v, %v", f, err)
	}
}

func TestLinesThatCannotBeReadAreLeftOutAndNoted(t *testing.T) {
	t.Parallel()
	const good = `{"taper_net":1,"result":{"from":"a","tests":[]}}` + "\n"
	for _, test := range []struct {
		name, text string
		runs       int
		note, err  string
	}{
		{"torn at the end", good + `{"taper_net":1,"resu`, 1, "Line 2 is left out: it is torn: whoever wrote it was stopped.", ""},
		{"torn in the middle", `{"taper_net":1,"re` + "\n" + good, 1, "Line 1 is left out: it is no run of taper net.", ""},
		{"newer", good + `{"taper_net":2,"result":{"from":"a"}}` + "\n", 1, "Line 2 is left out: it was written by a newer taper.", ""},
		{"newer, of another shape", good + `{"taper_net":3,"result":["a"]}` + "\n", 1, "Line 2 is left out: it was written by a newer taper.", ""},
		{"of a kind that is not known", good + `{"taper_net":1,"echo":{}}` + "\n", 1, "Line 2 is left out: it is no run of taper net.", ""},
		{"fields that are not known", `{"taper_net":1,"result":{"from":"a","tests":[],"later":1},"more":2}` + "\n", 1, "", ""},
		{"no newline at the end", strings.TrimSpace(good), 1, "", ""},
		{"empty lines", "\n\n" + good + "\r\n", 1, "", ""},
		{"empty", "", 0, "", "it is empty"},
		{"something else", "hello\n", 0, "", "there is no run in it: Line 1 is left out"},
		{"a document of something else", "{\n\"hello\": 1\n}\n", 0, "", "neither a history nor what taper net prints"},
		{"many", good + strings.Repeat("x\n", 20), 1, "15 more lines are left out.", ""},
		{"a large line", good + strings.Repeat("x", 1<<20) + "\n" + good, 2, "Line 2 is left out: it is no run", ""},
	} {
		f, err := history.Read(strings.NewReader(test.text))
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: error %v, want %q in it", test.name, err, test.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if f.Runs != test.runs || len(f.Entries) != test.runs {
			t.Errorf("%s: %d runs, want %d", test.name, f.Runs, test.runs)
		}
		if notes := strings.Join(f.Notes, " "); !strings.Contains(notes, test.note) || test.note == "" && notes != "" {
			t.Errorf("%s: notes %q, want %q in them", test.name, notes, test.note)
		}
	}
}

func TestTheLastRunsAreHeld(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	text.WriteString(`{"taper_net":1,"matrix":{}}` + "\n")
	for i := range 199 {
		i++
		line, err := json.Marshal(map[string]any{"taper_net": 1, "result": probe.Result{From: strings.Repeat("x", i)}})
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(line, '\n'))
	}
	f, err := history.Read(&text)
	if err != nil {
		t.Fatal(err)
	}
	if f.Runs != 200 || len(f.Entries) != 3 || f.Entries[0].Kind() != "matrix" || len(f.Entries[1].Result.From) != 198 || len(f.Entries[2].Result.From) != 199 {
		t.Errorf("of %d runs these are held: %+v", f.Runs, f.Entries)
	}
}

// A line that a crash cut off spoils itself only.
func TestATornLineIsNotContinued(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "net.jsonl")
	if err := os.WriteFile(path, []byte(`{"taper_net":1,"resu`), 0o600); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, path, read[probe.Result](t, "single"))
	if f := mustLoad(t, path); f.Runs != 1 || len(f.Notes) != 1 {
		t.Errorf("%d runs, notes %q", f.Runs, f.Notes)
	}
}

func TestSeveralRunsAppendAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "net.jsonl")
	m := read[probe.Matrix](t, "matrix")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5 {
				if err := history.Append(context.Background(), path, m); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if f := mustLoad(t, path); f.Runs != 40 || len(f.Notes) != 0 {
		t.Errorf("%d of 40 runs, notes %q", f.Runs, f.Notes)
	}
}

// On a full disk the file stays as it was, and later runs are kept again.
func TestAFullDiskLeavesTheFileAsItWas(t *testing.T) {
	folder := smallDisk(t)
	path := filepath.Join(folder, "net.jsonl")
	mustAppend(t, path, read[probe.Result](t, "single"))
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	large := read[probe.Matrix](t, "matrix") // 40 kB, in what is left of 64 kB beside a ballast
	ballast := filepath.Join(folder, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 32<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	err = history.Append(t.Context(), path, large)
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "net.jsonl, which is as it was") {
		t.Errorf("on a full disk the error is %v", err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, after) {
		t.Errorf("the file had %d bytes and has %d", len(before), len(after))
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, path, read[probe.Result](t, "single"))
	if f := mustLoad(t, path); f.Runs != 2 {
		t.Errorf("%d runs, want the first and the last", f.Runs)
	}
}

// smallDisk is a folder with room for 64 kB.
func smallDisk(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "size=64k"); err != nil {
		if os.Getenv("TAPER_TEST_REQUIRE_ALL") != "" {
			t.Fatalf("a small disk needs root: %v", err)
		}
		t.Skipf("a small disk needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(folder, 0); err != nil {
			t.Error(err)
		}
	})
	return folder
}

func TestWhereNothingCanBeWrittenIsSaidBefore(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	pipe := filepath.Join(folder, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{folder, pipe, filepath.Join(folder, "no", "such", "folder.jsonl"), "/dev/full"} {
		for name, err := range map[string]error{"Writable": history.Writable(path), "Append": history.Append(t.Context(), path, &probe.Result{})} {
			if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "--history") {
				t.Errorf("%s of %s says %v", name, path, err)
			}
		}
	}
	if err := history.Writable(filepath.Join(folder, "new.jsonl")); err != nil {
		t.Error(err)
	}
}

func TestALockThatIsHeldIsGivenUp(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "net.jsonl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// Also who only reads keeps others from taking back half a line.
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := history.Append(ctx, path, &probe.Result{}); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "another program has it locked") {
		t.Errorf("the error is %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"taper_net":1,"result":{"from":"a","tests":[{"name":"tcp_bw","trials":[1,2]}]}}` + "\n"))
	f.Add([]byte(`{"taper_net":1,"matrix":{"agents":[],"cells":[null]}}` + "\n{\"taper_net\":9}\n{"))
	f.Add([]byte("{\n\"targets\": [{}]}"))
	f.Add([]byte("\r\n \n{\"taper_net\":-1}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := history.Read(bytes.NewReader(b))
		if err != nil {
			return
		}
		if h.Runs < 1 || len(h.Entries) < 1 {
			t.Fatal("there is no run, and no error")
		}
		for _, e := range h.Entries {
			if e.Kind() == "" {
				t.Errorf("an entry of no kind: %+v", e)
			}
			if _, err := history.Compare("a", e, "b", e, history.Goal{Share: .05, Latency: time.Microsecond}); err != nil && e.Kind() != "page load" {
				t.Error(err)
			}
		}
	})
}
