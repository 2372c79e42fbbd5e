package credentials

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"taper.dev/taper/internal/lab/netns"
	"taper.dev/taper/internal/lab/process"
)

const (
	// startWithin is how long a JVM may take on a machine with much else to do.
	startWithin = time.Minute
	stopWithin  = 5 * time.Second
)

// resolv is a pod's resolv.conf: names with fewer than five dots are looked for below
// the cluster's domains first.
const resolv = `search shop.svc.cluster.local svc.cluster.local cluster.local
nameserver 10.96.0.10
options ndots:5
`

// pod is the service in its network.
type pod struct {
	network *netns.Namespace
	process *process.Process
}

// startPod starts the service, and returns when it answers.
func startPod(ctx context.Context, launcher, dir string) (_ *pod, err error) {
	path, err := process.Lookup(launcher, "run \"tools/fetch.sh offers\"")
	if err != nil {
		return nil, err
	}
	p := &pod{}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	if p.network, err = netns.New(); err != nil {
		return nil, err
	}
	if err := p.network.Join(netns.End{Name: "client", Prefix: clientPrefix}, netns.End{Name: "eth0", Prefix: servicePrefix}); err != nil {
		return nil, err
	}
	names := filepath.Join(dir, "resolv.conf")
	if err := os.WriteFile(names, []byte(resolv), 0o644); err != nil {
		return nil, fmt.Errorf("writing the service's resolv.conf: %w", err)
	}
	// Each command becomes the next one, so that the process is the JVM in the end.
	p.process, err = process.Start(process.Spec{
		Name: "the service", Path: "/usr/bin/nsenter", Dir: dir, Log: filepath.Join(dir, "service.log"),
		Args: []string{
			"--net=" + p.network.Path(), "unshare", "--mount", "sh", "-c", `mount --bind "$1" /etc/resolv.conf && shift && exec "$@"`, "sh", names,
			path, fmt.Sprint(servicePort), "http://" + strings.TrimSuffix(searchName, ".") + ":" + fmt.Sprint(searchAddr.Port()),
		},
	})
	if err != nil {
		return nil, err
	}
	return p, process.Await(ctx, p.process, p.healthy, startWithin)
}

// target is where the service listens.
func (p *pod) target() string {
	return netip.AddrPortFrom(servicePrefix.Addr(), servicePort).String()
}

func (p *pod) healthy(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.target()+"/healthz", http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the service answers with status %d", response.StatusCode)
	}
	return nil
}

// Close ends the service and its network.
func (p *pod) Close() {
	if p.process != nil {
		p.process.Stop(stopWithin)
	}
	if p.network != nil {
		p.network.Close()
	}
}
