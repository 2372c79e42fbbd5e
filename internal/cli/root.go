// Package cli is the command line: one file per command, which reads flags, runs
// what they ask for and prints what came of it. [Main] is where to start.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

//go:generate go test . -run ^TestReference$ -update

// Exit codes, a contract with scripts.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitCheck  = 3 // done, and the check asked for did not hold
)

// usageError is a command called the wrong way: flags, arguments, configuration.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// checkError is a check that was asked for and did not hold.
type checkError struct{ error }

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
	if err == nil {
		return exitDone
	}
	return exitCode(errOut, err)
}

// exitCode prints the error, on one line, and says what the process ends with.
func exitCode(errOut io.Writer, err error) int {
	// Joined errors come on lines of their own; here one line says it all.
	message := strings.ReplaceAll(err.Error(), "\n", "; ")
	var usage usageError
	var check checkError
	switch {
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(errOut, "taper: interrupted; nothing is left running")
		return exitFailed
	case errors.As(err, &check):
		fmt.Fprintf(errOut, "taper: %s\n", message)
		return exitCheck
	// cobra says which command is unknown in a plain error, and nothing else does.
	case errors.As(err, &usage), strings.HasPrefix(err.Error(), "unknown command"):
		fmt.Fprintf(errOut, "taper: %s\n", message)
		return exitUsage
	}
	fmt.Fprintf(errOut, "taper: %s\n", message)
	return exitFailed
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "taper",
		Short: "Take the tail off latency on Kubernetes",
		Long: `taper takes the tail off latency on Kubernetes: it moves load-balancing weights
so that fast endpoints do more and slow ones less, and shows on one machine what
that brings. It also reads packet captures and says where the time of requests goes.`,
		Example: `  taper lab balance                    # the experiment, before and after
  taper balance --config balance.yaml  # the control loop for your own Envoys
  taper explain capture.pcap           # where the time of requests goes`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	})
	root.AddCommand(newBalance(), newExplain(), newLab(), newVersion())
	return root
}

// noArgs is cobra.NoArgs with an error that says so.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		return usageError{fmt.Errorf("unknown command %q; see %s --help", args[0], cmd.CommandPath())}
	}
	return usageError{fmt.Errorf("%s takes no argument, and %q is one; see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())}
}
