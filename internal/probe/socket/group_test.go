package socket_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"taper.dev/taper/internal/probe/socket"
)

// TestGroup: what waits returns when the context ends, also a socket that comes later.
func TestGroup(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	g := socket.NewGroup(ctx)
	waiting := make(chan error, 1)
	fd, _ := connection(t)
	g.Add(fd)
	go func() {
		_, err := socket.Read(fd, make([]byte, 1))
		waiting <- err
	}()
	time.AfterFunc(20*time.Millisecond, cancel)
	select {
	case err := <-waiting:
		if err != io.EOF {
			t.Errorf("got %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("it still waits")
	}
	late, _ := connection(t)
	g.Add(late)
	if _, err := socket.Read(late, make([]byte, 1)); err != io.EOF {
		t.Errorf("late: got %v", err)
	}
	g.Drop(late)
	g.Drop(late) // the descriptor may be somebody else's already
	g.Close()
	for _, fd := range []int{fd, late} {
		if _, err := socket.Info(fd); !errors.Is(err, unix.EBADF) && !errors.Is(err, unix.ENOTSOCK) && err == nil {
			t.Errorf("%d is open", fd)
		}
	}
}

// TestWatch: a peer that sends is not silent, and one that takes nothing is, to who
// only sends.
func TestWatch(t *testing.T) {
	t.Parallel()
	const quiet = 200 * time.Millisecond
	for _, c := range []struct {
		name  string
		sends bool
		peer  func(conn *net.TCPConn) // until a while after quiet
		want  bool
	}{
		{"says something", false, func(conn *net.TCPConn) {
			for started := time.Now(); time.Since(started) < 2*quiet; time.Sleep(quiet / 10) {
				_, _ = conn.Write([]byte("x"))
			}
		}, false},
		{"says nothing", false, func(*net.TCPConn) { time.Sleep(2 * quiet) }, true},
		{"takes all", true, func(conn *net.TCPConn) {
			_ = conn.SetReadDeadline(time.Now().Add(2 * quiet))
			_, _ = io.Copy(io.Discard, conn)
		}, false},
		{"takes nothing", true, func(*net.TCPConn) { time.Sleep(3 * quiet) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := socket.NewGroup(t.Context())
			defer g.Close()
			fd, conn := connection(t)
			g.Add(fd)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for b, err := make([]byte, 1<<16), error(nil); err == nil; {
					if c.sends {
						_, err = socket.Write(fd, b)
					} else {
						_, err = socket.Read(fd, b)
					}
				}
			}()
			var silent atomic.Bool
			stop := g.Watch(quiet, c.sends, func() { silent.Store(true) })
			c.peer(conn)
			stop()
			if silent.Load() != c.want {
				t.Errorf("silent: %v", silent.Load())
			}
			g.Shutdown()
			<-ended
		})
	}
}
