package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/lab"
	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/report/html"
	"taper.dev/taper/internal/report/text"
	"taper.dev/taper/internal/terminal"
)

// labBalance holds the flags of `taper lab balance`.
type labBalance struct {
	options lab.Options
	report  string
	json    bool
	verbose bool
}

func newLabBalance() *cobra.Command {
	c := &labBalance{options: lab.DefaultOptions(lab.Emulated)}
	cmd := &cobra.Command{
		Use:   "balance",
		Short: "The Fibonacci experiment: tail latency before and after weights",
		Long: `Runs fifteen endpoints of unequal speed behind real Envoys, under open-loop load,
with one way to balance after another, and compares them. Weights are learnt by
the loop of "taper balance", from metrics, as in production.

Everything runs on loopback addresses of this machine and ends with the command.
The default takes about two and a half minutes.`,
		Example: `  taper lab balance
  taper lab balance --endpoints nginx --store victoria-metrics
  taper lab balance --rounds 1 --measure 5s --report "" --json`,
		Args: command.NoArgs,
		PreRun: func(cmd *cobra.Command, _ []string) {
			c.fillDefaults(cmd)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	o, f := &c.options, cmd.Flags()
	f.StringVar(&o.Endpoints, "endpoints", o.Endpoints, "servers under test: emulated (the article's full load) or nginx (real work, a tenth of it)")
	f.StringVar(&o.Store, "store", o.Store, "where samples are kept: embedded or victoria-metrics (the real server)")
	f.StringSliceVar(&o.Arms, "arms", o.Arms, "ways to balance, the first is what the others are compared with; also round-robin")
	f.IntVar(&o.Proxies, "proxies", o.Proxies, "number of client Envoys")
	f.Float64Var(&o.Rate, "rate", o.Rate, "requests per second over all proxies (nginx: 150)")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "how often each arm is measured")
	f.DurationVar(&o.Measure, "measure", o.Measure, "how long each arm is measured in each round (nginx: 20s)")
	f.DurationVar(&o.Interval, "interval", o.Interval, "control interval of the loops (nginx: 4s)")
	f.BoolVar(&o.Disturb, "disturb", false, "afterwards double the demand of one endpoint and watch the weights follow")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed of arrivals and demands")
	f.StringVar(&o.Envoy, "envoy", o.Envoy, "Envoy binary")
	f.StringVar(&o.NginxBinary, "nginx", o.NginxBinary, "nginx binary")
	f.StringVar(&c.report, "report", "report.html", `page to write; "" for none`)
	f.BoolVar(&c.json, "json", false, "print the result as JSON")
	f.BoolVarP(&c.verbose, "verbose", "v", false, "log every decision")
	return cmd
}

// fillDefaults gives flags that were not set the default of the chosen endpoints.
func (c *labBalance) fillDefaults(cmd *cobra.Command) {
	defaults := lab.DefaultOptions(c.options.Endpoints)
	for flag, fill := range map[string]func(){
		"rate":     func() { c.options.Rate = defaults.Rate },
		"measure":  func() { c.options.Measure = defaults.Measure },
		"interval": func() { c.options.Interval = defaults.Interval },
	} {
		if !cmd.Flags().Changed(flag) {
			fill()
		}
	}
}

func (c *labBalance) run(cmd *cobra.Command) error {
	if err := c.options.Validate(); err != nil {
		return command.Usagef("%w; see taper lab balance --help", err)
	}
	if err := reportIsWritable(c.report); err != nil {
		return err
	}
	result, err := c.experiment(cmd.Context(), cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	// The table first: it is there even if the page cannot be written.
	out := cmd.OutOrStdout()
	if c.json {
		err = result.WriteJSON(out)
	} else {
		err = text.Experiment(out, result, terminal.Of(out, plainWidth))
	}
	if err != nil || c.report == "" {
		return err
	}
	if err := writeReport(c.report, func(w io.Writer) error { return html.Experiment(w, result) }); err != nil || c.json {
		return err
	}
	_, err = fmt.Fprintf(out, "\nThe whole of it, with charts: %s\n", c.report)
	return err
}

func (c *labBalance) experiment(ctx context.Context, errOut io.Writer) (*report.Experiment, error) {
	line := newProgressLine(errOut)
	defer line.Clear()
	level := slog.LevelError
	if c.verbose {
		level = slog.LevelDebug
	}
	logger := slog.New(slog.NewTextHandler(line, &slog.HandlerOptions{Level: level}))
	return lab.Balance(ctx, c.options, logger, func(p lab.Progress) { line.Show(describe(p)) })
}

func describe(p lab.Progress) string {
	s := fmt.Sprintf("%3.0f %%  %s left  %s", 100*p.Done.Seconds()/p.Total.Seconds(), (p.Total - p.Done).Round(time.Second), p.Doing)
	if p.Sent > 0 {
		s += fmt.Sprintf("  %d requests", p.Sent)
	}
	if p.Errors > 0 {
		s += fmt.Sprintf(", %d FAILED", p.Errors)
	}
	return s
}
