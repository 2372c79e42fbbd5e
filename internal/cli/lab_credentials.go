package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/explain/text"
	"taper.dev/taper/internal/lab/credentials"
	"taper.dev/taper/internal/lab/netns"
	"taper.dev/taper/internal/terminal"
)

// labCredentials holds the flags of `taper lab credentials`.
type labCredentials struct {
	options credentials.Options
	json    bool
}

func newLabCredentials() *cobra.Command {
	c := &labCredentials{options: credentials.DefaultOptions()}
	cmd := &cobra.Command{
		Use:   "credentials",
		Short: "The metadata story: requests ten times slower, captured, explained and cured",
		Long: `Runs a Java service with the real AWS SDK for Java v1 beside a metadata service
that behaves as KIAM does, captures its packets under load, and explains them: each
request fetches credentials. Then credentials live longer, and it is all done again.

Everything runs in networks of its own, which are gone with the command. It needs
root, a Java runtime, and the service, which "tools/fetch.sh offers" builds. The
default takes about a minute.`,
		Example: `  sudo taper lab credentials
  sudo taper lab credentials --session 10m --longer 30m --keep .
  sudo taper lab credentials --json`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	o, f := &c.options, cmd.Flags()
	f.DurationVar(&o.Session, "session", o.Session, "how long credentials live in the first half")
	f.DurationVar(&o.Longer, "longer", o.Longer, "how long they live in the second half")
	f.DurationVar(&o.Refresh, "refresh", o.Refresh, "life left at which the metadata service gets new ones")
	f.DurationVar(&o.Delay, "delay", o.Delay, "how long the metadata service takes for an answer")
	f.DurationVar(&o.Search, "search", o.Search, "how long the search engine takes")
	f.Float64Var(&o.Rate, "rate", o.Rate, "requests per second")
	f.DurationVar(&o.Measure, "measure", o.Measure, "how long each half is captured")
	f.StringVar(&o.Keep, "keep", "", "folder to keep both captures in")
	f.StringVar(&o.Launcher, "service", o.Launcher, "command that starts the service")
	f.BoolVar(&c.json, "json", false, "print the result as JSON")
	return cmd
}

func (c *labCredentials) run(cmd *cobra.Command) error {
	if err := c.options.Validate(); err != nil {
		return command.Usagef("%w; see taper lab credentials --help", err)
	}
	if err := c.keepIsFolder(); err != nil {
		return err
	}
	if err := netns.Enter(); err != nil {
		return err
	}
	line := newProgressLine(cmd.ErrOrStderr())
	defer line.Clear()
	result, err := credentials.Run(cmd.Context(), c.options, line.Show)
	line.Clear()
	if err != nil {
		return err
	}
	if c.json {
		return writeJSON(cmd.OutOrStdout(), result)
	}
	return c.print(cmd.OutOrStdout(), result)
}

func (c *labCredentials) keepIsFolder() error {
	if c.options.Keep == "" {
		return nil
	}
	info, err := os.Stat(c.options.Keep)
	if err != nil {
		return command.Usagef("captures cannot be kept: %w", err)
	}
	if !info.IsDir() {
		return command.Usagef("captures cannot be kept in %s: it is not a folder", c.options.Keep)
	}
	return nil
}

// print shows the first half's explanation whole, the answer to the second, and what
// differs.
func (c *labCredentials) print(out io.Writer, r *credentials.Result) error {
	options := terminal.Of(out, plainWidth)
	head := func(format string, args ...any) { fmt.Fprintf(out, format+"\n\n", args...) }
	head("Credentials that live %v, read from the service's packets:", c.options.Session)
	if err := text.Explanation(out, r.Short, options); err != nil {
		return err
	}
	head("\nWhat changes when they live %v:", c.options.Longer)
	if err := text.Difference(out, r.Difference, options); err != nil {
		return err
	}
	for _, file := range r.Captures {
		fmt.Fprintf(out, "Captured in %s\n", file)
	}
	return nil
}
