package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"taper.dev/taper/internal/lab/netns"
	"taper.dev/taper/internal/probe"
)

// switched is one for all tests: they are in one network.
var switched = sync.OnceValue(func() error {
	return netns.Switch(netns.End{Name: lan, Prefix: lanPrefix})
})

// needRoot skips the test, or makes the switch. Tests that need it are not parallel, since
// machines have the same addresses in each of them.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("TAPER_TEST_REQUIRE_ALL") != "" {
			t.Fatal("networks of their own need root")
		}
		t.Skip("networks of their own need root")
	}
	if err := switched(); err != nil {
		t.Fatal(err)
	}
}

func testPair(t *testing.T) *pair {
	t.Helper()
	needRoot(t)
	p, err := newPair(t.TempDir(), DefaultOptions().Shape)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func TestOverlaysLeaveRoomForTheirHeaders(t *testing.T) {
	p := testPair(t)
	for name, want := range map[string]int{native.name: 1500, shaped.name: 1500, vxlan.name: 1450, userSpace.name: 1472} {
		for _, m := range []*machine{p.a, p.b} {
			err := m.network.Do(func() error {
				link, err := netlink.LinkByName(name)
				if err == nil && link.Attrs().MTU != want {
					err = fmt.Errorf("its MTU is %d, want %d", link.Attrs().MTU, want)
				}
				return err
			})
			if err != nil {
				t.Errorf("%s on %s: %v", name, m.name, err)
			}
		}
	}
}

// goodput is how fast machine a sends to b by plain sockets, bytes per second, in the time
// after the first part of it.
func goodput(t *testing.T, p *pair, l link, skip, measure time.Duration) float64 {
	t.Helper()
	var listener net.Listener
	err := p.b.network.Do(func() (err error) {
		listener, err = net.Listen("tcp", netip.AddrPortFrom(l.b.Addr(), 0).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var conn net.Conn
	err = p.a.network.Do(func() (err error) {
		conn, err = net.DialTimeout("tcp", listener.Addr().String(), 5*time.Second)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", l.name, err)
	}
	received, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	defer conn.Close()
	sending.Go(func() {
		buffer := make([]byte, 128<<10)
		for {
			if _, err := conn.Write(buffer); err != nil {
				return
			}
		}
	})
	defer received.Close()
	if _, _, err := readFor(received, skip); err != nil {
		t.Fatal(err)
	}
	n, took, err := readFor(received, measure)
	if err != nil {
		t.Fatal(err)
	}
	return float64(n) / took.Seconds()
}

// readFor reads for so long.
func readFor(conn net.Conn, d time.Duration) (bytes int64, took time.Duration, err error) {
	began := time.Now()
	if err := conn.SetReadDeadline(began.Add(d)); err != nil {
		return 0, 0, err
	}
	bytes, err = io.CopyBuffer(onlyWriter{io.Discard}, onlyReader{conn}, make([]byte, 128<<10))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	return bytes, time.Since(began), err
}

// Without the methods by which copying would take buffers of its own.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

func TestOverlaysCarryTCP(t *testing.T) {
	p := testPair(t)
	const skip, measured = 100 * time.Millisecond, 700 * time.Millisecond
	speed := map[string]float64{}
	for _, l := range []link{native, vxlan, userSpace} {
		speed[l.name] = goodput(t, p, l, skip, measured)
		t.Logf("%s: %.2f Gbit/s", l.name, 8*speed[l.name]/1e9)
		if speed[l.name] < 1e6 {
			t.Errorf("%s carries %.0f bytes per second", l.name, speed[l.name])
		}
	}
	// Measured 8 to 12 %: copying packet by packet is dear, whatever else runs here.
	if share := speed[userSpace.name] / speed[native.name]; share > 0.5 {
		t.Errorf("the overlay in user space carries %.0f %% of the native cable: it cannot be what it says", 100*share)
	}
}

func TestTheShapedCableHoldsItsRate(t *testing.T) {
	p := testPair(t)
	// At 1.5 Gbit/s the bucket lasts for 0.4 s, at any more for less.
	got := 8 * goodput(t, p, shaped, time.Second, 2*time.Second)
	// Of 1,514 bytes that are counted 1,448 arrive.
	want := float64(DefaultOptions().Shape.BitsPerS) * 1448 / 1514
	t.Logf("%.1f Mbit/s of payload, %.1f expected", got/1e6, want/1e6)
	if got < 0.95*want || got > 1.05*want {
		t.Errorf("%.1f Mbit/s in the long run, want %.1f ± 5 %%", got/1e6, want/1e6)
	}
}

func TestAgentsMeasureByEachPath(t *testing.T) {
	p := testPair(t)
	if err := p.serve(t.Context(), DefaultOptions().Agent); err != nil {
		t.Fatal(err)
	}
	for l, mtu := range map[link]int{native: 1500, shaped: 1500, vxlan: 1450, userSpace: 1472} {
		s := probe.Default(probe.PathMTU)
		s.Duration = 300 * time.Millisecond
		trial, err := p.path(l).Prober.Run(t.Context(), s)
		if err != nil || trial.Incomplete != "" {
			t.Errorf("%s: %v %s", l.name, err, trial.Incomplete)
			continue
		}
		if trial.PathMTU == nil || trial.PathMTU.Out != mtu || trial.PathMTU.In != mtu {
			t.Errorf("%s: %+v, want %d both ways", l.name, trial.PathMTU, mtu)
		}
		if trial.FarHost == nil || trial.FarHost.Node != "b" {
			t.Errorf("%s: measured with %+v", l.name, trial.FarHost)
		}
	}
}

func TestADeadAgentEndsTheRun(t *testing.T) {
	p := testPair(t)
	if err := p.serve(t.Context(), DefaultOptions().Agent); err != nil {
		t.Fatal(err)
	}
	err := guarded(t.Context(), p.watch, func(ctx context.Context) error {
		if err := syscall.Kill(p.b.running.PID(), syscall.SIGKILL); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if err == nil || !strings.Contains(err.Error(), "the agent on machine b died") {
		t.Errorf("%v, want what the agent died of", err)
	}
}

func TestClosingLeavesNothing(t *testing.T) {
	p := testPair(t)
	if err := p.serve(t.Context(), DefaultOptions().Agent); err != nil {
		t.Fatal(err)
	}
	agents := []int{p.a.running.PID(), p.b.running.PID()}
	p.Close()
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if name := l.Attrs().Name; name != "lo" && name != lan {
			t.Errorf("the link %s is left", name)
		}
	}
	for _, pid := range agents {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is left: %v", pid, err)
		}
	}
}
