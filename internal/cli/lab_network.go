package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/lab/netns"
	"taper.dev/taper/internal/lab/network"
	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/answer"
	"taper.dev/taper/internal/probe/page"
	"taper.dev/taper/internal/probe/text"
	"taper.dev/taper/internal/terminal"
)

// labNetwork holds the flags of `taper lab network`.
type labNetwork struct {
	options network.Options
	shape   string
	narrow  string
	report  string
	json    bool
}

func newLabNetwork() *cobra.Command {
	c := &labNetwork{options: network.DefaultOptions()}
	cmd := &cobra.Command{
		Use:   "network",
		Short: "The network story: what overlays cost, and a balancer that is full",
		Long: `Makes machines of network namespaces and measures between them with the agents that
taper net serve runs: a bare cable, VXLAN over it, an overlay that copies packets in
user space, and a cable that lets a burst through and then holds a rate. Then users
load a page through a real Envoy with a narrow interface, and past it.

Nobody tells the measurements what was made, but for how long to look for the end of
the burst. All of it is in networks of its own, which are gone with the command. It
needs root and Envoy, and takes about two minutes.`,
		Example: `  sudo taper lab network
  sudo taper lab network --measure 5m --shape 1G/200M --narrow 50M
  sudo taper lab network --report paths.html`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	o, f := &c.options, cmd.Flags()
	f.DurationVar(&o.Measure, "measure", o.Measure, "how long the paths between two machines may be measured")
	f.StringVar(&c.shape, "shape", "500M/50M", "bits per second of the shaped cable, and bytes of its bucket")
	f.StringVar(&c.narrow, "narrow", "100M", "bits per second that the balancer and the servers can send")
	f.IntVar(&o.Users, "users-max", o.Users, "how many users load the page at most")
	f.DurationVar(&o.Step, "step", o.Step, "how long each number of users loads it")
	f.Uint64Var(&o.Seed, "seed", 0, "decides the order of what is measured in turn (default another each time)")
	f.StringVar(&o.Envoy, "envoy", o.Envoy, "Envoy binary")
	reportFlags(cmd, &c.report, &c.json)
	return cmd
}

func (c *labNetwork) run(cmd *cobra.Command) error {
	if err := c.complete(cmd); err != nil {
		return command.Usagef("%w; see taper lab network --help", err)
	}
	if err := reportIsWritable(c.report); err != nil {
		return err
	}
	if err := netns.Enter(); err != nil {
		return err
	}
	line := newProgressLine(cmd.ErrOrStderr())
	defer line.Clear()
	result, err := network.Run(cmd.Context(), c.options, line.Show)
	line.Clear()
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if c.json {
		err = writeJSON(out, result)
	} else {
		err = printNetwork(out, result, terminal.Of(out, plainWidth))
	}
	if err != nil {
		return err
	}
	return keepReport(out, c.report, c.json, func(w io.Writer) error { return page.Result(w, result.Paths) })
}

// complete reads the limits.
func (c *labNetwork) complete(cmd *cobra.Command) error {
	o := &c.options
	rate, bucket, ok := strings.Cut(c.shape, "/")
	if !ok {
		return fmt.Errorf("--shape %q: want RATE/BUCKET, bits per second and bytes, such as 500M/50M", c.shape)
	}
	for _, q := range []struct {
		flag, text string
		into       *uint64
	}{{"--shape", rate, &o.Shape.BitsPerS}, {"--shape", bucket, &o.Shape.Bytes}, {"--narrow", c.narrow, &o.Narrow.BitsPerS}} {
		v, err := resource.ParseQuantity(q.text)
		n, whole := v.AsInt64()
		if err != nil || !whole || n < 1 {
			return fmt.Errorf("%s: %q is no number such as 500M", q.flag, q.text)
		}
		*q.into = uint64(n)
	}
	if !cmd.Flags().Changed("seed") {
		o.Seed = uint64(time.Now().UnixNano())
	}
	return o.Validate()
}

// printNetwork shows the answer, and the evidence in the order in which it was found.
func printNetwork(out io.Writer, r *network.Result, options terminal.Options) error {
	p := terminal.New(out, options)
	p.Paragraph(terminal.Bold.Text(r.Headline()), 0)
	title := func(text string) { p.Line(); p.Line(terminal.Bold.Text(text)) }

	title("Between two machines, measured in turn")
	printPaths(p, r)
	for _, note := range answer.Notes(r.Paths) {
		p.Paragraph(terminal.Faint.Text(note), 0)
	}
	title("What the story's authors measured, with qperf (latency is half a round trip)")
	printPublished(p)
	title("A burst that ends")
	p.Paragraph(terminal.Normal.Text(r.Shaping()), 0)
	title("A page behind a balancer")
	p.Paragraph(terminal.Normal.Text(fmt.Sprintf("The balancer and each of two servers behind it can send %s.", answer.Rate(r.Made.NarrowBytesPerS))), 0)
	if err := p.Flush(); err != nil {
		return err
	}
	return text.PageLoad(out, r.Page, options)
}

func printPaths(p *terminal.Printer, r *network.Result) {
	columns := []terminal.Column{
		{}, {Title: "bandwidth", Right: true}, {Title: "of native", Right: true}, {Title: "95 %", Right: true, Spare: 2},
		{Title: "round trip", Right: true}, {Title: "as qperf", Right: true, Spare: 1},
		{Title: "of native", Right: true}, {Title: "95 %", Right: true, Spare: 3},
		{Title: "MTU", Right: true, Spare: 4}, {Wrap: true},
	}
	styles := map[probe.Outcome]terminal.Style{probe.Better: terminal.Green, probe.Worse: terminal.Red}
	var rows [][]terminal.Text
	for _, row := range r.Rows() {
		line := terminal.Row(row.Path, row.Bandwidth, row.BandwidthShare, row.BandwidthInterval,
			row.RoundTrip, row.AsQperf, row.RoundTripShare, row.RoundTripInterval, row.MTU)
		rows = append(rows, append(line, styles[row.Outcome].Text(row.Verdict)))
	}
	p.Table(columns, rows)
}

func printPublished(p *terminal.Printer) {
	columns := []terminal.Column{
		{}, {}, {Title: "native", Right: true, Spare: 1}, {Title: "bandwidth", Right: true}, {Title: "of native", Right: true},
		{Title: "native", Right: true, Spare: 2}, {Title: "latency", Right: true}, {Title: "of native", Right: true},
	}
	var rows [][]terminal.Text
	for _, row := range network.Published {
		rows = append(rows, terminal.Row(row.Overlay, row.Machines,
			answer.Rate(row.NativeBytesPerS), answer.Rate(row.BytesPerS), answer.Percent(row.BytesPerS/row.NativeBytesPerS),
			answer.Duration(row.NativeLatencyUS), answer.Duration(row.LatencyUS), answer.Percent(row.LatencyUS/row.NativeLatencyUS)))
	}
	p.Table(columns, rows)
}
