package agent

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
)

func TestGrant(t *testing.T) {
	t.Parallel()
	limits := Limits{Duration: 2 * time.Second, Bytes: 1000, BufferBytes: 1 << 20}.withDefaults()
	for name, test := range map[string]struct {
		change func(*probe.Spec)
		err    string
		most   int64
	}{
		"as it is":        {func(*probe.Spec) {}, "", 1000},
		"less bytes":      {func(s *probe.Spec) { s.MaxBytes = 10 }, "", 10},
		"more bytes":      {func(s *probe.Spec) { s.MaxBytes = 2000 }, "", 1000},
		"too long":        {lasting(3 * time.Second), "longer than the 2s", 0},
		"large messages":  {func(s *probe.Spec) { s.MessageBytes = 1 << 20 }, "2097152 bytes of buffers", 0},
		"many streams":    {func(s *probe.Spec) { s.Streams = 128 }, "use fewer streams", 0},
		"no such test":    {func(s *probe.Spec) { s.Test = "ping" }, `no test "ping"`, 0},
		"nothing at all":  {func(s *probe.Spec) { *s = probe.Spec{} }, "no test", 0},
		"negative length": {func(s *probe.Spec) { s.Duration = -1 }, "not possible", 0},
	} {
		spec, err := limits.grant(short(probe.TCPBandwidth, test.change))
		if test.err != "" {
			wants(t, err, test.err)
			continue
		}
		if err != nil || spec.MaxBytes != test.most {
			t.Errorf("%s: %d bytes at most, %v; want %d", name, spec.MaxBytes, err, test.most)
		}
	}
	if _, err := Listen(t.Context(), Options{Address: "127.0.0.1:0", Limits: Limits{Bytes: -1}}); err == nil {
		t.Error("a negative limit is taken")
	}
}

func TestPeers(t *testing.T) {
	t.Parallel()
	list := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fe80::/10")}
	for address, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "11.0.0.1": false, "fe80::1%eth0": true, "::1": false,
	} {
		if got := contains(list, netip.MustParseAddr(address)); got != want {
			t.Errorf("%s among %v: %v", address, list, got)
		}
	}
	s := serve(t, func(o *Options) { o.Limits.Peers = list })
	_, err := Dial(t.Context(), s.Addr().String(), options())
	wants(t, err, "it takes nothing from 127.0.0.1", "not among the peers")
	eventually(t, "counting it", func() bool { return s.Stats().Refused == 1 })
}

func TestRefusedTrials(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *Options) { o.Limits.Duration = time.Second })
	c := connect(t, s.Addr().String())
	_, err := c.Run(t.Context(), short(probe.TCPBandwidth, lasting(2*time.Second)))
	wants(t, err, s.Addr().String(), "longer than the 1s that the agent allows")
	if trial, err := c.Run(t.Context(), short(probe.TCPBandwidth)); err != nil || trial.Incomplete != "" {
		t.Error("after a refusal:", err, trial.Incomplete)
	}
}

func TestBytesAreLimited(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *Options) { o.Limits.Bytes = 1 << 20 })
	c := connect(t, s.Addr().String())
	trial, err := c.Run(t.Context(), short(probe.TCPBandwidth, lasting(time.Second)))
	if err != nil {
		t.Fatal(err)
	}
	if trial.Near.SentBytes > 2<<20 || trial.Incomplete != "the limit of 1048576 bytes was reached, the most that the agent allows" {
		t.Errorf("%d bytes, %q", trial.Near.SentBytes, trial.Incomplete)
	}
}

func TestOneAtATime(t *testing.T) {
	t.Parallel()
	s := serve(t)
	long := make(chan error, 1)
	first := connect(t, s.Addr().String())
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := first.Run(ctx, short(probe.TCPBandwidth, lasting(30*time.Second)))
		long <- err
	}()
	eventually(t, "the first trial", func() bool { return s.Stats().Trials == 1 })

	second := connect(t, s.Addr().String(), func(o *DialOptions) { o.Wait = 50 * time.Millisecond })
	_, err := second.Run(t.Context(), short(probe.UDPBandwidth))
	if !errors.Is(err, probe.ErrBusy) {
		t.Error("not busy:", err)
	}
	wants(t, err, "busy with tcp_bw for 127.0.0.1:", "since ", s.Addr().String())

	// Those who wait long enough all get their turn.
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			c := connect(t, s.Addr().String(), func(o *DialOptions) { o.Wait = 10 * time.Second })
			if trial, err := c.Run(t.Context(), short(probe.TCPBandwidth)); err != nil || trial.Incomplete != "" {
				t.Error("waited in vain:", err, trial.Incomplete)
			}
		})
	}
	cancel()
	if err := <-long; err != nil {
		t.Error(err)
	}
	all.Wait()
}

// Who calls its request off while it waits is not waited for.
func TestWaitCalledOff(t *testing.T) {
	t.Parallel()
	s := serve(t)
	release, err := s.turn.take(t.Context(), 0, "a test")
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, s.Addr().String(), func(o *DialOptions) { o.Wait = time.Minute })
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, enough)
	defer cancel()
	begun := time.Now()
	if _, err = c.Run(ctx, short(probe.TCPBandwidth)); !errors.Is(err, enough) || time.Since(begun) > 5*time.Second {
		t.Errorf("after %v: %v", time.Since(begun), err)
	}
	release()
	if trial, err := c.Run(t.Context(), short(probe.TCPBandwidth)); err != nil || trial.Incomplete != "" {
		t.Error("the connection is spoilt:", err, trial.Incomplete)
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *Options) { o.Limits.Sessions = 2 })
	first := connect(t, s.Addr().String())
	connect(t, s.Addr().String())
	_, err := Dial(t.Context(), s.Addr().String(), options())
	wants(t, err, "2 others are connected, as many as it takes")
	first.Close()
	eventually(t, "room for another", func() bool { return s.Stats().Sessions == 1 })
	connect(t, s.Addr().String())
}

func TestTally(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for range 1000 {
		s.tallies.garbage.add(s.logger, "peer", "x")
	}
	if n := strings.Count(s.log.String(), "is no taper"); n != 1 || s.Stats().Garbage != 1000 {
		t.Errorf("%d lines for %d", n, s.Stats().Garbage)
	}
}
