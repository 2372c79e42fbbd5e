package process

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// asParent makes the test binary start a child, print its number and wait.
const asParent = "TAPER_TEST_PARENT_LOG"

func TestMain(m *testing.M) {
	if log := os.Getenv(asParent); log != "" {
		p, err := Start(Spec{Name: "child", Path: "/bin/sleep", Args: []string{"60"}, Log: log})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(p.PID())
		<-p.Done()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func startShell(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start(Spec{
		Name: "shell",
		Path: "/bin/sh",
		Args: []string{"-c", script},
		Log:  filepath.Join(t.TempDir(), "log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(0) })
	return p
}

// running tells whether a process exists and is not a zombie.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within 5s: %s", what)
}

// printedPID waits for a process number on the first line of the log.
func printedPID(t *testing.T, p *Process) int {
	t.Helper()
	var pid int
	eventually(t, "a number in the log", func() bool {
		text, err := os.ReadFile(p.log)
		if err != nil {
			t.Fatal(err)
		}
		line, _, complete := strings.Cut(string(text), "\n")
		pid, err = strconv.Atoi(line)
		return complete && err == nil
	})
	return pid
}

func TestErrQuotesTheEndOfTheLog(t *testing.T) {
	tests := []struct {
		name, script, want string
	}{
		{"both outputs", `echo one; echo two >&2; exit 3`, `shell died: exit status 3: one; two`},
		{"last lines", `seq 100000; exit 1`, `shell died: exit status 1: 99998; 99999; 100000`},
		{"no newline", `printf word; exit 1`, `shell died: exit status 1: word`},
		{"success", `echo bye`, `shell died: exit status 0: bye`},
		{"signal", `echo ouch; kill -9 $$`, `shell died: signal: killed: ouch`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := startShell(t, test.script)
			<-p.Done()
			if got := p.Err(); got == nil || got.Error() != test.want {
				t.Errorf("Err() = %v, want %s", got, test.want)
			}
		})
	}
	t.Run("long line", func(t *testing.T) {
		p := startShell(t, `head -c 1000000 /dev/zero | tr '\0' x; exit 1`)
		<-p.Done()
		if got := len(p.Err().Error()); got < quotedBytes || got > quotedBytes+100 {
			t.Errorf("the error has %d bytes, want about %d", got, quotedBytes)
		}
	})
	t.Run("empty", func(t *testing.T) {
		p := startShell(t, `exit 1`)
		<-p.Done()
		if got := p.Err().Error(); !strings.Contains(got, p.log) {
			t.Errorf("%q does not name the empty log %s", got, p.log)
		}
	})
}

func TestStartFails(t *testing.T) {
	dir := t.TempDir()
	if _, err := Start(Spec{Name: "envoy lab-01", Path: dir + "/missing", Log: dir + "/log"}); err == nil ||
		!strings.HasPrefix(err.Error(), "starting envoy lab-01: ") || !strings.Contains(err.Error(), dir+"/missing") {
		t.Errorf("missing executable: %v", err)
	}
	if _, err := Start(Spec{Name: "envoy lab-01", Path: "/bin/true", Log: dir + "/no/log"}); err == nil ||
		!strings.Contains(err.Error(), dir+"/no/log") {
		t.Errorf("log in a missing folder: %v", err)
	}
}

func TestStopIsGraceful(t *testing.T) {
	p := startShell(t, `trap 'echo asked; exit 0' TERM; echo $$; while :; do sleep 0.01; done`)
	printedPID(t, p)
	if err := p.Err(); err != nil {
		t.Fatalf("Err() of a running process = %v", err)
	}
	p.Stop(10 * time.Second)
	p.Stop(10 * time.Second) // once more is harmless
	if err := p.Err(); err != nil {
		t.Errorf("Err() after Stop = %v", err)
	}
	if got := lastLines(p.log); !strings.HasSuffix(got, "asked") {
		t.Errorf("log %q: the process was not asked to end", got)
	}
	if running(p.PID()) {
		t.Error("still running")
	}
}

func TestStopKillsTheGroupAfterGrace(t *testing.T) {
	p := startShell(t, `trap '' TERM; sleep 60 & echo $!; wait`)
	child := printedPID(t, p)
	p.Stop(10 * time.Millisecond)
	if running(p.PID()) {
		t.Error("the leader still runs")
	}
	eventually(t, "the child is gone", func() bool { return !running(child) })
}

func TestAChildOfADeadLeaderIsKilled(t *testing.T) {
	p := startShell(t, `sleep 60 & echo $!`)
	child := printedPID(t, p)
	<-p.Done()
	eventually(t, "the child is gone", func() bool { return !running(child) })
}

func TestOutlivesTheThreadThatAskedForIt(t *testing.T) {
	started := make(chan *Process)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		p, err := Start(Spec{Name: "sleep", Path: "/bin/sleep", Args: []string{"60"}, Log: filepath.Join(t.TempDir(), "log")})
		if err != nil {
			t.Error(err)
		}
		started <- p
	}()
	p := <-started
	if p == nil {
		return
	}
	defer p.Stop(0)
	select {
	case <-p.Done():
		t.Errorf("ended with the thread: %v", p.Err())
	case <-time.After(200 * time.Millisecond):
	}
}

func TestNeverOutlivesUs(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), asParent+"="+filepath.Join(t.TempDir(), "log"))
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if !running(child) {
		t.Fatal("the child does not run")
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed
	eventually(t, "the child is gone", func() bool { return !running(child) })
}
