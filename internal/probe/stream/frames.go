package stream

import "encoding/binary"

const (
	// headerBytes begin each frame of load: the mark of a probe that is asked or answered
	// in the frame, 0 for none.
	headerBytes = 8
	// leastFrame is a header with something behind it.
	leastFrame = 64
)

// frameBytes is the length of frames of load where messages have that length.
func frameBytes(messageBytes int) int { return max(messageBytes, leastFrame) }

// mark puts a mark into the header of a frame.
func mark(frame []byte, m int64) { binary.LittleEndian.PutUint64(frame, uint64(m)) }

// marks finds the marks in a stream of frames, which may come in pieces of any length.
type marks struct {
	length int // of a frame
	at     int // within the frame
	header [headerBytes]byte
}

// next goes through b to the next mark that is not 0. Without one, ok is false, and
// nothing is left.
func (m *marks) next(b []byte) (mark int64, rest []byte, ok bool) {
	for len(b) > 0 {
		if m.at < headerBytes {
			n := copy(m.header[m.at:], b)
			m.at += n
			b = b[n:]
			if m.at < headerBytes {
				break
			}
			if v := int64(binary.LittleEndian.Uint64(m.header[:])); v != 0 {
				return v, b, true
			}
		}
		n := min(len(b), m.length-m.at)
		m.at = (m.at + n) % m.length
		b = b[n:]
	}
	return 0, nil, false
}
