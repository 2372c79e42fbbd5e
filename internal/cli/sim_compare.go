package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/lab"
	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/report/text"
	"taper.dev/taper/internal/terminal"
)

// simCompare holds the flags of `taper sim compare`.
type simCompare struct {
	within float64
	json   bool
}

// maxExperiment bounds what is read of an experiment, in bytes.
const maxExperiment = 64 << 20

func newSimCompare() *cobra.Command {
	c := &simCompare{}
	cmd := &cobra.Command{
		Use:   "compare EXPERIMENT.json",
		Short: "The simulator beside what the lab measured",
		Long: `Simulates an experiment that "taper lab balance --json" measured, with emulated
endpoints, and prints p50, p99 and CPU of every arm side by side. What real proxies and
sockets add to a request is taken from the quickest tenth of those that were measured,
once for all arms.

Exit code 3 means that a figure is further apart than asked for.`,
		Example: `  taper lab balance --json --report "" > experiment.json
  taper sim compare experiment.json --within 15`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.Usagef("%s takes one experiment, - for standard input; see %s --help", cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.Float64Var(&c.within, "within", 15, "how many per cent the figures may be apart")
	f.BoolVar(&c.json, "json", false, "print the comparison as JSON")
	return cmd
}

func (c *simCompare) run(cmd *cobra.Command, path string) error {
	if !(c.within > 0 && c.within <= 100) {
		return command.Usagef("--within is %g: it takes per cent, above 0 and up to 100", c.within)
	}
	experiment, err := readExperiment(cmd, path)
	if err != nil {
		return err
	}
	line := newProgressLine(cmd.ErrOrStderr())
	result, err := lab.Agree(cmd.Context(), experiment, c.within, func(part float64) {
		line.Show(fmt.Sprintf("%3.0f %%  simulating the experiment", 100*part))
	})
	line.Clear()
	if cmd.Context().Err() != nil {
		return cmd.Context().Err()
	}
	if err != nil { // nothing but the context and the experiment can be wrong
		return command.Usagef("%s: %w", path, err)
	}
	out := cmd.OutOrStdout()
	if c.json {
		err = result.WriteJSON(out)
	} else {
		err = text.Agreement(out, result, terminal.Of(out, plainWidth))
	}
	if err == nil && !result.Holds() {
		return command.Answered(command.ExitCheck)
	}
	return err
}

// readExperiment reads a file, or standard input for "-".
func readExperiment(cmd *cobra.Command, path string) (*report.Experiment, error) {
	in := cmd.InOrStdin()
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, command.Usagef("reading the experiment: %w", err)
		}
		defer file.Close()
		in = file
	}
	bytes, err := io.ReadAll(io.LimitReader(in, maxExperiment+1))
	if err != nil {
		return nil, fmt.Errorf("reading the experiment: %w", err)
	}
	if len(bytes) > maxExperiment {
		return nil, command.Usagef("%s has more than %d MiB: is it the right file?", path, maxExperiment>>20)
	}
	experiment := &report.Experiment{}
	if err := json.Unmarshal(bytes, experiment); err != nil {
		return nil, command.Usagef("%s is not what taper lab balance --json printed: %w", path, err)
	}
	return experiment, nil
}
