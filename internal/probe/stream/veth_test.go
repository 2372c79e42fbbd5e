package stream_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"taper.dev/taper/internal/lab/netns"
	"taper.dev/taper/internal/probe"
)

// links counts them.
var links atomic.Int32

// link is a network beside this one with an agent in it, over a link that lets through so
// many bytes a second each way, with a queue of a tenth of that; 0 for all it can.
func link(t *testing.T, bytesPerS int) *agent {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("TAPER_TEST_REQUIRE_ALL") != "" {
			t.Fatal("a link needs root")
		}
		t.Skip("a link needs root")
	}
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ns.Close)
	// Names and addresses that no other link of these tests has, nor one of another run.
	n := os.Getpid()*2 + int(links.Add(1)%2)
	here := netns.End{Name: fmt.Sprintf("str%da", n), Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 219, byte(n >> 6), byte(n<<2) | 1}), 30)}
	there := netns.End{Name: fmt.Sprintf("str%db", n), Prefix: netip.PrefixFrom(here.Prefix.Addr().Next(), 30)}
	if err := ns.Join(here, there); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// It is gone with the namespace otherwise, a moment later.
		if l, err := netlink.LinkByName(here.Name); err == nil {
			_ = netlink.LinkDel(l)
		}
	})
	var l net.Listener
	err = ns.Do(func() (err error) {
		if err = shape(there.Name, bytesPerS); err != nil {
			return err
		}
		l, err = net.Listen("tcp", netip.AddrPortFrom(there.Prefix.Addr(), 0).String())
		return err
	})
	if err == nil {
		err = shape(here.Name, bytesPerS)
	}
	if err != nil {
		t.Fatal(err)
	}
	return attend(t, l)
}

func shape(name string, bytesPerS int) error {
	if bytesPerS == 0 {
		return nil
	}
	l, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("finding the link %s: %w", name, err)
	}
	return netlink.QdiscAdd(&netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		Rate:       uint64(bytesPerS), Limit: uint32(bytesPerS / 10), Buffer: uint32(netlink.Xmittime(uint64(bytesPerS), 16<<10)),
	})
}

// TestOverLink: on a link of 100 Mbit/s, that is what there is, less the headers.
func TestOverLink(t *testing.T) {
	t.Parallel()
	const rate = 100e6 / 8
	a := link(t, rate)
	for _, direction := range []probe.Direction{probe.Out, probe.In} {
		s := spec(probe.TCPBandwidth, func(s *probe.Spec) { s.Duration, s.Direction = 700*time.Millisecond, direction })
		result := a.serve(t.Context(), s)
		trial := near(t, t.Context(), s, a.line)
		got := await(t, result)
		if got.err != nil || trial.Incomplete != "" {
			t.Fatalf("%v, %q", got.err, trial.Incomplete)
		}
		sender, receiver := trial.Near, got.side
		if direction == probe.In {
			sender, receiver = receiver, sender
		}
		// 1448 bytes of 1514 are payload: 1500 less 52 for IP and TCP with timestamps, and
		// Ethernet's 14.
		const most = rate * 1448 / 1514
		if share := float64(receiver.ReceivedBytes) / receiver.Elapsed.Seconds() / most; share < 0.6 || share > 1.02 {
			t.Errorf("%s: %.3f of what the link can do", direction, share)
		}
		if tcp := sender.TCP[0]; tcp.PMTU != 1500 || tcp.MSS != 1448 || tcp.MinRTT <= 0 {
			t.Errorf("%s: the kernel says %+v", direction, tcp)
		}
	}
}

// TestUnderLoad: where load fills a queue, latency beside it and within it says so.
func TestUnderLoad(t *testing.T) {
	t.Parallel()
	a := link(t, 20e6/8)
	s := spec(probe.Responsiveness, func(s *probe.Spec) {
		s.Duration, s.Streams, s.MessageBytes = 2*time.Second, 2, 4<<10
	})
	result := a.serve(t.Context(), s)
	trial := near(t, t.Context(), s, a.line)
	if got := await(t, result); got.err != nil || trial.Incomplete != "" {
		t.Fatalf("%v, %q", got.err, trial.Incomplete)
	}
	idle, _ := trial.Idle.Percentile(50)
	beside, ok1 := trial.RTT.Percentile(50)
	within, ok2 := trial.Load.Percentile(50)
	rpm, ok3 := probe.RPM(trial)
	t.Logf("idle %v, beside load %v (%d), within load %v (%d), %.0f RPM", idle, beside, trial.RTT.Count(), within, trial.Load.Count(), rpm)
	if !ok1 || !ok2 || !ok3 || beside < 2*idle || beside < 5*time.Millisecond || within < 5*time.Millisecond {
		t.Errorf("idle %v, beside load %v, within load %v, %.0f RPM", idle, beside, within, rpm)
	}
}
