package cli

import (
	"github.com/spf13/cobra"

	"taper.dev/taper/internal/command"
)

// version is set by the linker; a binary built without it says what Go knows.
var version string

func newVersion() *cobra.Command {
	cmd := command.NewVersion("taper", version)
	cmd.Example = "  taper version --json"
	return cmd
}
