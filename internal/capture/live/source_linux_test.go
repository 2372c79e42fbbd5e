package live

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/frame"
	"taper.dev/taper/internal/lab/netns"
)

// open captures, or skips the test where that is not allowed.
func open(t *testing.T, iface string, snaplen int) *Source {
	t.Helper()
	s, err := Open(iface, snaplen)
	if errors.Is(err, unix.EPERM) && os.Getenv("TAPER_TEST_REQUIRE_ALL") == "" {
		t.Skip("capturing needs CAP_NET_RAW")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// pair is two UDP sockets of the loopback, the first of which sends to the second.
func pair(t *testing.T) (from, to *net.UDPConn) {
	t.Helper()
	to, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = to.Close() })
	from, err = net.DialUDP("udp4", nil, to.LocalAddr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = from.Close() })
	return from, to
}

func port(c net.Conn) uint16 { return netip.MustParseAddrPort(c.LocalAddr().String()).Port() }

// TestCapture sends datagrams on the loopback and wants each once, as it was sent.
func TestCapture(t *testing.T) {
	for _, iface := range []string{"lo", Any} {
		t.Run(iface, func(t *testing.T) {
			s := open(t, iface, 0)
			lo, err := net.InterfaceByName("lo")
			if err != nil {
				t.Fatal(err)
			}
			from, to := pair(t)
			begin := time.Now()
			const n = 500
			want := make([][]byte, n)
			for i := range want {
				want[i] = bytes.Repeat([]byte{byte(i)}, 1+i*40) // up to 20 KB, beyond an Ethernet packet
				if _, err := from.Write(want[i]); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			got, last := 0, capture.At(begin)
			decoder := frame.New()
			var p capture.Packet
			var f capture.Frame
			packets := s.Until(ctx)
			for {
				err := packets.Next(&p)
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if decoder.Decode(&p, &f) != frame.Decoded || f.Src.Port() != port(from) || f.Dst.Port() != port(to) {
					continue // someone else's
				}
				if got == n {
					t.Fatalf("packet %d came after all %d", p.Number, n)
				}
				if !bytes.Equal(f.Payload, want[got]) || f.Length != len(want[got]) {
					t.Fatalf("datagram %d: %d of %d bytes, want %d", got, len(f.Payload), f.Length, len(want[got]))
				}
				if f.Direction != capture.Incoming || f.Interface != lo.Index {
					t.Fatalf("direction %d on interface %d, want incoming on %d", f.Direction, f.Interface, lo.Index)
				}
				if f.Time < last || f.Time > capture.At(time.Now()) {
					t.Fatalf("datagram %d at %v, after one at %v", got, f.Time.Time(), last.Time())
				}
				got, last = got+1, f.Time
			}
			if got != n {
				t.Errorf("captured %d datagrams of %d", got, n)
			}
			received, dropped, err := s.Stats()
			if err != nil || dropped != 0 || received < n {
				t.Errorf("Stats() = %d, %d, %v; want at least %d and none dropped", received, dropped, err, n)
			}
		})
	}
}

// TestSnapLength wants packets cut, and their length kept.
func TestSnapLength(t *testing.T) {
	const snaplen = 60
	s := open(t, "lo", snaplen)
	from, _ := pair(t)
	if _, err := from.Write(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	decoder := frame.New()
	var p capture.Packet
	var f capture.Frame
	for {
		if err := s.Next(ctx, &p); err != nil {
			t.Fatal(err)
		}
		if decoder.Decode(&p, &f) == frame.Decoded && f.Src.Port() == port(from) {
			break
		}
	}
	if len(p.Data) != snaplen+cookedHeader || p.Length != 1000+8+20+cookedHeader {
		t.Errorf("%d bytes of %d, want %d of %d", len(p.Data), p.Length, snaplen+cookedHeader, 1000+8+20+cookedHeader)
	}
	if len(f.Payload) != snaplen-28 || f.Length != 1000 {
		t.Errorf("payload of %d bytes of %d, want %d of 1000", len(f.Payload), f.Length, snaplen-28)
	}
}

// TestEndsUnderLoad cancels while packets never cease.
func TestEndsUnderLoad(t *testing.T) {
	s := open(t, "lo", 0)
	from, _ := pair(t)
	stop := make(chan struct{})
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = from.Write([]byte("again"))
			}
		}
	}()
	defer func() { close(stop); <-sent }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var p capture.Packet
	deadline := time.Now().Add(10 * time.Second)
	for n := 0; time.Now().Before(deadline); n++ {
		if n == 10_000 {
			cancel()
		}
		if err := s.Next(ctx, &p); err != nil {
			if !errors.Is(err, context.Canceled) || n < 10_000 {
				t.Errorf("Next() after %d packets: %v, want %v after %d", n, err, context.Canceled, 10_000)
			}
			return
		}
	}
	t.Error("the capture goes on 10 s after its context ended")
}

// TestDrops fills the ring without reading it.
func TestDrops(t *testing.T) {
	s := open(t, "lo", 0)
	from, _ := pair(t)
	const size = 60_000
	n := 2 * s.ring.blocks * blockSize / size
	for range n {
		if _, err := from.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	received, dropped, err := s.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if dropped < uint64(n)/4 || received < uint64(n)/4 || received+dropped < uint64(n) {
		t.Errorf("of %d packets received %d and dropped %d, want about a half each", n, received, dropped)
	}
	if again, stillDropped, err := s.Stats(); err != nil || again < received || stillDropped < dropped {
		t.Errorf("Stats() = %d, %d, %v; want them to grow from %d and %d", again, stillDropped, err, received, dropped)
	}
}

func TestOpenFails(t *testing.T) {
	t.Parallel()
	_, err := Open("no-such0", 0)
	if err == nil || !strings.Contains(err.Error(), `"no-such0"`) || !strings.Contains(err.Error(), "any, ") || !strings.Contains(err.Error(), "lo") {
		t.Errorf("Open = %v, want an error that lists the interfaces", err)
	}
	if err := refused(unix.EAFNOSUPPORT); !strings.Contains(err.Error(), "tcpdump") {
		t.Errorf("refused(EAFNOSUPPORT) = %v, want another way", err)
	}
}

// TestCloseTwice: Close is deferred by callers that also close on errors.
func TestCloseTwice(t *testing.T) {
	s := open(t, "lo", 0)
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	var p capture.Packet
	if err := s.Next(t.Context(), &p); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Next() after Close: %v, want %v", err, os.ErrClosed)
	}
}

// TestInterfaceGoesDown: a capture that can see nothing any more says so.
func TestInterfaceGoesDown(t *testing.T) {
	network, err := netns.New()
	if err != nil {
		if os.Getenv("TAPER_TEST_REQUIRE_ALL") != "" {
			t.Fatal(err)
		}
		t.Skip("needs network namespaces: ", err)
	}
	defer network.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err = network.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		s, err := Open("lo", 0)
		if err != nil {
			return err
		}
		defer s.Close()
		if err := netlink.LinkSetDown(lo); err != nil {
			return err
		}
		var p capture.Packet
		return s.Next(ctx, &p)
	})
	if !errors.Is(err, unix.ENETDOWN) || !strings.Contains(err.Error(), "went down") {
		t.Errorf("Next() = %v, want that the interface went down", err)
	}
}

// TestUnprivileged opens without the capability, on a thread that gave it up.
func TestUnprivileged(t *testing.T) {
	t.Parallel()
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		none := [2]unix.CapUserData{}
		if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
			failed <- err
			return
		}
		s, err := Open("lo", 0)
		if err == nil {
			_ = s.Close()
		}
		failed <- err
	}()
	err := <-failed
	if !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "sudo") || !strings.Contains(err.Error(), "--profile=netadmin") {
		t.Errorf("Open = %v, want the cures", err)
	}
}
