package kubectl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

//go:generate go test . -run ^TestReference$ -update

// Exit codes, a contract with scripts.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitCheck  = 3 // done, and the check asked for did not hold
)

// usageError is a command called the wrong way.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// answered ends a command whose output has said everything.
type answered int

func (a answered) Error() string { return fmt.Sprintf("exit code %d", int(a)) }

// Main runs the plugin and returns its exit code. Ctrl-C and SIGTERM end it.
func Main(args []string, in io.Reader, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// What the client library would log, the errors say.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	return exitCode(errOut, root.ExecuteContext(ctx))
}

// exitCode prints the error, on one line, and says what the process ends with.
func exitCode(errOut io.Writer, err error) int {
	if err == nil {
		return exitDone
	}
	var done answered
	if errors.As(err, &done) {
		return int(done)
	}
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(errOut, "taper: interrupted")
		return exitFailed
	}
	fmt.Fprintf(errOut, "taper: %s\n", plain(strings.ReplaceAll(err.Error(), "\n", "; ")))
	var usage usageError
	// cobra says which command is unknown in a plain error, and nothing else does.
	if errors.As(err, &usage) || strings.HasPrefix(err.Error(), "unknown command") {
		return exitUsage
	}
	return exitFailed
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-taper",
		Short: "See what taper does with your services, and why",
		Long: `Shows what taper-operator decided for the services that have a BalancePolicy. It
reads the status of the policies and changes nothing; it takes the verbs get and
list on balancepolicies.taper.dev, and says more with get on pods and list on
services.

Exit codes: 0 done, 1 failed, 2 called the wrong way, 3 done and the check asked
for did not hold.

With --json a command prints one JSON object. Fields are added over time and never
change their meaning; what is unknown is null; names that end in _s are seconds,
and shares are fractions of 1.`,
		Example: `  kubectl taper status -A            # where every policy stands
  kubectl taper why fib-7d9f-x2x4k   # why a pod gets the share it gets
  kubectl taper diff fib             # what Enforce would change`,
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl taper"},
		SilenceUsage:      true,
		SilenceErrors:     true,
		Args:              noArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	})
	connection := newConnection(root.PersistentFlags())
	root.AddCommand(newStatus(connection), newWhy(connection), newDiff(connection), newCompletion(), newVersion())
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

// upTo accepts from least to most arguments called what.
func upTo(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usageError{fmt.Errorf("%s needs the name of a %s; see %s --help", cmd.CommandPath(), what, cmd.CommandPath())}
		case len(args) > most:
			return usageError{fmt.Errorf("%s takes one %s, and %q is another; see %s --help", cmd.CommandPath(), what, args[most], cmd.CommandPath())}
		case len(args) > 0 && args[0] == "":
			return usageError{fmt.Errorf("the name of the %s is empty; see %s --help", what, cmd.CommandPath())}
		}
		return nil
	}
}
