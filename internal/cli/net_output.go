package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/history"
	"taper.dev/taper/internal/probe/page"
	"taper.dev/taper/internal/probe/text"
	"taper.dev/taper/internal/terminal"
)

// netOutput is where results of taper net go: to the terminal as text, JSON or CSV, and
// to a page, a file and a store for those who want them.
type netOutput struct {
	report  string
	json    bool
	csv     bool
	history string
	remote  history.RemoteOptions
	store   *history.Remote
}

func (o *netOutput) flags(cmd *cobra.Command) {
	reportFlags(cmd, &o.report, &o.json)
	f := cmd.Flags()
	f.BoolVar(&o.csv, "csv", false, "print CSV")
	f.StringVar(&o.history, "history", "", "file to append the result to, such as net.jsonl: see taper net compare")
	f.StringVar(&o.remote.URL, "remote-write", "", "URL of a store to write to (Prometheus remote write), such as http://victoria-metrics:8428/api/v1/write")
	f.StringVar(&o.remote.TokenFile, "remote-write-token-file", "", "file with a bearer token for it")
	f.StringVar(&o.remote.User, "remote-write-user", "", "user for it")
	f.StringVar(&o.remote.PasswordFile, "remote-write-password-file", "", "file with the user's password")
}

// writable finds out before anything is measured that could not be kept.
func (o *netOutput) writable() error {
	if o.json && o.csv {
		return command.Usage(errors.New("--json and --csv exclude each other"))
	}
	if o.remote.URL == "" {
		if o.remote != (history.RemoteOptions{}) {
			return command.Usage(errors.New("--remote-write-token-file, -user and -password-file are for --remote-write"))
		}
	} else {
		store, err := history.NewRemote(o.remote)
		if err != nil {
			return command.Usage(err)
		}
		o.store = store
	}
	if o.history != "" {
		if err := history.Writable(o.history); err != nil {
			return err
		}
	}
	return reportIsWritable(o.report)
}

func (o *netOutput) result(cmd *cobra.Command, r *probe.Result) error {
	return keep(o, cmd, r, text.Result, page.Result)
}

func (o *netOutput) matrix(cmd *cobra.Command, m *probe.Matrix) error {
	return keep(o, cmd, m, text.Matrix, page.Matrix)
}

func (o *netOutput) pageLoad(cmd *cobra.Command, p *probe.PageLoad) error {
	return keep(o, cmd, p, text.PageLoad, page.PageLoad)
}

// keep shows a result, then keeps it: it is there even where it cannot be kept. One place
// that fails does not stop the others.
func keep[T history.Kept](o *netOutput, cmd *cobra.Command, result *T,
	show func(io.Writer, *T, terminal.Options) error, draw func(io.Writer, *T) error) error {
	out := cmd.OutOrStdout()
	var err error
	switch {
	case o.json:
		err = probe.WriteJSON(out, result)
	case o.csv:
		err = history.WriteCSV(out, result)
	default:
		err = show(out, result, terminal.Of(out, text.UnknownWidth))
	}
	errs := []error{err, keepReport(out, o.report, o.json || o.csv, func(w io.Writer) error { return draw(w, result) })}
	// What Ctrl-C has ended is kept, too.
	ctx := context.WithoutCancel(cmd.Context())
	if o.history != "" {
		errs = append(errs, history.Append(ctx, o.history, result))
	}
	if o.store != nil {
		line := newProgressLine(cmd.ErrOrStderr())
		line.Show("writing to the store")
		errs = append(errs, history.Write(ctx, o.store, result))
		line.Clear()
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("the result is not everywhere where it should be: %w", err)
	}
	return nil
}

// notWhole is for a result that is not all that was asked for: scripts must not take a
// part for it. It is not the context's error, which would say that nothing came of it.
func notWhole(why string) error { return fmt.Errorf("what was measured is not whole: %s", why) }
