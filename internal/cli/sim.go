package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/sim/scenario"
	"taper.dev/taper/internal/sim/study"
)

func newSim() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Simulate balancing, at any scale",
		Long: `Simulates a service behind load-balancing proxies, with the control loop of
"taper balance" or without, and compares ways to balance. Nothing is sent anywhere.`,
		Example: `  taper sim run                            # which scenarios are there
  taper sim run article
  taper sim sweep article --vary load --from 0.5 --to 1.2 --steps 8
  taper sim predict --config balance.yaml  # what it would do to a live service
  taper sim compare experiment.json        # is a simulation like what was measured`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSimRun(), newSimSweep(), newSimPredict(), newSimCompare())
	return cmd
}

// simulation holds the flags of commands that simulate a scenario.
type simulation struct {
	arms   []string
	rounds int
	seed   uint64
	memory string
	report string
	json   bool
}

func (c *simulation) flags(cmd *cobra.Command, report string) {
	f := cmd.Flags()
	f.StringSliceVar(&c.arms, "arms", nil, "arms to run, of those in the scenario; the first is what the others are compared with (default all)")
	f.IntVar(&c.rounds, "rounds", 0, "how often each arm is run, each time with other luck (default the scenario's)")
	f.Uint64Var(&c.seed, "seed", 0, "seed of all that is left to luck (default the scenario's)")
	f.StringVar(&c.memory, "memory-limit", "2Gi", "memory that simulations may take at once")
	f.StringVar(&c.report, "report", report, `page to write; "" for none`)
	f.BoolVar(&c.json, "json", false, "print JSON")
}

// maxSimRounds bounds what is kept of rounds.
const maxSimRounds = 1000

// open reads the scenario as the flags have it.
func (c *simulation) open(cmd *cobra.Command, name string) (*scenario.Scenario, error) {
	s, err := scenario.Open(name)
	if err != nil {
		return nil, command.Usage(err)
	}
	if cmd.Flags().Changed("rounds") {
		if c.rounds < 1 || c.rounds > maxSimRounds {
			return nil, command.Usagef("--rounds is %d: it must be in 1..%d", c.rounds, maxSimRounds)
		}
		s.Rounds = c.rounds
	}
	if cmd.Flags().Changed("seed") {
		s.Seed = c.seed
	}
	if cmd.Flags().Changed("arms") {
		if s.Arms, err = chosen(s.Arms, c.arms); err != nil {
			return nil, command.Usage(err)
		}
	}
	return s, reportIsWritable(c.report)
}

// chosen are the arms of these names, in their order.
func chosen(arms []scenario.Arm, names []string) ([]scenario.Arm, error) {
	var all []scenario.Arm
	for i, name := range names {
		at := slices.IndexFunc(arms, func(a scenario.Arm) bool { return a.Name == name })
		if at < 0 {
			var known []string
			for _, a := range arms {
				known = append(known, a.Name)
			}
			return nil, fmt.Errorf("--arms: unknown arm %q: the scenario has %s", name, strings.Join(known, ", "))
		}
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("--arms: %s is there twice", name)
		}
		all = append(all, arms[at])
	}
	if len(all) == 0 {
		return nil, errors.New("--arms names no arm")
	}
	return all, nil
}

// options are how a study is run; the function ends its progress line.
func (c *simulation) options(errOut io.Writer) (study.Options, func(), error) {
	memory, err := resource.ParseQuantity(c.memory)
	if err != nil || memory.Value() <= 0 {
		return study.Options{}, nil, command.Usagef("--memory-limit is %q: it takes a number of bytes, such as 2Gi", c.memory)
	}
	line := newProgressLine(errOut)
	return study.Options{Memory: memory.Value(), Progress: func(p study.Progress) {
		left := ""
		if p.Left > 0 {
			left = fmt.Sprintf("  %s left", p.Left.Round(time.Second))
		}
		line.Show(fmt.Sprintf("%3.0f %%%s  %s", 100*p.Part, left, p.Doing))
	}}, line.Clear, nil
}

// failed is the error of a study. What ends one is Ctrl-C; all else was asked for the wrong
// way.
func failed(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*study.TooLarge](err); ok {
		return command.Usagef("%w; allow more with --memory-limit", err)
	}
	if ctx.Err() == nil {
		return command.Usage(err)
	}
	return err
}
