package net_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"taper.dev/taper/internal/lab/netns"
	"taper.dev/taper/internal/lab/process"
	"taper.dev/taper/internal/probe"
)

// token is what agents here are started with. Whatever the program says is searched for it.
const token = "hush-0123456789abcdef-never-shown"

// patience is how long anything here may take.
const patience = 40 * time.Second

// worlds counts them, so that each has addresses of its own.
var worlds atomic.Int32

// world is a machine far away, and the router on the way to it, where firewalls are. The
// near machine is this program's network.
type world struct {
	router, far *netns.Namespace
	// here is this machine's address on the way, there the far machine's.
	here, there netip.Addr
}

// Names of the router's devices.
const (
	towardsNear = "near"
	towardsFar  = "far"
)

func newWorld(t *testing.T) *world {
	t.Helper()
	need(t)
	n := byte(worlds.Add(1))
	w := &world{here: netip.AddrFrom4([4]byte{10, 100, n, 1}), there: netip.AddrFrom4([4]byte{10, 200, n, 2})}
	for _, space := range []**netns.Namespace{&w.router, &w.far} {
		made, err := netns.New()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(made.Close)
		*space = made
	}
	device := fmt.Sprintf("world%d", n)
	gate := netip.AddrFrom4([4]byte{10, 100, n, 2})
	must(t, w.router.Link(netns.End{Name: device, Prefix: netip.PrefixFrom(w.here, 24)}, netns.End{Name: towardsNear, Prefix: netip.PrefixFrom(gate, 24)}))
	must(t, w.router.Do(func() error {
		out := netns.End{Name: towardsFar, Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 200, n, 1}), 24)}
		if err := w.far.Join(out, netns.End{Name: "eth0", Prefix: netip.PrefixFrom(w.there, 24)}); err != nil {
			return err
		}
		return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
	}))
	tool(t, "ip", "route", "add", netip.PrefixFrom(w.there, 24).Masked().String(), "via", gate.String())
	t.Cleanup(func() { must(t, netns.Remove(device)) })
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tool runs a program that must succeed.
func tool(t *testing.T, command ...string) {
	t.Helper()
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(command, " "), err, out)
	}
}

// in is a command line in another network.
func in(n *netns.Namespace, command ...string) []string {
	return append([]string{"nsenter", "--net=" + n.Path()}, command...)
}

// drop has the router swallow packets without a word, as firewalls do: selector is that of
// an `ip rule`.
func (w *world) drop(t *testing.T, selector string) {
	t.Helper()
	tool(t, in(w.router, append(strings.Fields("ip rule add pref 200 blackhole"), strings.Fields(selector)...)...)...)
}

// agent is one that runs: its log, and the address to measure to.
type agent struct {
	*process.Process
	log     string
	address string
}

// serve starts an agent on the far machine.
func (w *world) serve(t *testing.T, args ...string) *agent {
	t.Helper()
	return serve(t, in(w.far), w.there.String(), args...)
}

// serve starts an agent within the command line that leads to its machine.
func serve(t *testing.T, machine []string, address string, args ...string) *agent {
	t.Helper()
	command := append(append(machine, taper, "net", "serve", "--verbose"), args...)
	path, err := exec.LookPath(command[0])
	must(t, err)
	a := &agent{log: filepath.Join(t.TempDir(), "agent.log"), address: address}
	a.Process, err = process.Start(process.Spec{Name: "agent", Path: path, Args: command[1:], Env: environment(token), Log: a.log})
	must(t, err)
	t.Cleanup(func() {
		_ = syscall.Kill(a.PID(), syscall.SIGCONT) // it may have been stopped
		a.Stop(5 * time.Second)
		text, _ := os.ReadFile(a.log)
		unspoken(t, "the agent's log", string(text))
	})
	a.await(t, "Listening on", 1)
	return a
}

func environment(token string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TERM=dumb"}
	if token != "" {
		env = append(env, "TAPER_NET_TOKEN="+token)
	}
	return env
}

// await waits until the log says something so many times.
func (a *agent) await(t *testing.T, what string, times int) {
	t.Helper()
	must(t, process.Await(t.Context(), a.Process, func(context.Context) error {
		text, err := os.ReadFile(a.log)
		if n := strings.Count(string(text), what); err == nil && n < times {
			err = fmt.Errorf("its log says %q %d times, not %d:\n%s", what, n, times, text)
		}
		return err
	}, patience))
}

// trials is what an agent's log says for each.
const trials = `msg="far end of a trial"`

// running is taper under way.
type running struct {
	cmd      *exec.Cmd
	out, err bytes.Buffer
	began    time.Time
}

// outcome is what became of it.
type outcome struct {
	code     int
	out, err string
	took     time.Duration
}

// quick are flags with which tests take a second rather than a minute.
var quick = []string{"--rounds", "2", "--budget", "3s", "--sustain", "0", "--trial", "100ms"}

// start runs taper with an environment; the command line is all of it.
func start(t *testing.T, env []string, command ...string) *running {
	t.Helper()
	need(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	r := &running{cmd: exec.CommandContext(ctx, command[0], command[1:]...), began: time.Now()}
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr, r.cmd.Dir = env, &r.out, &r.err, folder
	must(t, r.cmd.Start())
	return r
}

func (r *running) wait(t *testing.T) outcome {
	t.Helper()
	err := r.cmd.Wait()
	o := outcome{code: r.cmd.ProcessState.ExitCode(), out: r.out.String(), err: r.err.String(), took: time.Since(r.began)}
	if o.code < 0 {
		t.Fatalf("%v did not end by itself: %v\n%s%s", r.cmd.Args, err, o.out, o.err)
	}
	unspoken(t, "what the program printed", o.out+o.err)
	for _, trace := range []string{"goroutine ", "panic:", "%!"} {
		if strings.Contains(o.out+o.err, trace) {
			t.Errorf("there is %q in what the program printed:\n%s%s", trace, o.out, o.err)
		}
	}
	return o
}

// test runs `taper net test` to its end, with JSON on its output.
func test(t *testing.T, args ...string) (outcome, probe.Result) {
	t.Helper()
	o := start(t, environment(token), testCommand(args...)...).wait(t)
	return o, o.result(t)
}

func testCommand(args ...string) []string {
	return append([]string{taper, "net", "test", "--json"}, args...)
}

// result is what was printed; nothing if nothing was.
func (o outcome) result(t *testing.T) (r probe.Result) {
	t.Helper()
	if o.out == "" {
		return r
	}
	if err := json.Unmarshal([]byte(o.out), &r); err != nil {
		t.Fatalf("%v in\n%s", err, o.out)
	}
	return r
}

// unspoken fails the test if a text has the token in it.
func unspoken(t *testing.T, what, text string) {
	t.Helper()
	if strings.Contains(text, token) {
		t.Errorf("the token is in %s:\n%s", what, text)
	}
}

// says fails the test if a text lacks one of the parts.
func says(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in:\n%s", part, text)
		}
	}
}

// refused fails the test unless the program has failed, with nothing but one line that has
// these parts.
func (o outcome) refused(t *testing.T, parts ...string) {
	t.Helper()
	if o.code != 1 || o.out != "" {
		t.Errorf("exit code %d instead of 1, output %q", o.code, o.out)
	}
	if !strings.HasPrefix(o.err, "taper: ") || strings.Count(o.err, "\n") != 1 {
		t.Errorf("not one line of an error:\n%s", o.err)
	}
	says(t, o.err, parts...)
}

// of finds what a result has of a test; nil if there is nothing.
func of(r probe.Result, test probe.Test, way probe.Direction) *probe.TestResult {
	for i, found := range r.Tests {
		if found.Test == test && found.Direction == way {
			return &r.Tests[i]
		}
	}
	return nil
}

// measured fails the test unless there are so many whole trials at least.
func measured(t *testing.T, r probe.Result, test probe.Test, least int) {
	t.Helper()
	found := of(r, test, probe.Out)
	if found == nil {
		t.Errorf("%s was not measured", test)
	} else if len(found.Trials) < least {
		t.Errorf("%s: %d trials, not %d; %d ended early: %s", test, len(found.Trials), least, found.Incomplete, found.Why)
	}
}

// idle fails the test unless the agent takes another trial, since it is done with those
// before.
func (a *agent) idle(t *testing.T) {
	t.Helper()
	o, r := test(t, append(quick, "--tests", "tcp_lat", "--wait", "5s", a.address)...)
	if o.code != 0 {
		t.Errorf("exit code %d: %s", o.code, o.err)
	}
	measured(t, r, probe.TCPLatency, 1)
}

// carries waits until so many bytes went through the router to the far machine.
func (w *world) carries(t *testing.T, bytes uint64) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		var sent uint64
		must(t, w.router.Do(func() error {
			link, err := netlink.LinkByName(towardsFar)
			if err == nil {
				sent = link.Attrs().Statistics.TxBytes
			}
			return err
		}))
		if sent >= bytes {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes went through, not %d", sent, bytes)
		}
	}
}
