package cli

import (
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/explain"
	"taper.dev/taper/internal/explain/page"
	"taper.dev/taper/internal/explain/text"
	"taper.dev/taper/internal/terminal"
)

// explainDiff holds the flags of `taper explain diff`.
type explainDiff struct {
	services []string
	report   string
	json     bool
}

func newExplainDiff() *cobra.Command {
	c := &explainDiff{}
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "What differs between two captures, by route and cause",
		Long: `Explains two captures, such as of one service before and after it moved, and says
per route what takes longer in B than in A, by cause, with intervals that hold the
difference of the means with 95 % confidence. Routes are matched by method and path.`,
		Example: `  taper explain diff ec2.pcap k8s.pcap
  taper explain diff --report diff.html before.pcap after.pcap`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return command.Usagef("two captures are compared, and %d were named; see %s --help", len(args), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args[0], args[1]) },
	}
	serviceFlag(cmd, &c.services)
	reportFlags(cmd, &c.report, &c.json)
	return cmd
}

func (c *explainDiff) run(cmd *cobra.Command, a, b string) error {
	service, err := parseServices(c.services)
	if err != nil {
		return command.Usagef("%w; see taper explain diff --help", err)
	}
	if err := reportIsWritable(c.report); err != nil {
		return err
	}
	var sides [2]*explain.Explanation
	for i, path := range []string{a, b} {
		options := explain.Options{Paths: []string{path}, Stdin: cmd.InOrStdin(), Service: service, KeepSamples: explain.DefaultSamples}
		if sides[i], err = runExplain(cmd, options); err != nil {
			return err
		}
	}
	nameA, nameB := shortNames(a, b)
	d := explain.Compare(nameA, sides[0], nameB, sides[1])
	out := cmd.OutOrStdout()
	if c.json {
		err = d.WriteJSON(out)
	} else {
		err = text.Difference(out, d, terminal.Of(out, text.UnknownWidth))
	}
	if err != nil {
		return err
	}
	return keepReport(out, c.report, c.json, func(w io.Writer) error { return page.Difference(w, d) })
}

// shortNames are the files' names, with their folders where they would be the same.
func shortNames(a, b string) (string, string) {
	shortA, shortB := filepath.Base(a), filepath.Base(b)
	if shortA == shortB {
		return a, b
	}
	return shortA, shortB
}
