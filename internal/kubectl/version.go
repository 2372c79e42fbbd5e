package kubectl

import (
	"github.com/spf13/cobra"

	"taper.dev/taper/internal/command"
)

// version is set by the linker; a binary built without it says what Go knows.
var version string

func newVersion() *cobra.Command {
	cmd := command.NewVersion("kubectl-taper", version)
	cmd.Short = "Print the plugin's version"
	cmd.Long = "Prints the version of the plugin, without asking the cluster."
	cmd.Example = "  kubectl taper version --json"
	return cmd
}
