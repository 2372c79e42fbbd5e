package network

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"taper.dev/taper/internal/lab/netns"
	"taper.dev/taper/internal/lab/process"
	"taper.dev/taper/internal/pageload"
)

//go:embed balancer.yaml
var balancerYAML string

var balancerConfig = template.Must(template.New("balancer.yaml").Parse(balancerYAML))

const webPort = 80

// site is a page behind a balancer. All its machines are of one kind: their interfaces
// carry as much as each other.
type site struct {
	balancer *machine
	web      []*machine
}

// newSite starts the servers and the balancer, and returns when all of them answer. It
// needs the switch.
func newSite(ctx context.Context, dir, envoy, program string, narrow netns.Bucket) (_ *site, err error) {
	s := &site{}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	for i, at := range webAt {
		m, err := newNarrow(fmt.Sprintf("web-%d", i+1), at, dir, narrow)
		if err != nil {
			return nil, err
		}
		s.web = append(s.web, m)
		page := netip.AddrPortFrom(m.at, webPort).String()
		if err := m.start("the server", nil, program, "net", "serve", "--listen", "127.0.0.1:0", "--node", m.name, "--page", page); err != nil {
			return nil, err
		}
	}
	if s.balancer, err = newNarrow("balancer", balancerAt, dir, narrow); err != nil {
		return nil, err
	}
	if err := s.balance(envoy); err != nil {
		return nil, err
	}
	for _, m := range s.machines() {
		if err := process.Await(ctx, m.running, m.answers, startWithin); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// machines are all that were made, the balancer last.
func (s *site) machines() []*machine {
	if s.balancer == nil {
		return s.web
	}
	return append(slices.Clone(s.web), s.balancer)
}

// newNarrow makes a machine that sends no faster than a bucket lets it.
func newNarrow(name string, at netip.Prefix, dir string, b netns.Bucket) (*machine, error) {
	m, err := newMachine(name, at, dir)
	if err != nil {
		return nil, err
	}
	if err := m.network.Do(func() error { return netns.Shape(card, b) }); err != nil {
		m.Close()
		return nil, fmt.Errorf("machine %s: %w", name, err)
	}
	return m, nil
}

// balance starts the balancer.
func (s *site) balance(envoy string) error {
	file := filepath.Join(s.balancer.dir, "balancer.yaml")
	if err := s.configure(file); err != nil {
		return fmt.Errorf("configuring the balancer: %w", err)
	}
	return s.balancer.start("envoy", nil, envoy,
		"--config-path", file, "--concurrency", "1", "--disable-hot-restart", "--log-level", "warning")
}

func (s *site) configure(file string) error {
	config := struct {
		Listen netip.AddrPort
		Web    []netip.AddrPort
	}{Listen: netip.AddrPortFrom(s.balancer.at, webPort)}
	for _, m := range s.web {
		config.Web = append(config.Web, netip.AddrPortFrom(m.at, webPort))
	}
	var text strings.Builder
	if err := balancerConfig.Execute(&text, config); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text.String()), 0o600)
}

// direct asks by no proxy, whatever the environment says: there is none in here. What
// comes is what was sent.
var direct = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}

// answers is nil once the page comes from the machine.
func (m *machine) answers(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url(), http.NoBody)
	if err != nil {
		return err
	}
	response, err := direct.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("machine %s answers with status %d", m.name, response.StatusCode)
	}
	return nil
}

func (m *machine) url() string { return "http://" + m.at.String() + "/" }

// targets are the ways to the page, the first through the balancer.
func (s *site) targets() []pageload.Target {
	targets := []pageload.Target{{Name: s.balancer.name, URL: s.balancer.url()}}
	for _, m := range s.web {
		targets = append(targets, pageload.Target{Name: m.name, URL: m.url()})
	}
	return targets
}

// watch calls fail when something that should run has ended by itself.
func (s *site) watch(ctx context.Context, fail func(error)) {
	for _, m := range s.machines() {
		watch(ctx, m.running, fail)
	}
}

// Close ends it all.
func (s *site) Close() {
	for _, m := range s.machines() {
		m.Close()
	}
}
