package net_test

import (
	"strings"
	"syscall"
	"testing"

	"taper.dev/taper/internal/probe"
)

// Two measure with one agent: they take turns, and who will not wait is told who has it.
func TestAgentIsBusy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.serve(t)
	first := start(t, environment(token), testCommand("--tests", "tcp_bw", "--direction", "out", "--sustain", "6s", "--trial", "100ms", "--rounds", "1", "--budget", "1s", a.address)...)
	w.carries(t, 1e6)
	o, _ := test(t, append(quick, "--tests", "tcp_lat", "--wait", "100ms", a.address)...)
	o.refused(t, w.there.String(), "at another trial", "busy with tcp_bw", w.here.String())
	o, r := test(t, append(quick, "--tests", "tcp_lat", "--wait", "20s", a.address)...)
	if o.code != 0 {
		t.Errorf("who waits ends with %d: %s", o.code, o.err)
	}
	measured(t, r, probe.TCPLatency, 1)
	if o := first.wait(t); o.code != 0 {
		t.Errorf("who was first ends with %d: %s", o.code, o.err)
	}
}

// A path that dies takes the others not with it.
func TestOnePathDies(t *testing.T) {
	t.Parallel()
	sound, doomed := newWorld(t), newWorld(t)
	good, bad := sound.serve(t), doomed.serve(t)
	r := start(t, environment(token), testCommand("--tests", "tcp_lat", "--sustain", "0", "--trial", "100ms", "--rounds", "10", "--budget", "6s",
		"sound="+good.address, "doomed="+bad.address)...)
	bad.await(t, trials, 4)
	must(t, syscall.Kill(bad.PID(), syscall.SIGKILL))
	o := r.wait(t)
	if o.code != 1 {
		t.Errorf("exit code %d instead of 1", o.code)
	}
	says(t, o.err, "not whole", "doomed", doomed.there.String())
	kept := o.result(t)
	measured(t, kept, probe.TCPLatency, 5)
	if kept.Incomplete != "" || len(kept.Others) != 1 {
		t.Fatalf("the sound path is marked %q; others: %+v", kept.Incomplete, kept.Others)
	}
	measured(t, kept.Others[0], probe.TCPLatency, 1)
	says(t, kept.Others[0].Incomplete, "given up", doomed.there.String())
}

// A path that nobody answers on from the start: the other is measured all the same.
func TestOnePathIsDeadFromTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.serve(t)
	o, r := test(t, append(quick, "--tests", "tcp_lat", "sound="+a.address, "dead="+a.address+":4001")...)
	if o.code != 1 {
		t.Errorf("exit code %d instead of 1", o.code)
	}
	says(t, o.err, "not whole", "dead", w.there.String()+":4001", "connection refused")
	measured(t, r, probe.TCPLatency, 2)
	if len(r.Others) != 1 || r.Incomplete != "" || r.Others[0].Incomplete == "" {
		t.Errorf("marked %q, others: %+v", r.Incomplete, r.Others)
	}
}

// A name of both families: it is said which was measured, and flags decide.
func TestBothFamilies(t *testing.T) {
	t.Parallel()
	need(t)
	serve(t, nil, "", "--listen", ":4700")
	for _, c := range []struct{ flag, to, other string }{
		{"-4", ownIPv4 + ":4700", ""},
		{"-6", "[" + ownIPv6 + "]:4700", ""},
		{"--tls=false", ":4700", "both.test:4700 has other addresses too"},
	} {
		o, r := test(t, append(quick, "--tests", "tcp_lat,udp_lat", c.flag, "both.test:4700")...)
		if o.code != 0 {
			t.Errorf("%s: exit code %d: %s", c.flag, o.code, o.err)
			continue
		}
		measured(t, r, probe.TCPLatency, 1)
		measured(t, r, probe.UDPLatency, 1)
		says(t, r.To, c.to)
		if notes := strings.Join(r.Conditions.Notes, "\n"); strings.Contains(notes, "has other addresses") != (c.other != "") {
			t.Errorf("%s: notes %q", c.flag, notes)
		}
	}
	o, _ := test(t, "-6", "old.test:4700")
	o.refused(t, "old.test:4700", "no address of IPv6", ownIPv4)
}
