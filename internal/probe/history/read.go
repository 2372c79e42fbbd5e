package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"taper.dev/taper/internal/probe"
)

const (
	// longest is the longest line that is read: a matrix of 200 agents on three paths has
	// some 30 MB.
	longest = 128 << 20
	// held is how many runs of each kind are held, the last ones: what can be compared.
	held = 2
	// mostNotes bounds how much is said about lines that were left out.
	mostNotes = 5
)

// File is what was read of a file.
type File struct {
	// Entries are the last two runs of each kind, in the order of the file.
	Entries []Entry
	// Runs counts all, also those that are not held.
	Runs int
	// Notes say what was left out, each a sentence.
	Notes []string
}

// Load reads a file: a history, or what taper net printed with --json.
func Load(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading a history: %w", err)
	}
	defer f.Close()
	h, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return h, nil
}

// Read reads a history, or a single result as taper net printed it with --json. Lines that
// are torn or too long, and those of a newer taper, are left out and noted. It is an error
// if there is no run at all.
func Read(r io.Reader) (*File, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	h := &File{}
	left := 0
	leave := func(format string, args ...any) {
		if left++; left <= mostNotes {
			h.Notes = append(h.Notes, fmt.Sprintf(format, args...))
		}
	}
	for number := 1; ; number++ {
		text, whole, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		end := err != nil
		text = bytes.TrimSpace(text)
		switch {
		case !whole:
			leave("Line %d is left out: it has more than %d MB.", number, longest>>20)
		case len(text) == 0:
		case string(text) == "{" && h.Runs == 0 && left == 0:
			return document(in)
		default:
			h.take(text, number, end, leave)
		}
		if end {
			break
		}
	}
	if left > mostNotes {
		h.Notes = append(h.Notes, fmt.Sprintf("%d more lines are left out.", left-mostNotes))
	}
	if h.Runs == 0 {
		if len(h.Notes) > 0 {
			return nil, fmt.Errorf("there is no run in it: %s", h.Notes[0])
		}
		return nil, errors.New("there is no run in it: it is empty")
	}
	return h, nil
}

// readLine reads up to the end of a line. Of one that is too long the rest is skipped, and
// whole is false.
func readLine(in *bufio.Reader) (text []byte, whole bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(text)+len(part) <= longest {
			text = append(text, part...)
		} else {
			text, whole = nil, true // means too long, until the line ends
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, !whole, err
		}
	}
}

// take keeps the run of a line.
func (h *File) take(text []byte, number int, last bool, leave func(string, ...any)) {
	var e Entry
	if err := json.Unmarshal(text, &e); err != nil {
		why := "is no run of taper net"
		if last {
			why = "is torn: whoever wrote it was stopped"
		}
		var newer struct {
			Version int `json:"taper_net"`
		}
		if json.Unmarshal(text, &newer) == nil && newer.Version > version {
			why = "was written by a newer taper"
		}
		leave("Line %d is left out: it %s.", number, why)
		return
	}
	switch {
	case e.Version == 0 && bare(text, &e):
	case e.Version > version:
		leave("Line %d is left out: it was written by a newer taper.", number)
		return
	case e.Kind() == "":
		leave("Line %d is left out: it is no run of taper net.", number)
		return
	}
	h.Runs++
	h.Entries = append(h.Entries, e)
	same := func(o Entry) bool { return o.Kind() == e.Kind() }
	n := 0
	for _, o := range h.Entries {
		if same(o) {
			n++
		}
	}
	if n > held {
		first := slices.IndexFunc(h.Entries, same)
		h.Entries = slices.Delete(h.Entries, first, first+1)
	}
}

// document reads the rest of a result that was printed with --json.
func document(in io.Reader) (*File, error) {
	text, err := io.ReadAll(io.LimitReader(in, longest))
	if err != nil {
		return nil, err
	}
	text = append([]byte("{"), text...)
	if len(text) > longest {
		return nil, fmt.Errorf("it has more than %d MB", longest>>20)
	}
	var e Entry
	if !bare(text, &e) {
		return nil, errors.New("there is no run in it: it is neither a history nor what taper net prints with --json")
	}
	return &File{Entries: []Entry{e}, Runs: 1}, nil
}

// bare reads what taper net prints with --json: it has no name for its kind, and is told by
// what only one kind has.
func bare(text []byte, into *Entry) bool {
	var has map[string]json.RawMessage
	if json.Unmarshal(text, &has) != nil {
		return false
	}
	e := Entry{Version: version}
	var err error
	switch {
	case has["tests"] != nil:
		e.Result = &probe.Result{}
		err = json.Unmarshal(text, e.Result)
	case has["cells"] != nil:
		e.Matrix = &probe.Matrix{}
		err = json.Unmarshal(text, e.Matrix)
	case has["targets"] != nil:
		e.PageLoad = &probe.PageLoad{}
		err = json.Unmarshal(text, e.PageLoad)
	default:
		return false
	}
	if err == nil {
		*into = e
	}
	return err == nil
}

// LastTwo are the last run and the last before it of the same kind.
func (h *File) LastTwo() (old, new Entry, err error) {
	new = h.Entries[len(h.Entries)-1]
	for i := len(h.Entries) - 2; i >= 0; i-- {
		if e := h.Entries[i]; e.Kind() == new.Kind() {
			return e, new, nil
		}
	}
	return old, new, fmt.Errorf("there is only one run of its kind (%s) in it: two are compared", new.Kind())
}

// SameKind are the last runs of two files that are of one kind.
func SameKind(one, two *File) (old, new Entry, err error) {
	for i := len(two.Entries) - 1; i >= 0; i-- {
		for k := len(one.Entries) - 1; k >= 0; k-- {
			if one.Entries[k].Kind() == two.Entries[i].Kind() {
				return one.Entries[k], two.Entries[i], nil
			}
		}
	}
	return old, new, errors.New("they have no runs of the same kind")
}
