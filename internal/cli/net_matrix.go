package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	clientset "k8s.io/client-go/kubernetes"

	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/matrix"
	"taper.dev/taper/internal/matrix/kubernetes"
	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/agent"
)

// netMatrix holds the flags of `taper net matrix`.
type netMatrix struct {
	access  netAccess
	options matrix.Options
	output  netOutput

	agents, podAgents, serviceAgents []string
	blocks                           []string
	prices                           string

	// apply puts agents into the cluster, selector finds those that are there.
	apply               bool
	selector, namespace string
	kubeconfig, context string
	deployment          kubernetes.Options
	nodes               string
	removeLeftovers     bool

	connect func(kubeconfig, context string) (clientset.Interface, string, error)
}

func newNetMatrix() *cobra.Command {
	return (&netMatrix{connect: kubernetes.Connect}).command()
}

func (c *netMatrix) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "matrix (--agents NAME=HOST[:PORT],... | --selector LABEL | --kubernetes)",
		Short: "Measure between all agents, and name what is unlike the rest",
		Long: `Has agents (taper net serve) measure each other: bandwidth in rounds of disjoint
pairs, both ways, and latency of a sample of pairs. Paths (host, pod, service) are
measured side by side, so that their share of the native one is that of the same
moment. Machines that send or receive less than the others, blocks such as zones, and
single pairs are named.

Agents are those that are named; those in pods with a label; or, with --kubernetes,
those that it puts on all nodes in a namespace of their own and removes at the end,
also after Ctrl-C. This machine must reach their addresses: run it on a node, or in a
pod, where the pod network does not lead out of the cluster.`,
		Example: `  taper net matrix --token-file token --agents a=10.0.0.1,b=10.0.0.2,c=10.0.0.3
  taper net matrix --token-file token --agents a=10.0.0.1,b=10.0.0.2 --pod-agents a=10.32.0.7,b=10.32.1.9
  taper net matrix --token-file token --selector app=taper-net --namespace tools
  taper net matrix --kubernetes --prices prices.yaml --report matrix.html`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	f, o, d := cmd.Flags(), &c.options, &c.deployment
	c.access.flags(f)
	f.StringSliceVar(&c.agents, "agents", nil, "agents on machines, as NAME=HOST[:PORT]")
	f.StringSliceVar(&c.podAgents, "pod-agents", nil, "agents in pods, by the names of their machines")
	f.StringSliceVar(&c.serviceAgents, "service-agents", nil, "services, each before one agent, by the names of their machines")
	f.StringSliceVar(&o.Services, "services", nil, "services before all agents (HOST[:PORT], with session affinity)")
	f.StringSliceVar(&c.blocks, "blocks", nil, "what agents share, as NAME=ZONE")
	f.StringVarP(&c.selector, "selector", "l", "", "label of the pods that are agents")
	f.StringVarP(&c.namespace, "namespace", "n", "", "their namespace (default that of the context)")
	f.BoolVar(&c.apply, "kubernetes", false, "put agents on all nodes, and remove them at the end")
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "file that says how to reach the cluster (default $KUBECONFIG, or the one at home)")
	f.StringVar(&c.context, "context", "", "its context (default the current one)")
	f.StringVar(&d.Image, "image", "", "image of the agents, with taper as /taper (default taper/taper, of this release)")
	f.Int32Var(&d.HostPort, "host-port", kubernetes.DefaultHostPort, "port of agents on nodes, with --kubernetes")
	f.Int32Var(&d.PodPort, "pod-port", kubernetes.DefaultPodPort, "port of agents in pods that do not name a container port \"net\"")
	f.StringVar(&c.nodes, "nodes", "", "labels of the nodes to put agents on, as KEY=VALUE,... (default all)")
	f.StringVar(&d.BlockLabel, "block-label", kubernetes.DefaultBlockLabel, "node label that makes blocks")
	f.DurationVar(&d.Ready, "ready", kubernetes.DefaultReady, "how long agents may take until they are ready")
	f.BoolVar(&c.removeLeftovers, "remove-leftovers", false, "remove agents that earlier runs have left; not while somebody else measures")
	f.DurationVar(&o.Trial, "trial", matrix.DefaultTrial, "how long a trial takes")
	f.IntVar(&o.Trials, "trials", matrix.DefaultTrials, "trials of each pair on each path")
	f.IntVar(&o.Streams, "streams", 1, "connections that carry bytes at once")
	f.IntVar(&o.LatencyPairs, "latency-pairs", matrix.DefaultLatencyPairs, "with how many others each agent measures latency; 0 with none")
	f.StringVar(&c.prices, "prices", "", "file with prices of machines, YAML: see docs/net.md")
	f.Uint64Var(&o.Seed, "seed", 0, "decides who meets whom, and the order (default another each time)")
	c.output.flags(cmd)
	return cmd
}

func (c *netMatrix) run(cmd *cobra.Command) error {
	dial, err := c.complete(cmd)
	if err != nil {
		return command.Usagef("%w; see taper net matrix --help", err)
	}
	if err := c.output.writable(); err != nil {
		return err
	}
	line := newProgressLine(cmd.ErrOrStderr())
	defer line.Clear()
	found, err := c.find(cmd.Context(), line)
	if err != nil {
		return err
	}
	if found.token != "" {
		dial.Token = found.token
	}
	c.options.Agents, c.options.Dial = found.agents, matrix.DialWith(dial)
	c.options.Services = append(c.options.Services, found.services...)
	m, err := matrix.Run(cmd.Context(), c.options, line.Show)
	removal := found.remove(context.WithoutCancel(cmd.Context()))
	line.Clear()
	if err != nil {
		return both(err, removal)
	}
	m.Notes = append(found.notes, m.Notes...)
	if err := c.output.matrix(cmd, m); err != nil {
		return both(err, removal)
	}
	if m.Incomplete != "" {
		return both(notWhole(m.Incomplete), removal)
	}
	return removal
}

// both keeps what is left in the cluster from being lost behind an interruption.
func both(err, removal error) error {
	if removal == nil {
		return err
	}
	return fmt.Errorf("%v; %w", err, removal)
}

// complete checks what can be checked before anybody is asked.
func (c *netMatrix) complete(cmd *cobra.Command) (agent.DialOptions, error) {
	dial, err := c.access.options()
	if err != nil {
		return dial, err
	}
	named := len(c.agents)+len(c.podAgents)+len(c.serviceAgents) > 0
	switch n := count(named, c.selector != "", c.apply); {
	case n == 0:
		return dial, errors.New("no agents: name them (--agents), give the label of their pods (--selector), or have them applied (--kubernetes)")
	case n > 1:
		return dial, errors.New("--agents, --selector and --kubernetes are different ways to find agents: give one")
	case c.apply && (c.access.tokenFile != "" || c.access.tls):
		return dial, errors.New("--kubernetes makes agents with a token of their own and without TLS: leave --token-file and --tls out")
	case !named && len(c.blocks) > 0:
		return dial, errors.New("--blocks is for --agents: those of pods follow from their nodes, see --block-label")
	case !c.apply && (c.nodes != "" || c.removeLeftovers || c.deployment.Image != ""):
		return dial, errors.New("--image, --nodes and --remove-leftovers are for --kubernetes")
	case c.apply && len(c.options.Services) > 0:
		return dial, errors.New("--services is not for --kubernetes, which makes a service of its own")
	}
	if !cmd.Flags().Changed("seed") {
		c.options.Seed = uint64(time.Now().UnixNano())
	}
	if c.prices != "" {
		if c.options.Prices, err = matrix.LoadPrices(c.prices); err != nil {
			return dial, err
		}
	}
	checked := c.options
	switch {
	case named:
		if c.options.Agents, err = c.named(); err != nil {
			return dial, err
		}
		checked = c.options
	case c.apply:
		if err := c.completeDeployment(); err != nil {
			return dial, err
		}
		fallthrough
	default: // who they are is not known yet
		checked.Agents = []matrix.Agent{
			{Name: "a", Addresses: map[probe.Path]string{probe.HostPath: "a"}}, {Name: "b", Addresses: map[probe.Path]string{probe.HostPath: "b"}},
		}
	}
	return dial, checked.Validate()
}

func count(flags ...bool) int {
	return len(slices.DeleteFunc(flags, func(f bool) bool { return !f }))
}

// release is a version that an image is published for.
var release = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)

func (c *netMatrix) completeDeployment() error {
	if c.deployment.Image == "" {
		v := command.Version(version)
		if !release.MatchString(v) {
			return fmt.Errorf("--image is needed: this is taper %s, which is no release that an image is published for", v)
		}
		c.deployment.Image = "taper/taper:" + strings.TrimPrefix(v, "v")
	}
	selected, err := labels.ConvertSelectorToLabelsMap(c.nodes)
	if err != nil {
		return fmt.Errorf("--nodes: %q is no list of labels as in pool=a,disk=ssd: %w", c.nodes, err)
	}
	c.deployment.NodeSelector = selected
	return c.deployment.Validate()
}

// named are the agents of the flags: those of one name are one.
func (c *netMatrix) named() ([]matrix.Agent, error) {
	byName := map[string]*matrix.Agent{}
	var names []string // as they were given
	for _, flag := range []struct {
		name string
		path probe.Path
		list []string
	}{{"--agents", probe.HostPath, c.agents}, {"--pod-agents", probe.PodPath, c.podAgents}, {"--service-agents", probe.ServicePath, c.serviceAgents}} {
		for _, arg := range flag.list {
			name, address := splitName(arg)
			if name == "" || address == "" {
				return nil, fmt.Errorf("%s: %q is no agent: it takes NAME=HOST or NAME=HOST:PORT", flag.name, arg)
			}
			a := byName[name]
			if a == nil {
				a = &matrix.Agent{Name: name, Addresses: map[probe.Path]string{}}
				byName[name], names = a, append(names, name)
			}
			if before, ok := a.Addresses[flag.path]; ok {
				return nil, fmt.Errorf("%s: %q is there twice, at %s and at %s: give each agent a name of its own", flag.name, name, before, address)
			}
			a.Addresses[flag.path] = address
		}
	}
	for _, arg := range c.blocks {
		name, block, ok := strings.Cut(arg, "=")
		if !ok || byName[name] == nil {
			return nil, fmt.Errorf("--blocks: %q is not NAME=ZONE with the name of an agent: they are %s", arg, strings.Join(slices.Sorted(maps.Keys(byName)), ", "))
		}
		byName[name].Block = block
	}
	var list []matrix.Agent
	for _, name := range names {
		list = append(list, *byName[name])
	}
	return list, nil
}

// found are the agents, however they were found.
type found struct {
	agents   []matrix.Agent
	services []string
	token    agent.Token // empty if it is the user's
	notes    []string
	remove   func(context.Context) error
}

// find finds the agents, or makes them.
func (c *netMatrix) find(ctx context.Context, line *progressLine) (found, error) {
	f := found{agents: c.options.Agents, remove: func(context.Context) error { return nil }}
	if c.selector == "" && !c.apply {
		return f, nil
	}
	client, namespace, err := c.connect(c.kubeconfig, c.context)
	if err != nil {
		return f, err
	}
	if c.apply {
		return c.deploy(ctx, client, line)
	}
	if c.namespace != "" {
		namespace = c.namespace
	}
	line.Show("looking for pods with " + c.selector)
	f.agents, f.notes, err = kubernetes.Pods(ctx, client, kubernetes.Selection{
		Namespace: namespace, Selector: c.selector, Port: c.deployment.PodPort, BlockLabel: c.deployment.BlockLabel,
	})
	return f, err
}

// deploy puts agents into the cluster.
func (c *netMatrix) deploy(ctx context.Context, client clientset.Interface, line *progressLine) (found, error) {
	notes, err := c.leftovers(ctx, client, line)
	if err != nil {
		return found{}, err
	}
	c.deployment.Progress = line.Show
	d, err := kubernetes.Apply(ctx, client, c.deployment)
	if err != nil {
		return found{}, err
	}
	return found{agents: d.Agents, services: d.Services, token: d.Token, notes: append(notes, d.Notes...), remove: d.Remove}, nil
}

// leftovers tells of agents that earlier runs have left, or removes them.
func (c *netMatrix) leftovers(ctx context.Context, client clientset.Interface, line *progressLine) (notes []string, err error) {
	left, err := kubernetes.Leftovers(ctx, client)
	if apierrors.IsForbidden(err) && !c.removeLeftovers {
		return []string{"Namespaces may not be listed, so that nobody knows whether earlier runs have left agents."}, nil
	}
	if err != nil {
		return nil, err
	}
	for _, l := range left {
		if c.removeLeftovers {
			line.Show("removing namespace " + l.Namespace + ", which an earlier run has left")
			if err := kubernetes.RemoveLeftover(ctx, client, l); err != nil {
				return nil, err
			}
			continue
		}
		if l.Going {
			continue
		}
		notes = append(notes, fmt.Sprintf("There are agents of another run, of %s, in namespace %s; if nobody uses them, --remove-leftovers or `kubectl delete namespace %s` removes them.",
			l.Made.UTC().Format(time.RFC3339), l.Namespace, l.Namespace))
	}
	return notes, nil
}
