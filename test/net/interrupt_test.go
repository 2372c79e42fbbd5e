package net_test

import (
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
)

// Ctrl-C while an agent is dialled: there is nothing to keep, and it ends at once.
func TestInterruptedWhileDialling(t *testing.T) {
	t.Parallel()
	need(t)
	reached := make(chan struct{}, 1)
	address := answer(t, func(conn net.Conn) {
		reached <- struct{}{}
		_, _ = io.Copy(io.Discard, conn)
	})
	r := start(t, environment(token), testCommand(address)...)
	await(t, reached)
	o := r.interrupt(t)
	o.refused(t, "interrupted")
}

// Ctrl-C while rounds go on: the rounds until then are told, and marked, everywhere.
func TestInterruptedInRounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.serve(t)
	history, report := t.TempDir()+"/net.jsonl", t.TempDir()+"/report.html"
	r := start(t, environment(token), testCommand("--tests", "tcp_lat", "--sustain", "0", "--trial", "100ms", "--rounds", "500",
		"--history", history, "--report", report, a.address)...)
	a.await(t, trials, 7)
	o := r.interrupt(t)
	kept := o.result(t)
	measured(t, kept, probe.TCPLatency, 3)
	if o.code != 1 {
		t.Errorf("exit code %d instead of 1", o.code)
	}
	says(t, o.err, "not whole: interrupted")
	if kept.Incomplete != "interrupted" {
		t.Errorf("marked as %q", kept.Incomplete)
	}
	says(t, read(t, history), `"incomplete":"interrupted"`)
	says(t, strings.ToLower(read(t, report)), "interrupted")
	a.idle(t)
}

// Ctrl-C during the first, longer trial.
func TestInterruptedWhileLookingForShaping(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.serve(t)
	r := start(t, environment(token), testCommand("--tests", "tcp_bw", "--sustain", "20s", a.address)...)
	w.carries(t, 1e6)
	o := r.interrupt(t)
	if o.code != 1 {
		t.Errorf("exit code %d instead of 1", o.code)
	}
	says(t, o.err, "interrupted")
	a.await(t, trials, 1)
	a.idle(t)
}

// An agent ends on Ctrl-C, also amid a trial, and who measures is told.
func TestAgentIsInterrupted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.serve(t)
	r := start(t, environment(token), testCommand("--tests", "tcp_lat", "--sustain", "0", "--trial", "100ms", "--rounds", "500", a.address)...)
	a.await(t, trials, 7)
	must(t, syscall.Kill(a.PID(), syscall.SIGINT))
	select {
	case <-a.Done():
	case <-time.After(10 * time.Second):
		t.Error("the agent goes on")
	}
	o := r.wait(t)
	kept := o.result(t)
	measured(t, kept, probe.TCPLatency, 3)
	says(t, kept.Incomplete, w.there.String(), "stop")
}

func (r *running) interrupt(t *testing.T) outcome {
	t.Helper()
	asked := time.Now()
	must(t, r.cmd.Process.Signal(syscall.SIGINT))
	o := r.wait(t)
	if took := time.Since(asked); took > 8*time.Second {
		t.Errorf("it took %v to end", took)
	}
	return o
}

func await(t *testing.T, event <-chan struct{}) {
	t.Helper()
	select {
	case <-event:
	case <-time.After(patience):
		t.Fatal("nothing came")
	}
}
