package socket_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"taper.dev/taper/internal/probe/socket"
)

// connection is a dialled descriptor and what the other side has of it.
func connection(t *testing.T) (int, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fd, err := socket.Dial(t.Context(), "tcp", l.Addr().(*net.TCPAddr).AddrPort(), netip.Addr{})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return fd, conn.(*net.TCPConn)
}

// closing closes a descriptor with the test.
func closing(t *testing.T, fd int) int {
	t.Helper()
	t.Cleanup(func() {
		if err := unix.Close(fd); err != nil {
			t.Error(err)
		}
	})
	return fd
}

func TestReadAndWrite(t *testing.T) {
	t.Parallel()
	fd, conn := connection(t)
	closing(t, fd)
	if err := socket.NoDelay(fd); err != nil {
		t.Fatal(err)
	}
	if _, err := socket.TryRead(fd, make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("TryRead with nothing there: %v", err)
	}
	if n, err := socket.TryRead(fd, nil); n != 0 || err != nil {
		t.Errorf("TryRead of nothing: %d, %v", n, err)
	}
	if _, err := conn.Write([]byte("hello, there")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 5)
	if n, err := socket.ReadFull(fd, b); n != 5 || err != nil || string(b) != "hello" {
		t.Errorf("got %q, %v", b[:n], err)
	}
	b = make([]byte, 100)
	if n, err := socket.Spin(fd, b, time.Second); err != nil || string(b[:n]) != ", there" {
		t.Errorf("got %q, %v", b[:n], err)
	}
	started := time.Now()
	if _, err := socket.Spin(fd, b, 20*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(started) < 20*time.Millisecond {
		t.Errorf("spinning ended with %v after %v", err, time.Since(started))
	}
	if err := socket.SetTimeouts(fd, 30*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if _, err := socket.Read(fd, b); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading what does not come: %v", err)
	}
	// More than both ends can hold.
	if n, err := socket.Write(fd, make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) || n == 0 {
		t.Errorf("writing what nobody reads: %d, %v", n, err)
	}
	_, _ = conn.Write([]byte("abc"))
	_ = conn.CloseWrite()
	if n, err := socket.ReadFull(fd, b); n != 3 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("reading a part: %d, %v", n, err)
	}
	for name, read := range map[string]func() (int, error){
		"Read":     func() (int, error) { return socket.Read(fd, b) },
		"ReadFull": func() (int, error) { return socket.ReadFull(fd, b) },
		"Spin":     func() (int, error) { return socket.Spin(fd, b, time.Second) },
		"TryRead":  func() (int, error) { return socket.TryRead(fd, b) },
	} {
		if n, err := read(); n != 0 || err != io.EOF {
			t.Errorf("%s at the end: %d, %v", name, n, err)
		}
	}
	_ = conn.SetLinger(0)
	_ = conn.Close()
	for range 100 { // the reset takes a moment
		if _, err := socket.Write(fd, b); err != nil {
			if !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.EPIPE) {
				t.Errorf("writing to who is gone: %v", err)
			}
			return
		}
	}
	t.Error("writing to who is gone does not fail")
}

// TestSignals: signals, which the runtime sends to itself too, neither end nor repeat
// anything.
func TestSignals(t *testing.T) {
	t.Parallel()
	fd, conn := connection(t)
	closing(t, fd)
	if err := socket.SetTimeouts(fd, time.Minute); err != nil { // with a timeout, the kernel restarts nothing
		t.Fatal(err)
	}
	thread, got := make(chan int), make(chan error)
	go func() {
		_, err := socket.Thread(nil, func() error {
			thread <- unix.Gettid()
			b := make([]byte, 1<<20)
			_, err := socket.ReadFull(fd, b)
			for i := range b {
				if b[i] != byte(i>>10) {
					return fmt.Errorf("byte %d is %d", i, b[i])
				}
			}
			return err
		})
		got <- err
	}()
	tid := <-thread
	for i := range 1024 {
		if err := unix.Tgkill(os.Getpid(), tid, unix.SIGURG); err != nil {
			t.Fatal(err)
		}
		chunk := make([]byte, 1024)
		for j := range chunk {
			chunk[j] = byte(i)
		}
		if _, err := conn.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func TestDial(t *testing.T) {
	t.Parallel()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	refused := gone.Addr().(*net.TCPAddr).AddrPort()
	mapped := netip.AddrPortFrom(netip.AddrFrom16(refused.Addr().As16()), refused.Port())
	for _, c := range []struct {
		name, network string
		peer          netip.AddrPort
		local         netip.Addr
		want          string
	}{
		{"refused", "tcp", refused, netip.Addr{}, "connection refused"},
		{"refused, by its IPv6 name", "tcp", mapped, netip.Addr{}, "connection refused"},
		{"foreign address", "tcp", refused, netip.MustParseAddr("192.0.2.1"), "is it an address of this machine?"},
		{"other network", "sctp", refused, netip.Addr{}, "it is tcp or udp"},
		{"no interface", "tcp", netip.MustParseAddrPort("[fe80::1%nosuch0]:1"), netip.Addr{}, "connecting to tcp [fe80::1%nosuch0]:1: "},
	} {
		if _, err := socket.Dial(t.Context(), c.network, c.peer, c.local); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v; want %q", c.name, err, c.want)
		}
	}
}

// TestDialGivesUp: a listener whose queue is full does not answer.
func TestDialGivesUp(t *testing.T) {
	t.Parallel()
	full := closing(t, must(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)))
	if err := errors.Join(unix.Bind(full, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(full, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(full)
	if err != nil {
		t.Fatal(err)
	}
	peer := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(name.(*unix.SockaddrInet4).Port))
	errTime := errors.New("time is up")
	for i := range 10 {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errTime)
		fd, err := socket.Dial(ctx, "tcp", peer, netip.Addr{})
		cancel()
		if err == nil {
			closing(t, fd)
			continue
		}
		if !errors.Is(err, errTime) {
			t.Errorf("got %v", err)
		}
		if i == 0 {
			t.Error("even the first was given up")
		}
		// The blocking way gives up by its own timeout, and by being shut down.
		fd = closing(t, must(socket.New("tcp", peer, netip.Addr{})))
		if err := socket.SetTimeouts(fd, 50*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if err := socket.Connect(fd, socket.Address(peer)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		return
	}
	t.Error("the queue was never full")
}

func must(fd int, err error) int {
	if err != nil {
		panic(err)
	}
	return fd
}

func TestDialUDP(t *testing.T) {
	t.Parallel()
	l, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	local := netip.MustParseAddr("127.0.0.3")
	fd, err := socket.Dial(t.Context(), "udp", l.LocalAddr().(*net.UDPAddr).AddrPort(), local)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, fd)
	if _, err := socket.Write(fd, []byte("x")); err != nil {
		t.Fatal(err)
	}
	_, from, err := l.ReadFromUDPAddrPort(make([]byte, 9))
	if err != nil || from.Addr().Unmap() != local {
		t.Errorf("it came from %v, %v", from, err)
	}
}

// TestFD: the descriptor outlives the connection that it was taken from, and blocks.
func TestFD(t *testing.T) {
	t.Parallel()
	other, conn := connection(t)
	closing(t, other)
	fd, err := socket.FD(conn)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, fd)
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_NONBLOCK != 0 {
		t.Errorf("flags %x, %v", flags, err)
	}
	time.AfterFunc(20*time.Millisecond, func() { _, _ = socket.Write(other, []byte("x")) })
	if n, err := socket.Read(fd, make([]byte, 9)); n != 1 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	if _, err := socket.FD(conn); err == nil {
		t.Error("a closed connection has a descriptor")
	}
}

func TestInfo(t *testing.T) {
	t.Parallel()
	fd, conn := connection(t)
	closing(t, fd)
	for range 10 {
		_, _ = socket.Write(fd, make([]byte, 1000))
		_, _ = io.ReadFull(conn, make([]byte, 1000))
	}
	for _, state := range []string{"open", "reset"} {
		info, err := socket.Info(fd)
		if err != nil || info.Segments != 10 || info.RTT <= 0 || info.PMTU == 0 || info.MSS == 0 || info.Congestion == "" || info.Cwnd == 0 {
			t.Errorf("%s: %+v, %v", state, info, err)
		}
		_ = conn.SetLinger(0)
		_ = conn.Close()
		_, _ = socket.Read(fd, make([]byte, 1))
	}
	if _, err := socket.Info(-1); err == nil {
		t.Error("no socket has information")
	}
}

// TestDialFrom: also IPv6 leaves the port to the kernel.
func TestDialFrom(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skipf("there is no IPv6: %v", err)
	}
	defer l.Close()
	peer := l.Addr().(*net.TCPAddr).AddrPort()
	fd, err := socket.Dial(t.Context(), "tcp", peer, peer.Addr())
	if err != nil {
		t.Fatal(err)
	}
	closing(t, fd)
	if _, err := socket.Dial(t.Context(), "tcp", peer, netip.MustParseAddr("127.0.0.1")); err == nil {
		t.Error("IPv6 comes from an IPv4 address")
	}
}
