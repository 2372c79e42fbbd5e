package net_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"taper.dev/taper/internal/probe"
)

// Nobody in particular, without a capability, can measure all there is, and stay on a CPU.
func TestWithoutPrivileges(t *testing.T) {
	t.Parallel()
	need(t, "setpriv")
	nobody := strings.Fields("setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set -all --inh-caps -all --no-new-privs")
	w := newWorld(t)
	a := serve(t, append(in(w.far), nobody...), w.there.String())
	command := append(slices.Clone(nobody), testCommand("--rounds", "1", "--budget", "1s", "--sustain", "100ms", "--trial", "100ms", "--mode", "hot", "--cpu", "0", "--peer-cpu", "0",
		"--tests", "tcp_bw,tcp_lat,udp_bw,udp_lat,conn,path_mtu", a.address)...)
	o := start(t, environment(token), command...).wait(t)
	if o.code != 0 {
		t.Fatalf("exit code %d: %s", o.code, o.err)
	}
	r := o.result(t)
	for _, name := range []probe.Test{probe.TCPBandwidth, probe.TCPLatency, probe.UDPBandwidth, probe.UDPLatency, probe.Connect, probe.PathMTU} {
		measured(t, r, name, 1)
	}
	for end, cpus := range map[string][]int{"near": r.Conditions.NearCPUs, "far": r.Conditions.FarCPUs} {
		if len(cpus) != 1 || cpus[0] != 0 {
			t.Errorf("the %s end was on CPUs %v instead of 0 alone", end, cpus)
		}
	}
}

// A CPU that is not there is named, rather than measuring somewhere else.
func TestNoSuchCPU(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.serve(t)
	for _, flag := range []string{"--cpu", "--peer-cpu"} {
		o, _ := test(t, append(quick, "--tests", "tcp_lat", flag, "1000", a.address)...)
		o.refused(t, "1000", "CPU")
	}
}

// An agent that a CPU limit stops measures the limit, and it is said so.
func TestCPULimit(t *testing.T) {
	t.Parallel()
	need(t)
	group := limited(t)
	w := newWorld(t)
	a := w.serve(t)
	must(t, os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(fmt.Sprint(a.PID())), 0))
	o, r := test(t, append(quick, "--tests", "tcp_bw", "--direction", "out", a.address)...)
	if o.code != 0 {
		t.Fatalf("exit code %d: %s", o.code, o.err)
	}
	if s := r.Conditions.ThrottledS; s == nil || *s <= 0 {
		t.Errorf("not stopped by a limit of a tenth of a CPU: %s", o.out)
	}
	says(t, strings.Join(r.Conditions.Notes, "\n"), "A CPU limit stopped")
}

// limited makes a group of processes that have a tenth of a CPU together.
func limited(t *testing.T) string {
	t.Helper()
	for _, version := range []struct{ root, knows, limit, tenth string }{
		{"/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "cpu.cfs_quota_us", "10000"}, // of 100,000 µs
		{"/sys/fs/cgroup", "cgroup.controllers", "cpu.max", "10000 100000"},
	} {
		if _, err := os.Stat(filepath.Join(version.root, version.knows)); err != nil {
			continue
		}
		group := filepath.Join(version.root, fmt.Sprintf("taper-test-%d", os.Getpid()))
		must(t, os.Mkdir(group, 0o755))
		t.Cleanup(func() { must(t, os.Remove(group)) })
		if os.WriteFile(filepath.Join(group, version.limit), []byte(version.tenth), 0) == nil {
			return group
		}
	}
	missing(t, "a control group with a CPU limit")
	return ""
}
