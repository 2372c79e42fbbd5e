package pageload

import (
	"bytes"
	"context"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"taper.dev/taper/internal/probe/socket"
)

// throttledMuch is the share of time, stopped by a CPU limit, from which on that counts
// as being full: a limit below one CPU leaves the others idle.
const throttledMuch = 0.1

// busy is the share, 0 to 1, of its CPUs or of its interface that this program used from a
// time on until the context ended, whichever is more. Time in which its threads waited for
// a CPU counts, since others may have it. It is NaN if that cannot be read.
func busy(ctx context.Context, from time.Time, d *device) float64 {
	select {
	case <-ctx.Done():
		return math.NaN()
	case <-time.After(time.Until(from)):
	}
	began, cpu, link := time.Now(), processTime(), d.counters()
	usage, err := socket.Thread(nil, func() error { <-ctx.Done(); return nil })
	took := time.Since(began)
	share := float64(processTime()-cpu) / float64(took) / float64(runtime.GOMAXPROCS(0))
	if err == nil && usage.Throttled != nil && float64(*usage.Throttled) > throttledMuch*float64(took) {
		share = 1
	}
	if filled := d.filled(link, d.counters(), took); filled > share {
		share = filled
	}
	return max(0, min(1, share))
}

// processTime is for how long this program's threads ran, or waited for a CPU to run on.
func processTime() time.Duration {
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) != nil {
		return 0 // the call has no way to fail
	}
	sum := time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	// The second figure is the time in run queues (the kernel's sched-stats.rst). Threads
	// that have ended are missing; Go's seldom do.
	files, _ := filepath.Glob("/proc/self/task/*/schedstat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if fields := bytes.Fields(text); err == nil && len(fields) > 1 {
			waited, _ := strconv.ParseInt(string(fields[1]), 10, 64)
			sum += time.Duration(waited)
		}
	}
	return sum
}

// device is the interface that leads to a target.
type device struct {
	folder string
	// bits is what it can carry, per second and direction; 0 if it does not say.
	bits float64
}

// counters are the bytes that a device has received and sent.
type counters struct{ received, sent float64 }

// deviceTo finds it by the address that a connection to the target has here; nil if there
// is none, or none that tells how fast it is. Virtual ones tell a speed that means nothing.
func deviceTo(local netip.Addr) *device {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for _, i := range interfaces {
		addresses, _ := i.Addrs()
		for _, a := range addresses {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr() == local.Unmap().WithZone("") {
				return openDevice("/sys/class/net/"+i.Name, i.Index)
			}
		}
	}
	return nil
}

// openDevice reads what /sys says, if it speaks of the device with that index: it may be of
// another network namespace than ours.
func openDevice(folder string, index int) *device {
	d := &device{folder: folder}
	if d.figure("ifindex") != float64(index) {
		return nil
	}
	if _, err := os.Stat(folder + "/device"); err != nil {
		return nil
	}
	if d.bits = d.figure("speed") * 1e6; !(d.bits > 0) {
		return nil
	}
	return d
}

func (d *device) figure(name string) float64 {
	text, err := os.ReadFile(d.folder + "/" + name)
	if err != nil {
		return math.NaN()
	}
	v, err := strconv.ParseFloat(string(bytes.TrimSpace(text)), 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

func (d *device) counters() counters {
	if d == nil {
		return counters{}
	}
	return counters{d.figure("statistics/rx_bytes"), d.figure("statistics/tx_bytes")}
}

// filled is the share of what the device can carry, in the fuller direction; 0 if it is not
// known.
func (d *device) filled(before, after counters, took time.Duration) float64 {
	if d == nil {
		return 0
	}
	bytes := math.Max(after.received-before.received, after.sent-before.sent)
	if share := bytes * 8 / took.Seconds() / d.bits; share > 0 {
		return share
	}
	return 0
}
