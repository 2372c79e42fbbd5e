package agent

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
)

func TestDelegate(t *testing.T) {
	t.Parallel()
	const other = Token("the token of the other agent")
	a := serve(t)
	b := serve(t, func(o *Options) { o.Token, o.Host.Name, o.Host.Node = other, "pod-b", "node-\x1b[31mb" })
	p := proxyTo(t, a.Addr().String())
	c := connect(t, p.address)
	for _, test := range []probe.Test{probe.TCPBandwidth, probe.UDPBandwidth} {
		trial, err := c.Delegate(t.Context(), Target{Address: b.Addr().String(), Token: other}, short(test))
		if err != nil || trial.Incomplete != "" {
			t.Fatal(err, trial.Incomplete)
		}
		if trial.Near.SentBytes == 0 || trial.Far.ReceivedBytes != trial.Near.SentBytes {
			t.Errorf("%d bytes sent and %d received", trial.Near.SentBytes, trial.Far.ReceivedBytes)
		}
		if h := trial.FarHost; h == nil || h.Name != "pod-b" || h.Node != plain("node-\x1b[31mb") || h.Interfaces != nil {
			t.Errorf("the far end is %+v", h)
		}
	}
	if a.Stats().Trials != 2 || b.Stats().Trials != 2 {
		t.Errorf("trials: %+v and %+v", a.Stats(), b.Stats())
	}
	if strings.Contains(p.seen()+a.log.String()+b.log.String(), string(other)) {
		t.Error("the other agent's token went over the wire or into a log")
	}
	_, err := c.Delegate(t.Context(), Target{Address: b.Addr().String()}, short(probe.TCPBandwidth))
	wants(t, err, a.Addr().Addr().String(), b.Addr().String(), "the token is not the one")
	_, err = c.Delegate(t.Context(), Target{Address: "127.0.0.1:1"}, short(probe.TCPBandwidth))
	wants(t, err, "127.0.0.1:1", "connection refused")
	_, err = c.Delegate(t.Context(), Target{}, short(probe.TCPBandwidth))
	wants(t, err, "with whom")
	// The session is none the worse.
	if trial, err := c.Run(t.Context(), short(probe.TCPBandwidth)); err != nil || trial.Incomplete != "" {
		t.Error(err, trial.Incomplete)
	}
}

func TestDelegateWithoutTokens(t *testing.T) {
	t.Parallel()
	open := func(o *Options) { o.Token = "" }
	a, b := serve(t, open), serve(t, open)
	c := connect(t, a.Addr().String(), func(o *DialOptions) { o.Token = "" })
	trial, err := c.Delegate(t.Context(), Target{Address: b.Addr().String()}, short(probe.TCPBandwidth))
	if err != nil || trial.Incomplete != "" || trial.Far.ReceivedBytes == 0 {
		t.Error(err, trial)
	}
}

func TestDelegateToItself(t *testing.T) {
	t.Parallel()
	a := serve(t, func(o *Options) { o.Address = ":0" })
	c := connect(t, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), a.Addr().Port()).String())
	_, err := c.Delegate(t.Context(), Target{Address: netip.AddrPortFrom(netip.IPv6Loopback(), a.Addr().Port()).String()}, short(probe.TCPBandwidth))
	wants(t, err, "is this agent itself")
}

func TestTargets(t *testing.T) {
	t.Parallel()
	a := serve(t, func(o *Options) { o.Limits.Targets = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} })
	b := serve(t)
	c := connect(t, a.Addr().String())
	_, err := c.Delegate(t.Context(), Target{Address: b.Addr().String()}, short(probe.TCPBandwidth))
	wants(t, err, "127.0.0.1 is not among the addresses that the agent may be told to measure to")
	if n := b.Stats().Garbage + b.Stats().Stray; n != 0 || b.Stats().Trials != 0 {
		t.Error("it was dialled nevertheless")
	}
}

// All are told to measure each other at once, each needing the turn of two agents.
func TestAllAtOnce(t *testing.T) {
	t.Parallel()
	agents := []*served{serve(t), serve(t), serve(t)}
	var all sync.WaitGroup
	for i, a := range agents {
		for j, b := range agents {
			if i == j {
				continue
			}
			c := connect(t, a.Addr().String(), func(o *DialOptions) { o.Wait = 30 * time.Second })
			all.Go(func() {
				trial, err := c.Delegate(t.Context(), Target{Address: b.Addr().String()}, short(probe.TCPBandwidth, lasting(20*time.Millisecond)))
				if err != nil || trial.Incomplete != "" {
					t.Errorf("%d to %d: %v %s", i, j, err, trial.Incomplete)
				}
			})
		}
	}
	all.Wait()
}

func TestDelegateBusy(t *testing.T) {
	t.Parallel()
	a, b := serve(t), serve(t)
	release, err := b.turn.take(t.Context(), 0, "something long")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	c := connect(t, a.Addr().String(), func(o *DialOptions) { o.Wait = 300 * time.Millisecond })
	_, err = c.Delegate(t.Context(), Target{Address: b.Addr().String()}, short(probe.TCPBandwidth))
	if !isBusy(err) {
		t.Error("not busy:", err)
	}
	wants(t, err, b.Addr().String(), "busy with something long")
}

func TestDelegateCalledOff(t *testing.T) {
	t.Parallel()
	a, b := serve(t), serve(t)
	c := connect(t, a.Addr().String())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		eventually(t, "the trial", b.flowing)
		cancel()
	}()
	trial, err := c.Delegate(ctx, Target{Address: b.Addr().String()}, short(probe.TCPBandwidth, lasting(30*time.Second)))
	if err != nil || !strings.Contains(trial.Incomplete, "interrupted") {
		t.Errorf("%v, %q", err, trial.Incomplete)
	}
}
