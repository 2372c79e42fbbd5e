// Package cli is the command line: one file per command, which reads flags, runs
// what they ask for and prints what came of it. [Main] is where to start.
package cli

import (
	"context"
	"errors"
	"io"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"taper.dev/taper/internal/command"
)

//go:generate go test . -run ^TestReference$ -update

// Main runs taper and returns its exit code. Ctrl-C and SIGTERM end the command
// in order; a second one ends the process.
func Main(args []string, in io.Reader, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	go func() {
		<-ctx.Done()
		stop() // from now on a signal has its usual effect
	}()
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted; nothing is left running")
	}
	return command.Exit(errOut, "taper", err)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "taper",
		Short: "Take the tail off latency on Kubernetes",
		Long: `taper takes the tail off latency on Kubernetes: it moves load-balancing weights
so that fast endpoints do more and slow ones less, and shows on one machine what
that brings. It reads packet captures and says where the time of requests goes, and
measures what the network gives and what each layer of it costs. It simulates what a
change of balancing would do at any scale.`,
		Example: `  taper lab balance                    # the experiment, before and after
  taper balance --config balance.yaml  # the control loop for your own Envoys
  taper explain capture.pcap           # where the time of requests goes
  taper net test HOST                  # what the network gives
  taper sim run                        # what can be simulated`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          command.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(command.WrongFlag)
	root.AddCommand(newBalance(), newExplain(), newLab(), newNet(), newSim(), newVersion())
	return root
}
