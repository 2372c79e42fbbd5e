package network

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"taper.dev/taper/internal/lab/netns"
	"taper.dev/taper/internal/lab/process"
)

const (
	// lan is the switch that all machines have a port of. What is asked and answered goes
	// over it, and pages; what is measured between machines does not.
	lan = "lan"
	// card is a machine's interface there, by which it is known.
	card = "eth0"

	startWithin = 20 * time.Second
	stopWithin  = 2 * time.Second
)

var (
	lanPrefix  = netip.MustParsePrefix("10.30.0.1/24")
	aLAN       = netip.MustParsePrefix("10.30.0.11/24")
	bLAN       = netip.MustParsePrefix("10.30.0.12/24")
	balancerAt = netip.MustParsePrefix("10.30.0.20/24")
	webAt      = []netip.Prefix{netip.MustParsePrefix("10.30.0.21/24"), netip.MustParsePrefix("10.30.0.22/24")}
)

// machine is a network with processes in it.
type machine struct {
	name    string
	at      netip.Addr // on the switch
	dir     string     // of logs and configurations
	network *netns.Namespace
	running *process.Process
}

// newMachine makes a machine with a port of the switch.
func newMachine(name string, at netip.Prefix, dir string) (*machine, error) {
	m := &machine{name: name, at: at.Addr(), dir: dir}
	var err error
	if m.network, err = netns.New(); err != nil {
		return nil, fmt.Errorf("machine %s: %w", name, err)
	}
	if err := m.network.Plug(lan, name, netns.End{Name: card, Prefix: at}); err != nil {
		m.Close()
		return nil, fmt.Errorf("machine %s: %w", name, err)
	}
	return m, nil
}

// start runs a program on the machine. The program takes the place of nsenter, so that it
// is the process that is looked after.
func (m *machine) start(name string, env []string, path string, args ...string) error {
	nsenter, err := process.Lookup("nsenter", "install util-linux")
	if err != nil {
		return err
	}
	m.running, err = process.Start(process.Spec{
		Name: fmt.Sprintf("%s on machine %s", name, m.name), Path: nsenter, Env: env,
		Args: append([]string{"--net=" + m.network.Path(), "--", path}, args...),
		Dir:  m.dir, Log: filepath.Join(m.dir, m.name+".log"),
	})
	return err
}

// Close ends the machine's process, and gives up its network.
func (m *machine) Close() {
	if m.running != nil {
		m.running.Stop(stopWithin)
	}
	// The kernel takes networks down when it finds the time. The port is gone now, and
	// where there is none it need not be removed.
	_ = netns.Remove(m.name)
	m.network.Close()
}
