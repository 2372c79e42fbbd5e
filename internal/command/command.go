// Package command is what taper's command lines have in common: what they end with, how
// they say what went wrong, and the arguments and the version that every one has. A
// command returns an error made by [Usagef], [Unmetf] or [Answered], or any other; [Exit]
// prints it and says what the process ends with.
package command

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"taper.dev/taper/internal/terminal"
)

// Exit codes, a contract with scripts.
const (
	ExitDone   = 0
	ExitFailed = 1
	ExitUsage  = 2
	ExitCheck  = 3 // done, and the check asked for did not hold
)

// coded is an error that knows its exit code.
type coded struct {
	error
	code int
}

// Unwrap implements the interface of package errors.
func (c coded) Unwrap() error { return c.error }

// Usage is about a command called the wrong way: flags, arguments, configuration.
func Usage(err error) error { return coded{err, ExitUsage} }

// Usagef is [Usage] with [fmt.Errorf].
func Usagef(format string, args ...any) error { return Usage(fmt.Errorf(format, args...)) }

// Unmetf is about a check that was asked for and did not hold.
func Unmetf(format string, args ...any) error { return coded{fmt.Errorf(format, args...), ExitCheck} }

// answered ends a command whose output has said everything.
type answered int

func (a answered) Error() string { return fmt.Sprintf("exit code %d", int(a)) }

// Answered ends a command with an exit code and without a message: its output has said
// everything.
func Answered(code int) error { return answered(code) }

// Exit prints an error, on one line after the program's name, and returns the exit code.
func Exit(errOut io.Writer, program string, err error) int {
	if err == nil {
		return ExitDone
	}
	if said, ok := errors.AsType[answered](err); ok {
		return int(said)
	}
	// Joined errors come on lines of their own; here one line says it all.
	message := strings.ReplaceAll(err.Error(), "\n", "; ")
	fmt.Fprintf(errOut, "%s: %s\n", program, terminal.Plain(message))
	if c, ok := errors.AsType[coded](err); ok {
		return c.code
	}
	// cobra says which command is unknown in a plain error, and nothing else does.
	if strings.HasPrefix(message, "unknown command") {
		return ExitUsage
	}
	return ExitFailed
}

// WrongFlag is for [cobra.Command.SetFlagErrorFunc]: it says where to read on.
func WrongFlag(cmd *cobra.Command, err error) error {
	return Usagef("%w; see %s --help", err, cmd.CommandPath())
}

// NoArgs is [cobra.NoArgs] with an error that says so.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		return Usagef("unknown command %q; see %s --help", args[0], cmd.CommandPath())
	}
	return Usagef("%s takes no argument, and %q is one; see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())
}
