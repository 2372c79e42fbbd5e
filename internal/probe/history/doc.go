// Package history keeps what taper net found, and compares runs. In come results of
// package probe; they go to a file of JSON lines ([Append]), as rows into a spreadsheet
// ([WriteCSV]), or to a store that takes Prometheus remote write ([Remote]). What is in a
// file is read back by [Read], and two runs are compared by [Compare].
//
// A file belongs to nobody: several runs may append to it at once, it may have been cut
// off by a crash, and a newer taper may have written to it. What cannot be read is left
// out, and said.
package history

import (
	"encoding/json"
	"time"

	"taper.dev/taper/internal/probe"
)

// Kept is what can be kept.
type Kept interface {
	probe.Result | probe.Matrix | probe.PageLoad
}

// version is of the format of a line. Fields are only ever added to it; a line with a
// higher version means something else, and is not read.
const version = 1

// Entry is one run in a file. One of Result, Matrix and PageLoad is set.
type Entry struct {
	Version  int             `json:"taper_net"`
	Result   *probe.Result   `json:"result,omitempty"`
	Matrix   *probe.Matrix   `json:"matrix,omitempty"`
	PageLoad *probe.PageLoad `json:"page_load,omitempty"`
}

// entry wraps what is kept.
func entry[T Kept](kept *T) Entry {
	e := Entry{Version: version}
	switch kept := any(kept).(type) {
	case *probe.Result:
		e.Result = kept
	case *probe.Matrix:
		e.Matrix = kept
	case *probe.PageLoad:
		e.PageLoad = kept
	}
	return e
}

// Kind says what the entry is, as a user would.
func (e *Entry) Kind() string {
	switch {
	case e.Result != nil:
		return "test"
	case e.Matrix != nil:
		return "matrix"
	case e.PageLoad != nil:
		return "page load"
	}
	return ""
}

// Started is when its run began.
func (e *Entry) Started() time.Time {
	switch {
	case e.Result != nil:
		return e.Result.Started
	case e.Matrix != nil:
		return e.Matrix.Started
	case e.PageLoad != nil:
		return e.PageLoad.Started
	}
	return time.Time{}
}

// line is an entry as it stands in a file.
func line(e Entry) ([]byte, error) {
	b, err := json.Marshal(e)
	return append(b, '\n'), err
}
