package http1

import "bytes"

// maxLine bounds what is held of a line that comes in pieces, in bytes. What comes after
// is passed over: nothing that is kept lies that far behind.
const maxLine = 4096

// idleLine is how much memory a half keeps between messages.
const idleLine = 512

// line puts lines together that come in pieces.
type line struct {
	held []byte
	// cut says that the line was longer than maxLine.
	cut bool
}

// next reads to the end of the line in data, and returns the line without its end and how
// many bytes of data it took. done is false when the end did not come yet; all of data was
// taken then. The text is valid until the next call.
func (l *line) next(data []byte) (text []byte, n int, done bool) {
	end := bytes.IndexByte(data, '\n')
	if end < 0 {
		l.hold(data)
		return nil, len(data), false
	}
	text = data[:end]
	if l.cut = false; len(l.held) > 0 {
		l.hold(text)
		text = l.held
		l.held = l.held[:0]
	}
	if last := len(text) - 1; last >= 0 && text[last] == '\r' {
		text = text[:last]
	}
	return text, end + 1, true
}

func (l *line) hold(data []byte) {
	if room := maxLine - len(l.held); len(data) > room {
		data, l.cut = data[:room], true
	}
	l.held = append(l.held, data...)
}

// drop forgets a line that will not be completed.
func (l *line) drop() {
	l.cut = false
	if cap(l.held) > idleLine {
		l.held = nil
	}
	l.held = l.held[:0]
}
