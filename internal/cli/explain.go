package cli

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime/debug"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/explain"
	"taper.dev/taper/internal/explain/page"
	"taper.dev/taper/internal/explain/text"
	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/terminal"
)

// explainCommand holds the flags of `taper explain`.
type explainCommand struct {
	services []string
	live     explain.Live
	config   explain.ConfigFiles
	requests int
	checks   []string
	report   string
	json     bool
}

func newExplain() *cobra.Command {
	c := &explainCommand{}
	cmd := &cobra.Command{
		Use:   "explain [FILE...]",
		Short: "Where the time of requests goes, from captured packets",
		Long: `Reads packet captures and says what each request to a service waited for: which
calls it caused, what its time went to, and which known traps show.

Capture in the service's pod, while requests come in:

  tcpdump -leni any -w capture.pcap

FILE is a pcap or pcapng file, also compressed with gzip or zstd; - is standard
input. Several files are one capture, such as tcpdump -C and -W write. Credentials,
cookies, query strings, bodies and literals are not kept, and so never shown.

A check is METRIC<LIMIT for each route, METRIC(ROUTE)<LIMIT for one, with p50, p90,
p99, max, mean or errors, or no-high-findings. If one does not hold, the exit code
is 3.`,
		Example: `  taper explain capture.pcap
  taper explain --report report.html capture.pcap0 capture.pcap1
  kubectl exec POD -- tcpdump -i any -w - | taper explain -
  taper explain --live any --for 30s
  taper explain --check 'p99(GET /v1/{id})<50ms' --check no-high-findings capture.pcap
  taper explain diff ec2.pcap k8s.pcap`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args) },
	}
	f := cmd.Flags()
	serviceFlag(cmd, &c.services)
	f.StringVar(&c.live.Interface, "live", "", "capture on this interface, or any, instead of reading files (needs CAP_NET_RAW)")
	f.DurationVar(&c.live.For, "for", 0, "how long to capture; without it until Ctrl-C")
	f.StringVar(&c.config.Resolv, "resolv-conf", "", "the pod's /etc/resolv.conf, to confirm findings")
	f.StringVar(&c.config.Pod, "pod", "", "the pod's manifest, to confirm findings")
	f.StringVar(&c.config.CPUStat, "cpu-stat", "", "the container's cpu.stat, to confirm findings")
	f.IntVar(&c.requests, "requests", explain.DefaultRequests, "how many requests to keep for the output: the slowest of each route, then the first")
	f.StringArrayVar(&c.checks, "check", nil, "what must hold, such as 'p99<50ms'; may be given several times")
	reportFlags(cmd, &c.report, &c.json)
	cmd.AddCommand(newExplainDiff())
	return cmd
}

// serviceFlag and reportFlags are what explaining and comparing have in common.
func serviceFlag(cmd *cobra.Command, services *[]string) {
	cmd.Flags().StringSliceVar(services, "service", nil, "ADDRESS[:PORT] that answers the requests, where the capture does not tell")
}

func reportFlags(cmd *cobra.Command, report *string, json *bool) {
	cmd.Flags().StringVar(report, "report", "", "page to write, such as report.html")
	cmd.Flags().BoolVar(json, "json", false, "print JSON")
}

func (c *explainCommand) run(cmd *cobra.Command, args []string) error {
	options, checks, err := c.options(cmd, args)
	if err != nil {
		return command.Usagef("%w; see taper explain --help", err)
	}
	if options.Config, err = explain.LoadConfig(c.config); err != nil {
		return command.Usage(err)
	}
	if err := reportIsWritable(c.report); err != nil {
		return err
	}
	e, err := runExplain(cmd, options)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if c.json {
		err = e.WriteJSON(out)
	} else {
		err = text.Explanation(out, e, terminal.Of(out, text.UnknownWidth))
	}
	if err != nil {
		return err
	}
	if err := keepReport(out, c.report, c.json, func(w io.Writer) error { return page.Explanation(w, e) }); err != nil {
		return err
	}
	return held(cmd.ErrOrStderr(), e.Check(checks))
}

// options checks flags and arguments.
func (c *explainCommand) options(cmd *cobra.Command, args []string) (explain.Options, []explain.Check, error) {
	o := explain.Options{Paths: args, Stdin: cmd.InOrStdin(), KeepRequests: c.requests}
	switch live := c.live.Interface != ""; {
	case live && len(args) > 0:
		return o, nil, fmt.Errorf("--live captures by itself, and %q is a file", args[0])
	case live && c.live.For < 0:
		return o, nil, fmt.Errorf("--for is %s: it must not be negative", c.live.For)
	case live:
		o.Live = &c.live
	case c.live.For != 0:
		return o, nil, errors.New("--for is for --live INTERFACE")
	case len(args) == 0:
		return o, nil, errors.New("no capture: name a file, - for standard input, or --live INTERFACE")
	case slices.Contains(args, "-") && terminal.Is(o.Stdin):
		return o, nil, errors.New("standard input is a terminal: pipe a capture into it, such as of tcpdump -w -")
	}
	if c.requests < 0 {
		return o, nil, fmt.Errorf("--requests is %d: it must not be negative", c.requests)
	}
	var err error
	if o.Service, err = parseServices(c.services); err != nil {
		return o, nil, err
	}
	var checks []explain.Check
	for _, text := range c.checks {
		check, err := explain.ParseCheck(text)
		if err != nil {
			return o, nil, err
		}
		checks = append(checks, check)
	}
	return o, checks, nil
}

func parseServices(texts []string) ([]netip.AddrPort, error) {
	var services []netip.AddrPort
	for _, text := range texts {
		service, err := netip.ParseAddrPort(text)
		if err != nil {
			var address netip.Addr
			address, err = netip.ParseAddr(text)
			service = netip.AddrPortFrom(address, 0)
		}
		if err != nil {
			return nil, fmt.Errorf("--service %q is no address: write one such as 10.0.0.7, 10.0.0.7:8080 or [fd00::7]:8080", text)
		}
		services = append(services, service)
	}
	return services, nil
}

// runExplain runs with a line on the terminal that says how far it is.
func runExplain(cmd *cobra.Command, o explain.Options) (*explain.Explanation, error) {
	line := newProgressLine(cmd.ErrOrStderr())
	defer line.Clear()
	if o.Live != nil || slices.Contains(o.Paths, "-") {
		o.Progress = func(p explain.Progress) {
			line.Show(fmt.Sprintf("%s  %s packets  Ctrl-C ends it and explains them", p.Elapsed.Round(time.Second), report.Count(p.Packets)))
		}
	} else {
		o.Progress = func(p explain.Progress) { line.Show(describeReading(p)) }
	}
	collectLess()
	return explain.Run(cmd.Context(), o)
}

// collectLess has garbage collected less often, as long as there is little of it: what a
// capture tells is small, and forgotten soon.
func collectLess() {
	const percent, enough = 400, 240 << 20
	debug.SetGCPercent(percent)
	debug.SetMemoryLimit(enough)
}

func describeReading(p explain.Progress) string {
	s := report.Count(p.Packets) + " packets"
	if p.Total > 0 {
		s = fmt.Sprintf("%3.0f %%  %s", 100*float64(p.Bytes)/float64(p.Total), s)
	}
	return s
}

// keepReport writes the page, if one is wanted, and says so.
func keepReport(out io.Writer, path string, quiet bool, draw func(io.Writer) error) error {
	if path == "" {
		return nil
	}
	if err := writeReport(path, draw); err != nil || quiet {
		return err
	}
	_, err := fmt.Fprintf(out, "\nThe whole of it, with charts: %s\n", path)
	return err
}

// held is the error of checks that failed. Each has a line of its own.
func held(errOut io.Writer, failed []string) error {
	switch len(failed) {
	case 0:
		return nil
	case 1:
		return command.Unmetf("check failed: %s", failed[0])
	}
	for _, line := range failed {
		fmt.Fprintf(errOut, "taper: check failed: %s\n", line)
	}
	return command.Unmetf("%d checks failed", len(failed))
}
