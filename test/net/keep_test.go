package net_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"taper.dev/taper/internal/probe"
)

// A full disk: the result is printed all the same, what could not be kept is named, and
// what was in the history before is still there.
func TestDiskIsFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.serve(t)
	disk := t.TempDir()
	must(t, unix.Mount("taper", disk, "tmpfs", 0, "size=64k"))
	t.Cleanup(func() { must(t, unix.Unmount(disk, unix.MNT_DETACH)) })
	history, report := filepath.Join(disk, "net.jsonl"), filepath.Join(disk, "report.html")
	args := append(quick, "--tests", "tcp_lat", "--history", history)

	if o, _ := test(t, append(args, a.address)...); o.code != 0 {
		t.Fatalf("while there is room: exit code %d: %s", o.code, o.err)
	}
	before := pad(t, history)
	fill(t, filepath.Join(disk, "ballast"))

	o, r := test(t, append(args, "--report", report, a.address)...)
	if o.code != 1 {
		t.Errorf("exit code %d instead of 1", o.code)
	}
	measured(t, r, probe.TCPLatency, 2)
	says(t, o.err, "not everywhere where it should be", history, report, "no space left on device")
	if after := read(t, history); after != before {
		t.Errorf("the history was\n%q\nand is\n%q", before, after)
	}
	for _, name := range []string{report, report + ".partial"} {
		if _, err := os.Stat(name); err == nil {
			t.Errorf("half of %s is left", name)
		}
	}
}

// pad ends a file with the end of a page: what is appended takes another one.
func pad(t *testing.T, file string) string {
	t.Helper()
	text := read(t, file)
	page := os.Getpagesize()
	text += strings.Repeat(" ", page-1-len(text)%page) + "\n"
	must(t, os.WriteFile(file, []byte(text), 0o600))
	return text
}

// fill takes what room there is.
func fill(t *testing.T, file string) {
	t.Helper()
	f, err := os.Create(file)
	must(t, err)
	defer f.Close()
	for _, size := range []int{4096, 1} {
		for err == nil {
			_, err = f.Write(make([]byte, size))
		}
		err = nil
	}
}

// A place that cannot be written to is known before anybody measures for a minute.
func TestNowhereToKeep(t *testing.T) {
	t.Parallel()
	need(t)
	for _, flag := range []string{"--history", "--report"} {
		path := filepath.Join(t.TempDir(), "no", "such", "folder")
		o, _ := test(t, flag, path, "203.0.113.1") // which would be the error of asking
		if o.code == 0 {
			t.Error("exit code 0")
		}
		says(t, o.err, path, "no such file or directory")
	}
}

// Histories with a line that was torn, and with those of a newer release: what can be read
// is compared, and what was left out is told.
func TestTornHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.serve(t)
	history := filepath.Join(t.TempDir(), "net.jsonl")
	args := append(quick, "--tests", "tcp_lat", "--history", history, a.address)
	for range 2 {
		if o, _ := test(t, args...); o.code != 0 {
			t.Fatalf("exit code %d: %s", o.code, o.err)
		}
	}
	lines := strings.SplitAfter(read(t, history), "\n")
	torn := lines[0] + lines[0][:len(lines[0])/2] + "\n\x00\xff garbage\n" + `{"taper_net":99,"dream":{}}` + "\n" + lines[1] + lines[1][:40]
	must(t, os.WriteFile(history, []byte(torn), 0o600))

	if o, _ := test(t, args...); o.code != 0 {
		t.Errorf("exit code %d: %s", o.code, o.err)
	}
	if now := read(t, history); !strings.HasPrefix(now, torn+"\n{") || strings.Count(now, "\n") != strings.Count(torn, "\n")+2 {
		t.Errorf("the torn line was not ended before the new one:\n%s", now)
	}
	o := start(t, environment(token), taper, "net", "compare", history).wait(t)
	says(t, o.out+o.err, "Line 2 is left out", "Line 3 is left out", "Line 4 is left out", "Line 6 is left out", "newer")
	if o.code != 0 {
		t.Errorf("exit code %d: %s%s", o.code, o.out, o.err)
	}
}

// The token is in nothing that is printed, kept or logged, and in nobody's command line.
func TestTokenIsSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	must(t, os.WriteFile(file, []byte(token+"\n"), 0o600))
	a := w.serve(t, "--token-file", file)
	history, report := filepath.Join(dir, "net.jsonl"), filepath.Join(dir, "report.html")
	for _, format := range []string{"--json", "--csv", "--json=false"} {
		command := []string{taper, "net", "test", format, "--tests", "tcp_lat,udp_lat", "--token-file", file, "--history", history, "--report", report, "--sustain", "0", "--trial", "100ms", "--rounds", "3", "--budget", "1s", a.address}
		r := start(t, environment(""), command...)
		for _, pid := range []int{r.cmd.Process.Pid, a.PID()} {
			unspoken(t, "a command line", read(t, fmt.Sprintf("/proc/%d/cmdline", pid)))
		}
		if o := r.wait(t); o.code != 0 {
			t.Errorf("%s: exit code %d: %s", format, o.code, o.err)
		}
	}
	unspoken(t, "the history", read(t, history))
	unspoken(t, "the report", read(t, report))
	// As a flag, where people try it first: it is refused without being repeated.
	for _, try := range [][]string{{"--token", token}, {"--token=" + token}} {
		o := start(t, environment(""), testCommand(append(try, a.address)...)...).wait(t)
		if o.code != 2 {
			t.Errorf("%v: exit code %d instead of 2", try, o.code)
		}
		says(t, o.err, "--token")
	}
}
