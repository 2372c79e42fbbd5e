package agent

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"taper.dev/taper/internal/probe"
)

// maxInterfaces bounds what is told of a machine with very many.
const maxInterfaces = 4096

// describe completes what is known of this host.
func describe(h probe.Host) probe.Host {
	if h.Name == "" {
		h.Name, _ = os.Hostname()
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		h.Kernel = unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:])
	}
	h.CPUs = runtime.NumCPU()
	h.Interfaces, _ = interfaces() // a host without them is still one
	return h
}

// interfaces are those that are up and not the loopback, with their counters as they are
// now.
func interfaces() ([]probe.Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("listing network interfaces: %w", err)
	}
	// Of this thread: /proc/net would be of the network namespace of the main one.
	table, err := os.ReadFile("/proc/thread-self/net/dev")
	if err != nil {
		return nil, fmt.Errorf("reading counters of network interfaces: %w", err)
	}
	counters := parseNetDev(table)
	var found []probe.Interface
	for _, i := range all {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 || len(found) == maxInterfaces {
			continue
		}
		one := counters[i.Name]
		one.Name, one.MTU, one.SpeedBits = i.Name, i.MTU, linkSpeed(i.Name)
		found = append(found, one)
	}
	return found, nil
}

// linkSpeed is in bits per second; 0 if the link does not say, as virtual ones.
func linkSpeed(name string) int64 {
	b, err := os.ReadFile("/sys/class/net/" + name + "/speed")
	if err != nil {
		return 0
	}
	megabits, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	if err != nil || megabits <= 0 || megabits > 1e9 {
		return 0
	}
	return megabits * 1e6
}

// The columns of /proc/net/dev behind the name: of what came in, then of what went out.
const (
	rxBytes   = 0
	rxDropped = 3
	txBytes   = 8
	txDropped = 11
	columns   = 16
)

// parseNetDev reads the kernel's table of counters, by name. Lines that it cannot read are
// left out.
func parseNetDev(table []byte) map[string]probe.Interface {
	found := map[string]probe.Interface{}
	for line := range strings.Lines(string(table)) {
		name, rest, ok := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if !ok || len(fields) < columns {
			continue
		}
		var values [columns]uint64
		for i := range values {
			var err error
			if values[i], err = strconv.ParseUint(fields[i], 10, 64); err != nil {
				ok = false
			}
		}
		if ok {
			found[strings.TrimSpace(name)] = probe.Interface{
				RxBytes: values[rxBytes], RxDropped: values[rxDropped],
				TxBytes: values[txBytes], TxDropped: values[txDropped],
			}
		}
	}
	return found
}
