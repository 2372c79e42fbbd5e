// Package netns gives a program networks of its own: links, addresses and ports that
// nobody else has or sees, and that are gone with the program, however it ends.
//
// [Enter] moves the whole program into one. [New] makes another beside it, such as a
// pod's, that [Namespace.Do] visits and [Join] connects. All of it needs root, or
// CAP_SYS_ADMIN in a container.
package netns

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// variable marks a program that Enter has moved.
const variable = "TAPER_LAB_NETWORK"

// Enter moves the program into a network of its own in which only the loopback is up; see
// [Restart]. It returns nil if that was done already.
func Enter() error { return Restart(variable, 0, loopbackUp) }

// Restart moves the program into a network of its own, and into new namespaces of the
// other kinds (unix.CLONE_NEWNS, …), which prepare sets up. The program starts anew, as
// the same process with the same arguments, so nothing worth keeping may have happened
// before. It returns nil if that was done already, which the environment variable notes.
func Restart(variable string, others int, prepare func() error) error {
	if err := Entered(variable); err == nil {
		return nil
	}
	if os.Geteuid() != 0 {
		return errors.New("a network of its own needs root: run it with sudo")
	}
	// A namespace belongs to a thread. This one is not given back, since it would not be
	// like the others if an error is returned.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET | others); err != nil {
		return fmt.Errorf("making a network of its own: %w; in a container that takes CAP_SYS_ADMIN", err)
	}
	if err := prepare(); err != nil {
		return err
	}
	here, err := name()
	if err != nil {
		return err
	}
	if err := os.Setenv(variable, here); err != nil {
		return err
	}
	err = syscall.Exec("/proc/self/exe", os.Args, os.Environ())
	return fmt.Errorf("starting %s anew: %w", os.Args[0], err)
}

// Entered is nil if the program runs in a network that Restart has made.
func Entered(variable string) error {
	here, err := name()
	if err != nil {
		return err
	}
	if os.Getenv(variable) != here {
		return errors.New("not in a network of its own")
	}
	return nil
}

func name() (string, error) {
	n, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		return "", fmt.Errorf("finding out which network this is: %w", err)
	}
	return n, nil
}

func loopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("bringing up the loopback: %w", err)
	}
	return nil
}

// Namespace is a network beside the program's.
type Namespace struct{ handle netns.NsHandle }

// New makes a network with only the loopback up. It is gone once it was closed and the
// last process in it has ended.
func New() (*Namespace, error) {
	n := &Namespace{handle: netns.None()}
	err := away(func() (err error) {
		if n.handle, err = netns.New(); err != nil {
			return fmt.Errorf("making a network: %w", err)
		}
		return loopbackUp()
	})
	if err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// Do calls f in the network: the sockets that f opens belong to it. Goroutines that f
// starts are not in it.
func (n *Namespace) Do(f func() error) error {
	return away(func() error {
		if err := netns.Set(n.handle); err != nil {
			return fmt.Errorf("entering a network: %w", err)
		}
		return f()
	})
}

// away runs f on a thread whose namespace may be changed. A thread that cannot be
// brought back is not used again: it ends with its goroutine.
func away(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		home, err := netns.Get()
		if err != nil {
			done <- fmt.Errorf("finding the way back: %w", err)
			return
		}
		defer home.Close()
		result := f()
		if netns.Set(home) == nil {
			runtime.UnlockOSThread()
		}
		done <- result
	}()
	return <-done
}

// Path is a file that stands for the network as long as it is not closed: what nsenter
// --net takes.
func (n *Namespace) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), int(n.handle)) }

// Close gives it up.
func (n *Namespace) Close() {
	if n.handle.IsOpen() {
		_ = n.handle.Close() // leaves nothing to be done
	}
}
