package network

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/netip"
	"os"
	"time"

	"taper.dev/taper/internal/lab/netns"
	"taper.dev/taper/internal/lab/process"
	"taper.dev/taper/internal/measure"
	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/agent"
)

// link is one way between the two machines.
type link struct {
	// name is that of the path, and of the device at both ends.
	name string
	kind probe.Path
	a, b netip.Prefix
}

func (l link) ends() (a, b netns.End) {
	return netns.End{Name: l.name, Prefix: l.a}, netns.End{Name: l.name, Prefix: l.b}
}

// newLink has the two first addresses of a prefix.
func newLink(name string, kind probe.Path, prefix string) link {
	p := netip.MustParsePrefix(prefix)
	a := p.Addr().Next()
	return link{name, kind, netip.PrefixFrom(a, p.Bits()), netip.PrefixFrom(a.Next(), p.Bits())}
}

// The ways between the machines.
var (
	native    = newLink("native", probe.HostPath, "10.31.0.0/24")
	shaped    = newLink("shaped", probe.HostPath, "10.32.0.0/24")
	vxlan     = newLink("vxlan", probe.PodPath, "10.33.0.0/24")
	userSpace = newLink("user-space", probe.PodPath, "10.34.0.0/24")
)

const vxlanID = 42

// pair is two machines, the ways between them, and an agent on each.
type pair struct {
	a, b       *machine
	forwarders []*forwarder
	token      agent.Token
	// asked is the agent of machine a: it is the near end. Hosts are who both are.
	asked             *agent.Client
	nearHost, farHost probe.Host
}

// newPair makes machines and links. They need the switch.
func newPair(dir string, shape netns.Bucket) (_ *pair, err error) {
	p := &pair{token: agent.Token(rand.Text())}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	if p.a, err = newMachine("a", aLAN, dir); err != nil {
		return nil, err
	}
	if p.b, err = newMachine("b", bLAN, dir); err != nil {
		return nil, err
	}
	for _, l := range []link{native, shaped} {
		a, b := l.ends()
		if err := p.a.network.Do(func() error { return p.b.network.Link(a, b) }); err != nil {
			return nil, err
		}
	}
	if err := p.a.network.Do(func() error { return netns.Shape(shaped.name, shape) }); err != nil {
		return nil, err
	}
	return p, p.overlays()
}

// overlays lays both over the native cable.
func (p *pair) overlays() error {
	atA, atB := vxlan.ends()
	here, there := native.a.Addr(), native.b.Addr()
	err := p.a.network.Do(func() error { return netns.VXLAN(atA, vxlanID, native.name, here, there) })
	if err != nil {
		return err
	}
	err = p.b.network.Do(func() error { return netns.VXLAN(atB, vxlanID, native.name, there, here) })
	if err != nil {
		return err
	}
	atA, atB = userSpace.ends()
	f, err := startForwarder(p.a, atA, here, there)
	if err != nil {
		return err
	}
	p.forwarders = append(p.forwarders, f)
	if f, err = startForwarder(p.b, atB, there, here); err != nil {
		return err
	}
	p.forwarders = append(p.forwarders, f)
	return nil
}

// tokenVariable is where `taper net serve` looks for the token: arguments can be seen.
const tokenVariable = "TAPER_NET_TOKEN"

// serve starts the agents, and returns when both answer.
func (p *pair) serve(ctx context.Context, program string) error {
	for _, m := range []*machine{p.a, p.b} {
		env := append(os.Environ(), tokenVariable+"="+string(p.token))
		if err := m.start("the agent", env, program, "net", "serve", "--node", m.name); err != nil {
			return err
		}
	}
	far, err := p.dial(ctx, p.b)
	if err != nil {
		return err
	}
	p.farHost = far.Host()
	far.Close()
	if p.asked, err = p.dial(ctx, p.a); err != nil {
		return err
	}
	p.nearHost = p.asked.Host()
	return nil
}

// waitTurn is far above what a trial takes: nobody else asks these agents.
const waitTurn = 10 * time.Second

func (p *pair) dial(ctx context.Context, m *machine) (client *agent.Client, err error) {
	err = process.Await(ctx, m.running, func(ctx context.Context) error {
		client, err = agent.Dial(ctx, m.at.String(), agent.DialOptions{Token: p.token, Wait: waitTurn})
		return err
	}, startWithin)
	return client, err
}

// path is a link as it is measured: from a to b.
func (p *pair) path(l link) measure.Path {
	return measure.Path{
		Name: l.name, Kind: l.kind, From: "a", To: l.b.Addr().String(), Near: &p.nearHost, Far: &p.farHost,
		Prober: delegate{p.asked, l.b.Addr().String()},
	}
}

// delegate has an agent measure to another one.
type delegate struct {
	client *agent.Client
	to     string
}

// Run implements measure.Prober.
func (d delegate) Run(ctx context.Context, spec probe.Spec) (probe.Trial, error) {
	t, err := d.client.Delegate(ctx, agent.Target{Address: d.to}, spec)
	if err != nil {
		return t, fmt.Errorf("measuring to %s: %w", d.to, err)
	}
	return t, nil
}

// watch calls fail when something that should run has ended by itself.
func (p *pair) watch(ctx context.Context, fail func(error)) {
	watch(ctx, p.a.running, fail)
	watch(ctx, p.b.running, fail)
	for _, f := range p.forwarders {
		go func() {
			select {
			case err := <-f.failed:
				if err != nil {
					fail(err)
				}
			case <-ctx.Done():
			}
		}()
	}
}

func watch(ctx context.Context, p *process.Process, fail func(error)) {
	go func() {
		select {
		case <-p.Done():
			fail(p.Err())
		case <-ctx.Done():
		}
	}()
}

// Close ends it all.
func (p *pair) Close() {
	if p.asked != nil {
		p.asked.Close()
	}
	for _, f := range p.forwarders {
		f.Close()
	}
	for _, m := range []*machine{p.a, p.b} {
		if m != nil {
			m.Close()
		}
	}
}
