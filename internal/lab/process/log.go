package process

import (
	"io"
	"os"
	"strings"
)

// Bounds on how much of a log an error quotes.
const (
	quotedBytes = 4096
	quotedLines = 3
)

// lastLines returns the end of a log on one line; empty when there is nothing
// to read.
func lastLines(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	end := io.NewSectionReader(f, max(0, info.Size()-quotedBytes), quotedBytes)
	text, err := io.ReadAll(end)
	if err != nil {
		return ""
	}
	lines := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
	return strings.Join(lines[max(0, len(lines)-quotedLines):], "; ")
}
