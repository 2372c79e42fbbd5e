package kubectl

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/command"
)

// completionScript is what kubectl runs to complete the plugin's arguments.
const completionScript = `#!/bin/sh
exec kubectl taper __complete "$@"
`

// completeWithin bounds how long a press of the tab key waits.
const completeWithin = 3 * time.Second

func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion",
		Short: "Print the file with which kubectl completes commands, policies and pods",
		Long: `Prints the file kubectl_complete-taper. kubectl 1.26 and later runs a file of that
name, which must be executable and in the PATH, to complete what follows
"kubectl taper". The shell's completion for kubectl itself has to be set up.`,
		Example: `  kubectl taper completion > ~/.local/bin/kubectl_complete-taper
  chmod +x ~/.local/bin/kubectl_complete-taper`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), completionScript)
			return err
		},
	}
}

type completer func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completePolicies offers the names of the namespace's policies.
func completePolicies(c *connection) completer {
	return complete(c, func(ctx context.Context, from *cluster) ([]string, error) { return from.names(ctx) })
}

// completePods offers the pods that policies of the namespace list.
func completePods(c *connection) completer {
	return complete(c, func(ctx context.Context, from *cluster) ([]string, error) {
		var pods []string
		err := from.each(ctx, func(p *v1alpha1.BalancePolicy) {
			for i := range p.Status.Endpoints {
				pods = append(pods, p.Status.Endpoints[i].Pod)
			}
		})
		return pods, err
	})
}

// complete offers names for the one argument of a command; nothing when the
// cluster does not say them in time.
func complete(c *connection, names func(context.Context, *cluster) ([]string, error)) completer {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel, from, err := c.open(cmd, false)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer cancel()
		ctx, stop := context.WithTimeout(ctx, completeWithin)
		defer stop()
		all, err := names(ctx, from)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var offered []string
		for _, name := range all {
			if strings.HasPrefix(name, begun) {
				offered = append(offered, name)
			}
		}
		return offered, cobra.ShellCompDirectiveNoFileComp
	}
}
