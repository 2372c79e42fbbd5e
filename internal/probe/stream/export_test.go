package stream

import "time"

// Impatient ends have tests of silent peers end soon.
func init() { patience = 1200 * time.Millisecond }

// Marks finds the marks in frames of that many bytes; see marks.
type Marks struct{ m marks }

// NewMarks begins with a frame.
func NewMarks(messageBytes int) *Marks { return &Marks{marks{length: frameBytes(messageBytes)}} }

// All are the marks in what comes next.
func (m *Marks) All(b []byte) (all []int64) {
	for v, rest, ok := m.m.next(b); ok; v, rest, ok = m.m.next(rest) {
		all = append(all, v)
	}
	return all
}

// Frame is a frame with a mark.
func Frame(messageBytes int, m int64) []byte {
	b := make([]byte, frameBytes(messageBytes))
	mark(b, m)
	return b
}

// Stable is stable.
var Stable = stable
