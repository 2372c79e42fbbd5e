package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"taper.dev/taper/internal/lab/netns"
	"taper.dev/taper/internal/lab/process"
	"taper.dev/taper/internal/probe/agent"
)

// world is two machines: the program's own network, and one beside it. There are two
// links between them, alike until they are shaped, and VXLAN over the first.
type world struct {
	far     *netns.Namespace
	dir     string // of the servers' logs
	servers []*process.Process
	clients []*agent.Client // by path
}

// links is how many cables there are; overlay is the path after them.
const (
	links   = 2
	overlay = links
)

func near(link int) netip.Addr { return netip.AddrFrom4([4]byte{10, 77, byte(link), 1}) }
func far(link int) netip.Addr  { return netip.AddrFrom4([4]byte{10, 77, byte(link), 2}) }

func device(link int) string { return fmt.Sprintf("here%d", link) }

func newWorld(ctx context.Context, taper string) (_ *world, err error) {
	w := &world{}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	if w.dir, err = os.MkdirTemp("", "taper-bench-"); err != nil {
		return nil, err
	}
	if w.far, err = netns.New(); err != nil {
		return nil, err
	}
	if err := errors.Join(unpaced(), w.far.Do(unpaced)); err != nil {
		return nil, err
	}
	for link := range links {
		if err := w.join(link); err != nil {
			return nil, err
		}
	}
	if err := w.lay(); err != nil {
		return nil, err
	}
	return w, w.serve(ctx, taper)
}

// unpaced has this network's connections sent as fast as they are taken. BBR, which some
// machines use, paces them: on a link without a rate of its own, what comes through then
// depends on how a receiver's reads happen to fall, and differs by a sixth between programs
// that make the same calls.
func unpaced() error {
	return os.WriteFile("/proc/sys/net/ipv4/tcp_congestion_control", []byte("cubic"), 0o644)
}

// join makes a link.
func (w *world) join(link int) error {
	here := netns.End{Name: device(link), Prefix: netip.PrefixFrom(near(link), 24)}
	there := netns.End{Name: fmt.Sprintf("there%d", link), Prefix: netip.PrefixFrom(far(link), 24)}
	return w.far.Link(here, there)
}

// lay makes the overlay.
func (w *world) lay() error {
	const id = 77
	end := func(a netip.Addr) netns.End { return netns.End{Name: "overlay", Prefix: netip.PrefixFrom(a, 24)} }
	if err := netns.VXLAN(end(near(overlay)), id, device(0), near(0), far(0)); err != nil {
		return err
	}
	return w.far.Do(func() error { return netns.VXLAN(end(far(overlay)), id, "there0", far(0), near(0)) })
}

// serve starts the far ends of taper and of the tools that are installed.
func (w *world) serve(ctx context.Context, taper string) error {
	token := "benchmark-between-two-namespaces"
	os.Setenv("TAPER_NET_TOKEN", token)
	commands := map[string][]string{"taper": {taper, "net", "serve"}}
	for name, command := range toolServers() {
		if _, err := exec.LookPath(name); err == nil {
			commands[name] = command
		}
	}
	for cpu, port := range pinnedPorts {
		if _, err := exec.LookPath("qperf"); err == nil {
			commands["qperf-"+port] = []string{"taskset", "-c", strconv.Itoa(cpu), "qperf", "-lp", port}
		}
	}
	for name, command := range commands {
		p, err := process.Start(process.Spec{
			Name: name, Log: filepath.Join(w.dir, name+".log"), Path: "/usr/bin/nsenter", Args: append([]string{"--net=" + w.far.Path()}, command...),
		})
		if err != nil {
			return err
		}
		w.servers = append(w.servers, p)
	}
	for path := range overlay + 1 {
		client, err := dial(ctx, far(path), token)
		if err != nil {
			return err
		}
		w.clients = append(w.clients, client)
	}
	return nil
}

func toolServers() map[string][]string {
	return map[string][]string{"qperf": {"qperf"}, "iperf3": {"iperf3", "-s"}, "netperf": {"netserver", "-D"}}
}

// pinnedPorts are where qperf listens that stays on one CPU. Its own --cpu_affinity left
// it as slow as without.
var pinnedPorts = [...]string{"19766", "19767"}

// dial waits for the agent to listen.
func dial(ctx context.Context, to netip.Addr, token string) (*agent.Client, error) {
	for attempt := 0; ; attempt++ {
		client, err := agent.Dial(ctx, to.String(), agent.DialOptions{Token: agent.Token(token), Wait: 30 * time.Second})
		if err == nil || attempt == 50 || ctx.Err() != nil {
			return client, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// Close ends all that was started; links are gone with the networks.
func (w *world) Close() {
	for _, c := range w.clients {
		c.Close()
	}
	for _, p := range w.servers {
		p.Stop(time.Second)
	}
	if w.far != nil {
		w.far.Close()
	}
	os.RemoveAll(w.dir)
}

// output runs a tool and returns what it prints.
func output(ctx context.Context, command ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var errOut strings.Builder
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, strings.TrimSpace(errOut.String()+string(out)))
	}
	return string(out), nil
}
