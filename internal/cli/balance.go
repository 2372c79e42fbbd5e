package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/internal/standalone"
)

// balanceCommand holds the flags of `taper balance`.
type balanceCommand struct {
	config   string
	check    bool
	json     bool
	logLevel string
}

func newBalance() *cobra.Command {
	c := &balanceCommand{}
	cmd := &cobra.Command{
		Use:   "balance --config FILE",
		Short: "Move load-balancing weights of stand-alone Envoys, without Kubernetes",
		Long: `Runs the control loop: endpoints from the configuration, samples from Prometheus,
VictoriaMetrics or Envoy's own statistics, weights to Envoy through taper's EDS
server. When it stops, Envoy keeps the last weights.

With --check it only looks: it reads the configuration, asks the source once and
says what it sees of each endpoint. Exit code 3 then means that too few endpoints
were measured to act.`,
		Example: `  taper balance --config balance.yaml --check
  taper balance --config balance.yaml`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVarP(&c.config, "config", "c", "", "configuration file (required)")
	f.BoolVar(&c.check, "check", false, "look once, change nothing, and say what was seen")
	f.BoolVar(&c.json, "json", false, "log, or with --check print, JSON")
	f.StringVar(&c.logLevel, "log-level", "info", "debug (every endpoint), info, warn or error")
	return cmd
}

func (c *balanceCommand) run(cmd *cobra.Command) error {
	if c.config == "" {
		return command.Usage(errors.New("no configuration: name it with --config FILE; see taper balance --help"))
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.logLevel)); err != nil {
		return command.Usagef("--log-level is %q: it is one of debug, info, warn, error", c.logLevel)
	}
	cfg, err := standalone.Load(c.config)
	if err != nil {
		return command.Usage(err)
	}
	if c.check {
		return c.look(cmd, cfg)
	}
	var handler slog.Handler = slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level})
	if c.json {
		handler = slog.NewJSONHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level})
	}
	return standalone.Run(cmd.Context(), cfg, slog.New(handler))
}

// look is --check.
func (c *balanceCommand) look(cmd *cobra.Command, cfg *standalone.Config) error {
	seen, err := standalone.Look(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	if c.json {
		err = writeSightJSON(cmd.OutOrStdout(), seen)
	} else {
		err = writeSight(cmd.OutOrStdout(), seen)
	}
	if err != nil {
		return err
	}
	for _, s := range seen {
		if !s.Covered {
			return command.Unmetf("service %q: %d of %d endpoints were measured: too few to act", s.Service, s.Measured, len(s.Endpoints))
		}
	}
	return nil
}

func writeSight(out io.Writer, seen []standalone.Sight) error {
	for _, s := range seen {
		fmt.Fprintf(out, "%s: %d of %d endpoints measured\n", s.Service, s.Measured, len(s.Endpoints))
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "  endpoint\tCPU\trequests/s\tin flight\tage")
		for _, e := range s.Endpoints {
			sample := s.Samples[e.Address]
			fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\n", e.Address, show(sample.CPU), show(sample.Requests), show(sample.InFlight), age(sample, s.At))
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// show prints a missing reading as a dash, never as 0.
func show(r model.Reading) string {
	if !r.Known() {
		return "-"
	}
	return fmt.Sprintf("%.4g", r.Value)
}

func age(s model.Sample, now time.Time) string {
	for _, r := range []model.Reading{s.CPU, s.Requests, s.InFlight} {
		if r.Known() {
			return now.Sub(r.At).Round(100 * time.Millisecond).String()
		}
	}
	return "-"
}

// sightJSON is the JSON of --check. A missing reading is null.
type sightJSON struct {
	Service   string              `json:"service"`
	Measured  int                 `json:"measured"`
	Covered   bool                `json:"covered"`
	Endpoints []sightEndpointJSON `json:"endpoints"`
}

type sightEndpointJSON struct {
	Address  string   `json:"address"`
	CPU      *float64 `json:"cpu_cores"`
	Requests *float64 `json:"requests_per_s"`
	InFlight *float64 `json:"in_flight"`
}

func writeSightJSON(out io.Writer, seen []standalone.Sight) error {
	value := func(r model.Reading) *float64 {
		if !r.Valid() {
			return nil
		}
		return &r.Value
	}
	list := make([]sightJSON, 0, len(seen))
	for _, s := range seen {
		j := sightJSON{Service: s.Service, Measured: s.Measured, Covered: s.Covered}
		for _, e := range s.Endpoints {
			sample := s.Samples[e.Address]
			j.Endpoints = append(j.Endpoints, sightEndpointJSON{e.Address, value(sample.CPU), value(sample.Requests), value(sample.InFlight)})
		}
		list = append(list, j)
	}
	return writeJSON(out, map[string]any{"services": list})
}
