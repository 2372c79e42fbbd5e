package cli

import (
	"github.com/spf13/cobra"

	"taper.dev/taper/internal/command"
)

func newLab() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Repeat published experiments on this machine, with real servers",
		Example: `  taper lab balance
  sudo taper lab credentials
  sudo taper lab network`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newLabBalance(), newLabCredentials(), newLabNetwork())
	return cmd
}
