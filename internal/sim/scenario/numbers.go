package scenario

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

const (
	// maxNumbers and maxNumbersBytes bound the files that a scenario names.
	maxNumbers      = 10_000_000
	maxNumbersBytes = 256 << 20
	longestLine     = 1 << 12
)

// numbers reads a file beside the scenario: one number per line, empty lines and those that
// begin with # left out. There is at least one.
func (r *reader) numbers(at, name string) ([]float64, error) {
	if !fs.ValidPath(name) || path.Clean(name) == "." {
		return nil, r.Errorf(at, "is %q: it takes a file in the folder of the scenario, or below it", name)
	}
	// A pipe that nobody writes to would be waited for without end.
	info, err := fs.Stat(r.folder, name)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no file")
	}
	if err == nil && info.Size() > maxNumbersBytes {
		return nil, r.Errorf(at, "is %q: it has %d bytes, and the most are %d", name, info.Size(), maxNumbersBytes)
	}
	if err != nil {
		return nil, r.Errorf(at, "is %q: %w", name, err)
	}
	file, err := r.folder.Open(name)
	if err != nil {
		return nil, r.Errorf(at, "is %q: %w", name, err)
	}
	defer file.Close()
	lines := bufio.NewScanner(io.LimitReader(file, maxNumbersBytes))
	lines.Buffer(nil, longestLine)
	var list []float64
	for line := 1; lines.Scan(); line++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || v != v {
			return nil, r.Errorf(at, "%s: line %d is %.60q: it takes one number", name, line, text)
		}
		if list = append(list, v); len(list) > maxNumbers {
			return nil, r.Errorf(at, "%s has more than %d numbers", name, maxNumbers)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, r.Errorf(at, "%s: %w", name, err)
	}
	if len(list) == 0 {
		return nil, r.Errorf(at, "%s has no numbers: it takes one per line", name)
	}
	return list, nil
}
