package kubectl

import (
	"context"
	"errors"
	"io"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"taper.dev/taper/internal/command"
)

//go:generate go test . -run ^TestReference$ -update

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
	err := root.ExecuteContext(ctx)
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	return command.Exit(errOut, "taper", err)
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
		Args:              command.NoArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetFlagErrorFunc(command.WrongFlag)
	connection := newConnection(root.PersistentFlags())
	root.AddCommand(newStatus(connection), newWhy(connection), newDiff(connection), newCompletion(), newVersion())
	return root
}

// upTo accepts from least to most arguments called what.
func upTo(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return command.Usagef("%s needs the name of a %s; see %s --help", cmd.CommandPath(), what, cmd.CommandPath())
		case len(args) > most:
			return command.Usagef("%s takes one %s, and %q is another; see %s --help", cmd.CommandPath(), what, args[most], cmd.CommandPath())
		case len(args) > 0 && args[0] == "":
			return command.Usagef("the name of the %s is empty; see %s --help", what, cmd.CommandPath())
		}
		return nil
	}
}
