package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/measure"
	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/history"
	"taper.dev/taper/internal/probe/page"
	"taper.dev/taper/internal/probe/text"
	"taper.dev/taper/internal/terminal"
)

// netCompare holds the flags of `taper net compare`.
type netCompare struct {
	goal   history.Goal
	report string
	json   bool
}

func newNetCompare() *cobra.Command {
	c := &netCompare{}
	cmd := &cobra.Command{
		Use:   "compare OLD [NEW]",
		Short: "What differs between two runs, such as before and after an upgrade",
		Long: `Compares the last runs of two files, test by test and path by path, and says what is
better, worse, or cannot be told from noise. A file is one that taper net test or
taper net matrix has appended to with --history, or what they print with --json. Of a
single file, the last run is compared with the one before.

Trials of two runs are not paired: what changed between the runs by itself, such as
who else uses the network, is in the difference. To compare two paths, measure them
together: taper net test A B.`,
		Example: `  taper net test --history net.jsonl 10.0.0.2      # today, and again tomorrow
  taper net compare net.jsonl
  taper net compare before.json after.json --report difference.html`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return command.Usagef("two runs are compared, of one file or of two, and %d were named; see %s --help", len(args), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args) },
	}
	f := cmd.Flags()
	f.Float64Var(&c.goal.Share, "difference", measure.DefaultDifference, "the difference of bandwidth that is worth telling, as a share")
	f.DurationVar(&c.goal.Latency, "difference-latency", measure.DefaultDifferenceLatency, "the difference of latency that is worth telling")
	reportFlags(cmd, &c.report, &c.json)
	return cmd
}

func (c *netCompare) run(cmd *cobra.Command, args []string) error {
	if err := c.goal.Validate(); err != nil {
		return command.Usagef("%w; see taper net compare --help", err)
	}
	if err := reportIsWritable(c.report); err != nil {
		return err
	}
	d, err := c.compare(args)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if c.json {
		err = probe.WriteJSON(out, d)
	} else {
		err = text.Comparison(out, d, terminal.Of(out, text.UnknownWidth))
	}
	if err != nil {
		return err
	}
	return keepReport(out, c.report, c.json, func(w io.Writer) error { return page.Comparison(w, d) })
}

func (c *netCompare) compare(args []string) (*probe.Comparison, error) {
	var sides [2]history.Entry
	names := [2]string{"old", "new"}
	var notes []string
	if len(args) == 1 {
		f, err := history.Load(args[0])
		if err != nil {
			return nil, err
		}
		if sides[0], sides[1], err = f.LastTwo(); err != nil {
			return nil, fmt.Errorf("%s: %w", args[0], err)
		}
		for i, side := range sides {
			names[i] = side.Started().UTC().Format(time.RFC3339)
		}
		notes = f.Notes
	} else {
		one, two, err := loadBoth(args[0], args[1])
		if err != nil {
			return nil, err
		}
		if sides[0], sides[1], err = history.SameKind(one, two); err != nil {
			return nil, fmt.Errorf("%s and %s: %w", args[0], args[1], err)
		}
		names[0], names[1] = shortNames(args[0], args[1])
		for i, f := range []*history.File{one, two} {
			for _, note := range f.Notes {
				notes = append(notes, filepath.Base(args[i])+": "+note)
			}
		}
	}
	d, err := history.Compare(names[0], sides[0], names[1], sides[1], c.goal)
	if err != nil {
		return nil, err
	}
	d.Notes = slices.Concat(notes, d.Notes)
	return d, nil
}

func loadBoth(old, new string) (one, two *history.File, err error) {
	if one, err = history.Load(old); err == nil {
		two, err = history.Load(new)
	}
	return one, two, err
}
