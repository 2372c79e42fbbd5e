package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/report/text"
	"taper.dev/taper/internal/sim/policy"
	"taper.dev/taper/internal/sim/predict"
	"taper.dev/taper/internal/standalone"
	"taper.dev/taper/internal/terminal"
)

// simPredict holds the flags of `taper sim predict`.
type simPredict struct {
	options  predict.Options
	config   string
	service  string
	span     time.Duration
	save     string
	proxies  int
	policy   string
	p50, p99 time.Duration
	json     bool
}

func newSimPredict() *cobra.Command {
	c := &simPredict{options: predict.DefaultOptions()}
	cmd := &cobra.Command{
		Use:   "predict [SNAPSHOT]",
		Short: "What each way to balance would make of a live service",
		Long: `Says what p50, p99 and CPU each strategy would give against today's, with an interval,
before anything is enforced.

What requests cost is learnt from a store, through the configuration of "taper balance",
or from a snapshot, by the same code that decides weights. What metrics do not tell is
assumed, varied within what is usual, and said. Nothing is applied anywhere.

Tell it what you know: the number of proxies, and today's p50 and p99 as clients see
them, to which the model is then fitted.`,
		Example: `  taper sim predict --config balance.yaml --proxies 32 --p50 5ms --p99 80ms
  taper sim predict --config balance.yaml --service shop --for 1h --save shop.json
  taper sim predict shop.json --policy round-robin --json`,
		Args: atMostOneSnapshot,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args) },
	}
	o, f := &c.options, cmd.Flags()
	f.StringVarP(&c.config, "config", "c", "", "configuration of taper balance, whose store is asked")
	f.StringVar(&c.service, "service", "", "service of the configuration, where it has several")
	f.DurationVar(&c.span, "for", 10*time.Minute, "how far to look back, with --config")
	f.StringVar(&c.save, "save", "", "snapshot to write, of what was observed")
	f.IntVar(&c.proxies, "proxies", 0, "number of proxies that send requests; 0 for unknown")
	f.StringVar(&c.policy, "policy", "", "how proxies choose today (default least-request)")
	f.DurationVar(&c.p50, "p50", 0, "median latency today, as clients see it")
	f.DurationVar(&c.p99, "p99", 0, "99th percentile of latency today, as clients see it")
	f.Float64Var(&o.Sigma, "sigma", o.Sigma, "how much costs of requests vary (deviation of their logarithm), if --p50 and --p99 do not tell")
	f.IntVar(&o.Draws, "draws", o.Draws, "how many services like this one are simulated")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed of all chance")
	f.BoolVar(&c.json, "json", false, "print the prediction as JSON")
	return cmd
}

func atMostOneSnapshot(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return command.Usagef("%s takes one snapshot, and %d are named; see %s --help", cmd.CommandPath(), len(args), cmd.CommandPath())
	}
	return nil
}

func (c *simPredict) run(cmd *cobra.Command, args []string) error {
	if err := c.check(args); err != nil {
		return command.Usagef("%w; see taper sim predict --help", err)
	}
	service, err := c.observe(cmd.Context(), args)
	if err != nil {
		return err
	}
	c.tell(service)
	if c.save != "" {
		if err := writeReport(c.save, service.Write); err != nil {
			return fmt.Errorf("--save: %w", err)
		}
	}
	result, err := c.predict(cmd.Context(), service, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if c.json {
		return result.WriteJSON(out)
	}
	return text.Prediction(out, result, terminal.Of(out, plainWidth))
}

// check tells what is wrong with the flags.
func (c *simPredict) check(args []string) error {
	switch {
	case (len(args) == 0) == (c.config == ""):
		return errors.New("it takes either a snapshot or --config FILE")
	case c.config == "" && c.service != "":
		return errors.New("--service chooses among the services of --config: a snapshot has one")
	case c.proxies < 0:
		return fmt.Errorf("--proxies is %d: it takes 1 or more, or 0 for unknown", c.proxies)
	case (c.p50 == 0) != (c.p99 == 0):
		return errors.New("it takes both of --p50 and --p99, or none")
	case c.p50 < 0 || c.p99 < c.p50 || c.p50 > 0 && c.p99 == c.p50:
		return fmt.Errorf("--p50 is %s and --p99 %s: they take durations above 0, p99 the longer", c.p50, c.p99)
	case c.span <= 0:
		return fmt.Errorf("--for is %s: it takes a duration above 0, such as 10m", c.span)
	}
	if c.policy != "" {
		if _, err := policy.Find(c.policy); err != nil {
			return fmt.Errorf("--policy: %w", err)
		}
	}
	return c.options.Validate()
}

// observe reads the snapshot, or asks the store.
func (c *simPredict) observe(ctx context.Context, args []string) (*predict.Service, error) {
	if len(args) > 0 {
		return readSnapshot(args[0])
	}
	cfg, err := standalone.Load(c.config)
	if err != nil {
		return nil, command.Usage(err)
	}
	past, err := standalone.LookBack(ctx, cfg, c.service, c.span)
	if _, ok := errors.AsType[standalone.WrongQuestion](err); ok {
		return nil, command.Usage(err)
	}
	if err != nil {
		return nil, err
	}
	service := &predict.Service{Name: past.Service, Endpoints: past.Endpoints, Length: past.Window, Policy: past.Policy}
	for _, look := range past.Looks {
		service.Windows = append(service.Windows, predict.Window{
			End: look.At, Samples: predict.Within(look.Samples, look.At, past.Window),
		})
	}
	return service, nil
}

func readSnapshot(path string) (*predict.Service, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, command.Usagef("reading the snapshot: %w", err)
	}
	defer file.Close()
	service, err := predict.Read(file)
	if err != nil {
		return nil, command.Usagef("%s: %w", path, err)
	}
	return service, nil
}

// tell adds what only people know.
func (c *simPredict) tell(s *predict.Service) {
	if c.proxies > 0 {
		s.Proxies = c.proxies
	}
	if c.policy != "" {
		s.Choice = c.policy
	}
	if c.p50 > 0 {
		s.Today = &predict.Latency{P50: c.p50.Seconds(), P99: c.p99.Seconds()}
	}
}

func (c *simPredict) predict(ctx context.Context, s *predict.Service, errOut io.Writer) (*report.Prediction, error) {
	line := newProgressLine(errOut)
	defer line.Clear()
	return predict.Predict(ctx, s, c.options, func(p predict.Progress) {
		line.Show(fmt.Sprintf("%3.0f %%  %s", 100*p.Done, p.Doing))
	})
}
