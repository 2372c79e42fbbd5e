package cli

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/report/html"
	"taper.dev/taper/internal/report/text"
	"taper.dev/taper/internal/sim/scenario"
	"taper.dev/taper/internal/sim/study"
	"taper.dev/taper/internal/terminal"
)

// simSweep holds the flags of `taper sim sweep`.
type simSweep struct {
	simulation
	vary     string
	values   []string
	from, to float64
	steps    int
	csv      bool
}

func newSimSweep() *cobra.Command {
	c := &simSweep{}
	cmd := &cobra.Command{
		Use:   "sweep SCENARIO",
		Short: "Simulate a scenario at several values of one parameter",
		Long: `Simulates a scenario as "taper sim run" does, at each of several values of one
parameter, and shows p99 and CPU of each arm over it. The parameters:

` + parameterList(),
		Example: `  taper sim sweep article --vary load --values 0.5,0.8,1,1.2
  taper sim sweep article --vary proxies --values 1,4,16,64 --arms least-request,least-latency
  taper sim sweep outage --vary metric-delay --from 0 --to 60 --steps 7 --csv`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args) },
	}
	f := cmd.Flags()
	f.StringVar(&c.vary, "vary", "", "the parameter")
	f.StringSliceVar(&c.values, "values", nil, "its values")
	f.Float64Var(&c.from, "from", 0, "its first value, with --to and --steps in the place of --values")
	f.Float64Var(&c.to, "to", 0, "its last value")
	f.IntVar(&c.steps, "steps", 0, "how many values there are, at equal distances")
	f.BoolVar(&c.csv, "csv", false, "print CSV")
	c.flags(cmd, "sweep.html")
	return cmd
}

// parameterList describes what can be varied.
func parameterList() string {
	var list strings.Builder
	for _, p := range scenario.Parameters {
		fmt.Fprintf(&list, "  %-14s %s\n", p.Name, p.About)
	}
	return strings.TrimSuffix(list.String(), "\n")
}

// maxSweepValues bounds what a table has room for and a person waits for.
const maxSweepValues = 50

// parameters are the values that the flags ask for, rising.
func (c *simSweep) parameters(cmd *cobra.Command) ([]float64, error) {
	set := cmd.Flags().Changed
	stepped := set("from") || set("to") || set("steps")
	switch {
	case c.vary == "":
		return nil, command.Usagef("nothing is varied: name a parameter with --vary; see %s --help", cmd.CommandPath())
	case set("values") == stepped:
		return nil, command.Usagef("the values of %s are given by --values, or by --from, --to and --steps", c.vary)
	case stepped && (!set("from") || !set("to") || c.steps < 2 || c.steps > maxSweepValues || !(c.from < c.to)):
		return nil, command.Usagef("--from %g --to %g --steps %d are no values: the first is below the last, and there are 2..%d of them", c.from, c.to, c.steps, maxSweepValues)
	case len(c.values) > maxSweepValues:
		return nil, command.Usagef("--values has %d values: at most %d are possible", len(c.values), maxSweepValues)
	}
	var values []float64
	for _, text := range c.values {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, command.Usagef("--values has %q: it is no number", text)
		}
		values = append(values, v)
	}
	for i := range c.steps {
		// The sum of two parts, and not of many steps, so that the last value is as it was given.
		part := float64(i) / float64(c.steps-1)
		values = append(values, rounded(c.from*(1-part)+c.to*part))
	}
	slices.Sort(values)
	for i, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, command.Usagef("%g is no value for %s", v, c.vary)
		}
		if i > 0 && v == values[i-1] {
			return nil, command.Usagef("%s has the value %g twice", c.vary, v)
		}
	}
	return values, nil
}

// rounded drops the digits that only binary fractions have.
func rounded(v float64) float64 {
	const digits = 1e9
	if r := math.Round(v*digits) / digits; r != 0 {
		return r
	}
	return v
}

func (c *simSweep) run(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return command.Usagef("%d scenarios are given, want one; taper sim run lists the shipped", len(args))
	}
	if c.json && c.csv {
		return command.Usagef("--json and --csv exclude each other")
	}
	values, err := c.parameters(cmd)
	if err != nil {
		return err
	}
	s, err := c.open(cmd, args[0])
	if err != nil {
		return err
	}
	options, done, err := c.options(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	result, err := study.Sweep(cmd.Context(), s, c.vary, values, options)
	done()
	if err != nil {
		return failed(cmd.Context(), err)
	}
	result.Simulation.Source, result.Simulation.Chosen = args[0], len(c.arms) > 0
	out := cmd.OutOrStdout()
	switch {
	case c.json:
		err = result.WriteJSON(out)
	case c.csv:
		err = result.WriteCSV(out)
	default:
		err = text.Sweep(out, result, terminal.Of(out, plainWidth))
	}
	if err != nil {
		return err
	}
	return keepReport(out, c.report, c.json || c.csv, func(w io.Writer) error { return html.Sweep(w, result) })
}
