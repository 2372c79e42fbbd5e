package redis

import (
	"bytes"

	"taper.dev/taper/internal/capture"
)

const (
	// maxLine is how much is kept of a line: types, lengths, names.
	maxLine = 64
	// maxBulk is the longest value, in bytes.
	maxBulk = 1 << 30
)

// scanner takes one side's bytes apart into lines and bulks, the values whose length a
// line has said.
type scanner struct {
	// The token that next has found. text is the line without its end, or the beginning
	// of the bulk; size is what the token has on the wire.
	isBulk bool
	text   []byte
	size   int64
	// first and last are the packets with its first and its last byte.
	first, last capture.Mark

	begun  bool  // a token has
	ended  bool  // the one that next has found, which is forgotten by the next call
	left   int64 // of the bulk, with the end of line behind it; 0 in a line
	buffer [maxLine]byte
}

// bulk says that a bulk follows.
func (s *scanner) bulk(length int64) {
	s.reset()
	s.isBulk, s.left = true, length+2
}

func (s *scanner) reset() {
	s.isBulk, s.left, s.begun, s.ended, s.size, s.text = false, 0, false, false, 0, s.buffer[:0]
}

// inBulk says whether so many missing bytes belong to a value, and skips them.
func (s *scanner) inBulk(missing int64) bool {
	if !s.isBulk || s.ended || missing > s.left {
		return false
	}
	s.left -= missing
	s.size += missing
	return true
}

// next takes bytes from the chunk up to the end of a token; false when it does not end
// there.
func (s *scanner) next(c *capture.Chunk) bool {
	if s.ended {
		s.reset()
	}
	if len(c.Data) == 0 && (!s.isBulk || s.left > 0) {
		return false
	}
	if !s.begun {
		s.first, s.begun = c.Mark, true
	}
	n, whole := len(c.Data), false
	if s.isBulk {
		n = int(min(s.left, int64(n)))
		s.left -= int64(n)
		whole = s.left == 0
	} else if i := bytes.IndexByte(c.Data, '\n'); i >= 0 {
		n, whole = i+1, true
	}
	s.text = append(s.text, c.Data[:min(n, maxLine-len(s.text))]...)
	s.size += int64(n)
	c.Data = c.Data[n:]
	if whole {
		s.last = c.Mark
		s.end()
	}
	return whole
}

// end takes the end of line off the text.
func (s *scanner) end() {
	s.ended = true
	if s.isBulk {
		s.text = s.text[:min(int64(len(s.text)), s.size-2)]
		return
	}
	if s.size <= maxLine {
		s.text = s.text[:s.size-1]
	}
	s.text = bytes.TrimSuffix(s.text, []byte("\r"))
}

// number is the length or count behind a line's first byte.
func number(line []byte) (int64, bool) {
	if len(line) < 2 || len(line) > 12 {
		return 0, false
	}
	if string(line[1:]) == "-1" {
		return -1, true
	}
	n := int64(0)
	for _, c := range line[1:] {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, n <= maxBulk
}
