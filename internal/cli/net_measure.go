package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/measure"
	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/agent"
)

// netTest holds the flags of `taper net test`.
type netTest struct {
	access       netAccess
	tests        []string
	direction    string
	messages     []string
	streams      int
	mode         string
	as           []string
	trial        time.Duration
	cpu, peerCPU int
	options      measure.Options
	output       netOutput
}

func newNetTest() *cobra.Command {
	c := &netTest{}
	cmd := &cobra.Command{
		Use:   "test [NAME=]HOST[:PORT]...",
		Short: "Measure the way to an agent, or compare several ways",
		Long: `Measures bandwidth, latency, connecting, responsiveness under load and the path MTU
to an agent (taper net serve), by many short trials. Given several, such as the
addresses of one pod on the host network, on the pod network and behind a service, it
measures them in turn, in random order, and says whether the others are better or
worse than the first, or that nobody can tell yet.

Latency is a full round trip. Percentiles are of messages that had a time to be sent
at (--rate), so that a stall counts for all that it held up. A percentile is told only
if ten samples lie beyond it.`,
		Example: `  taper net test 10.0.0.2
  taper net test host=10.0.0.2 pod=10.32.0.7:4001 service=10.96.0.12
  taper net test --tests tcp_lat --mode hot --cpu 1 --peer-cpu 1 10.0.0.2
  taper net test --tests tcp_bw --message 64Ki,1Mi --streams 4 --as qperf,iperf3 10.0.0.2
  taper net test --sustain 10m --tests tcp_bw 10.0.0.2      # is there a burst that ends?`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args) },
	}
	f, o := cmd.Flags(), &c.options
	c.access.flags(f)
	f.StringSliceVar(&c.tests, "tests", testNames(), "what to measure")
	f.StringVar(&c.direction, "direction", "both", "which way bandwidth is measured: out, in or both")
	f.StringSliceVar(&c.messages, "message", nil, "bytes of a message, such as 64Ki; several are measured one after the other")
	f.IntVar(&c.streams, "streams", 1, "connections that carry bytes at once")
	f.StringVar(&c.mode, "mode", string(probe.Cold), "how ends wait: cold (in the kernel, as services do) or hot (spinning)")
	f.Float64Var(&o.RatePerS, "rate", measure.DefaultRatePerS, "messages per second with which percentiles are measured")
	f.DurationVar(&c.trial, "trial", measure.DefaultTrial, "how long a trial takes")
	f.IntVar(&o.Rounds, "rounds", measure.DefaultRounds, "how many rounds of trials there are at least, within the budget")
	f.DurationVar(&o.Budget, "budget", measure.DefaultBudget, "how long rounds may take in all")
	f.Float64Var(&o.Difference, "difference", measure.DefaultDifference, "the difference of bandwidth that is worth telling, as a share")
	f.DurationVar(&o.DifferenceLatency, "difference-latency", measure.DefaultDifferenceLatency, "the difference of latency that is worth telling")
	f.DurationVar(&o.Sustain, "sustain", measure.DefaultSustain, "how long to send at first, looking for shaping; 0 does not")
	f.StringSliceVar(&c.as, "as", nil, "measure bandwidth as these tools do, too: qperf, netperf, iperf3")
	f.IntVar(&c.cpu, "cpu", -1, "CPU on which the thread here stays (default any)")
	f.IntVar(&c.peerCPU, "peer-cpu", -1, "CPU on which the agent's thread stays (default any)")
	f.Uint64Var(&o.Seed, "seed", 0, "decides the order within rounds (default another each time)")
	c.output.flags(cmd)
	return cmd
}

func testNames() []string {
	var names []string
	for _, t := range probe.Tests {
		names = append(names, string(t))
	}
	return names
}

func (c *netTest) run(cmd *cobra.Command, args []string) error {
	specs, err := c.specs()
	if err == nil {
		err = c.complete(cmd, args, specs)
	}
	if err != nil {
		return command.Usagef("%w; see taper net test --help", err)
	}
	dial, err := c.access.options()
	if err != nil {
		return err
	}
	if err := c.output.writable(); err != nil {
		return err
	}
	line := newProgressLine(cmd.ErrOrStderr())
	defer line.Clear()
	clients, err := c.dial(cmd.Context(), args, dial, line)
	defer func() {
		for _, client := range clients {
			client.Close()
		}
	}()
	if err != nil {
		return err
	}
	c.options.Progress = line.Show
	result, err := measure.Run(cmd.Context(), c.options)
	line.Clear()
	if err != nil {
		return err
	}
	if err := c.output.result(cmd, result); err != nil {
		return err
	}
	if why := missing(result); why != "" {
		return notWhole(why)
	}
	return nil
}

// missing is why paths were not measured to the end; empty if all were.
func missing(r *probe.Result) string {
	var why []string
	if r.Incomplete != "" {
		why = append(why, r.Incomplete)
	}
	for _, other := range r.Others {
		if other.Incomplete != "" {
			why = append(why, other.Name+": "+other.Incomplete)
		}
	}
	return strings.Join(why, "; ")
}

// complete checks what can be checked before anybody is asked.
func (c *netTest) complete(cmd *cobra.Command, args []string, specs []probe.Spec) error {
	if len(args) == 0 {
		return errors.New("no host: name the machine on which taper net serve runs")
	}
	c.options.Specs = specs
	for _, name := range c.as {
		tool := probe.Tool(name)
		if _, ok := probe.As(tool, probe.TCPBandwidth); !ok {
			return fmt.Errorf("--as: there is no tool %q: the tools are qperf, netperf, iperf3", name)
		}
		c.options.Tools = append(c.options.Tools, tool)
	}
	if !cmd.Flags().Changed("seed") {
		c.options.Seed = uint64(time.Now().UnixNano())
	}
	names := c.options
	for _, arg := range args {
		name, _ := splitName(arg)
		names.Paths = append(names.Paths, measure.Path{Name: name})
	}
	return names.Validate()
}

// specs is what flags ask for, test by test.
func (c *netTest) specs() ([]probe.Spec, error) {
	messages, err := parseSizes(c.messages)
	if err != nil {
		return nil, err
	}
	directions := []probe.Direction{probe.Out, probe.In}
	if c.direction != "both" {
		directions = []probe.Direction{probe.Direction(c.direction)}
	}
	var specs []probe.Spec
	for _, name := range c.tests {
		s := probe.Default(probe.Test(name))
		s.Duration, s.Mode = c.trial, probe.Mode(c.mode)
		s.NearCPU, s.FarCPU = cpuOf(c.cpu), cpuOf(c.peerCPU)
		ways := []probe.Direction{probe.Out}
		switch s.Test {
		case probe.TCPBandwidth, probe.UDPBandwidth:
			s.Streams, ways = c.streams, directions
		case probe.Responsiveness:
			// Streams are added until the path is full, which takes its time.
			s.Streams, s.Duration = max(c.streams, loadedStreams), max(c.trial, loadedFor)
		}
		sizes := messages
		if len(sizes) == 0 || s.Test == probe.PathMTU || s.Test == probe.Responsiveness {
			sizes = []int{s.MessageBytes}
		}
		for _, s.Direction = range ways {
			for _, s.MessageBytes = range sizes {
				specs = append(specs, s)
			}
		}
	}
	return specs, nil
}

// A path is seen to be full only with several streams, and after some seconds.
const (
	loadedStreams = 16
	loadedFor     = 10 * time.Second
)

func cpuOf(flag int) *int {
	if flag < 0 {
		return nil
	}
	return &flag
}

// parseSizes reads numbers of bytes as Kubernetes has them: 1400, 64Ki, 1M.
func parseSizes(texts []string) ([]int, error) {
	var sizes []int
	for _, text := range texts {
		q, err := resource.ParseQuantity(text)
		bytes, whole := q.AsInt64()
		if err != nil || !whole || bytes < 1 || bytes > probe.MaxMessageBytes {
			return nil, fmt.Errorf("--message: %q is no size of a message: it is 1 to %d bytes, such as 1400 or 64Ki", text, probe.MaxMessageBytes)
		}
		sizes = append(sizes, int(bytes))
	}
	return sizes, nil
}

// splitName takes NAME=HOST apart; a host without a name is its own.
func splitName(arg string) (name, address string) {
	if name, address, ok := strings.Cut(arg, "="); ok {
		return name, address
	}
	return arg, arg
}

// unreachable is the agent of a path that could not be dialled: other paths are measured
// all the same.
type unreachable struct{ err error }

func (u unreachable) Run(context.Context, probe.Spec) (probe.Trial, error) {
	return probe.Trial{}, u.err
}

// dial reaches all agents; the paths are theirs. It is an error if none is reached. Those
// reached are returned also with an error.
func (c *netTest) dial(ctx context.Context, args []string, options agent.DialOptions, line *progressLine) ([]*agent.Client, error) {
	var clients []*agent.Client
	var errs []error
	from, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("finding this machine's name: %w", err)
	}
	for _, arg := range args {
		name, address := splitName(arg)
		line.Show("reaching " + address)
		client, err := agent.Dial(ctx, address, options)
		if ctx.Err() != nil {
			return clients, context.Cause(ctx)
		}
		if err != nil {
			errs = append(errs, err)
			c.options.Paths = append(c.options.Paths, measure.Path{Name: name, Kind: probe.HostPath, From: from, To: address, Prober: unreachable{err}})
			continue
		}
		clients = append(clients, client)
		far := client.Host()
		kind := far.Path
		if kind == "" {
			kind = probe.HostPath
		}
		path := measure.Path{Name: name, Kind: kind, From: from, To: client.Peer().String(), Far: &far, Prober: client}
		if other := client.Other(); len(other) > 0 {
			path.Notes = append(path.Notes, fmt.Sprintf("%s has other addresses too (%s); this is over %s.", address, join(other), client.Peer().Addr()))
		}
		c.options.Paths = append(c.options.Paths, path)
	}
	if len(clients) == 0 {
		return nil, errors.Join(errs...)
	}
	return clients, nil
}

func join[T fmt.Stringer](list []T) string {
	var texts []string
	for _, v := range list {
		texts = append(texts, v.String())
	}
	return strings.Join(texts, ", ")
}
