package net_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
)

// An agent that ends in the middle, or hangs, or cannot be reached any more: what was
// measured before is kept, and marked, and it is told who is gone.
func TestAgentIsLost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		lose   func(*testing.T, *world, *agent)
		within time.Duration // from the loss to the end
		why    string
	}{
		{"killed", func(t *testing.T, _ *world, a *agent) { must(t, syscall.Kill(a.PID(), syscall.SIGKILL)) }, 5 * time.Second, "connection"},
		{"stopped", func(t *testing.T, _ *world, a *agent) { must(t, syscall.Kill(a.PID(), syscall.SIGSTOP)) }, 20 * time.Second, "nothing was heard for 5s"},
		{"unplugged", func(t *testing.T, w *world, _ *agent) {
			tool(t, in(w.router, "ip", "link", "set", towardsFar, "down")...)
		}, 20 * time.Second, "nothing was heard for 5s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := w.serve(t)
			r := start(t, environment(token), testCommand("--tests", "tcp_lat", "--trial", "100ms", "--rounds", "200", a.address)...)
			a.await(t, trials, 7)
			lost := time.Now()
			c.lose(t, w, a)
			o := r.wait(t)
			if took := time.Since(lost); took > c.within {
				t.Errorf("it took %v to see that nobody is there", took)
			}
			kept := o.result(t)
			measured(t, kept, probe.TCPLatency, 3)
			says(t, kept.Incomplete, "given up after", w.there.String(), c.why)
			if o.code != 1 {
				t.Errorf("exit code %d of a result that is not whole", o.code)
			}
			says(t, o.err, "not whole", c.why)
		})
	}
}

// A firewall that lets TCP through and UDP not: TCP is measured as if nothing were, and
// each datagram test says what is not open.
func TestFirewallDropsUDP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.serve(t)
	w.drop(t, "ipproto udp")
	o, r := test(t, "--rounds", "3", "--budget", "30s", "--difference-latency", "10s", "--sustain", "0", "--trial", "100ms", "--tests", "tcp_lat,udp_bw,udp_lat,path_mtu", a.address)
	if o.code != 0 {
		t.Errorf("exit code %d: %s", o.code, o.err)
	}
	measured(t, r, probe.TCPLatency, 3)
	for _, name := range []probe.Test{probe.UDPBandwidth, probe.PathMTU} {
		found := of(r, name, probe.Out)
		if found == nil || len(found.Trials) > 0 || found.Incomplete == 0 {
			t.Errorf("%s: %+v, though nothing came through", name, found)
			continue
		}
		says(t, found.Why, "no datagram came back from "+w.there.String()+":4000", "while TCP gets through", "is UDP 4000 open?")
	}
}

// A firewall that lets no more connections through than there are: control is alive and
// data do not come.
func TestFirewallDropsNewConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.serve(t)
	r := start(t, environment(token), testCommand("--tests", "tcp_lat", "--trial", "100ms", "--rounds", "200", a.address)...)
	a.await(t, trials, 5)
	control := regexp.MustCompile(`test=tcp_lat peer=\S+:(\d+) `).FindStringSubmatch(read(t, a.log))
	if control == nil {
		t.Fatalf("whose trials are they?\n%s", read(t, a.log))
	}
	for _, way := range []string{"sport", "dport"} {
		tool(t, in(w.router, strings.Fields(fmt.Sprintf("ip rule add pref 100 ipproto tcp %s %s lookup main", way, control[1]))...)...)
	}
	w.drop(t, "ipproto tcp")
	o := r.wait(t)
	kept := o.result(t)
	measured(t, kept, probe.TCPLatency, 2)
	says(t, kept.Incomplete, "given up after", w.there.String()+":4000")
}

// Packets above some size vanish without a word: the path MTU is named, and streams end.
func TestMTUBlackHole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.serve(t)
	tool(t, in(w.router, "ip", "link", "set", towardsFar, "mtu", "1400")...)
	w.drop(t, "ipproto icmp") // which would have told
	o, r := test(t, append(quick, "--tests", "path_mtu,tcp_bw,tcp_lat", "--direction", "out", a.address)...)
	if o.code != 0 {
		t.Errorf("exit code %d: %s", o.code, o.err)
	}
	found := of(r, probe.PathMTU, probe.Out)
	if found == nil || found.PathMTU == nil || found.PathMTU.Out != 1400 || !found.PathMTU.BlackHole {
		t.Errorf("path MTU: %+v %s", found, o.out)
	}
	measured(t, r, probe.TCPLatency, 1)
	if bw := of(r, probe.TCPBandwidth, probe.Out); bw == nil || bw.Incomplete == 0 && len(bw.Trials) == 0 {
		t.Errorf("tcp_bw: %+v", bw)
	} else if bw.Incomplete > 0 {
		says(t, bw.Why, "silent for")
	}
}

// Both ends behind one slow link: control has to get through beside the data.
func TestSlowLink(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.serve(t)
	for _, device := range []string{towardsNear, towardsFar} {
		tool(t, in(w.router, strings.Fields("tc qdisc add dev "+device+" root tbf rate 2mbit burst 5kb latency 1s")...)...)
	}
	o, r := test(t, "--rounds", "2", "--budget", "4s", "--sustain", "0", "--trial", "500ms", "--tests", "tcp_bw,tcp_lat,udp_bw,udp_lat", a.address)
	if o.code != 0 || r.Incomplete != "" {
		t.Errorf("exit code %d, %q: %s", o.code, r.Incomplete, o.err)
	}
	for _, name := range []probe.Test{probe.TCPBandwidth, probe.TCPLatency, probe.UDPBandwidth, probe.UDPLatency} {
		measured(t, r, name, 1)
	}
	if found := of(r, probe.TCPBandwidth, probe.Out); found != nil && found.BytesPerS > 2e6/8*1.2 {
		t.Errorf("%.0f bytes/s through 2 Mbit/s", found.BytesPerS)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	must(t, err)
	return string(b)
}
