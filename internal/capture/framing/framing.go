// Package framing cuts one side's bytes into messages that say their length up front, as
// TLS records, PostgreSQL and MySQL packets and DNS over TCP do.
//
// A [Reader] copies nothing when a message lies within one chunk. Of a message that
// spans chunks it keeps as many bytes as the [Format] wants, and skips the rest by
// length; that a body is not wholly there, or not in the capture, loses nothing but its
// end. Only when a header is missing or makes no sense is the place of the next message
// unknown. Then the reader is out of step, and looks at the beginning of each chunk,
// where messages usually begin, for bytes that look like messages again.
package framing

import "taper.dev/taper/internal/capture"

// MaxHeader bounds Format.Header.
const MaxHeader = 9

// Format says how messages are framed.
type Format struct {
	// Header is the length of a header, in bytes: 1 to MaxHeader.
	Header int
	// Size is how many bytes follow a header, and whether there can be such a header.
	Size func(header []byte) (int64, bool)
	// Keep is how many bytes of its body are wanted.
	Keep func(header []byte) int
	// Sync says whether messages begin where data does; asked when out of step, with at
	// least one byte. Nil is to follow Size through data.
	Sync func(data []byte) bool
}

// Follow says whether data are messages, the last of which may be unfinished.
func (f *Format) Follow(data []byte) bool {
	if len(data) < f.Header {
		return false
	}
	for len(data) >= f.Header {
		size, ok := f.Size(data[:f.Header])
		if !ok {
			return false
		}
		data = data[f.Header:]
		if size >= int64(len(data)) {
			return true
		}
		data = data[size:]
	}
	return true
}

// Message is one message. Header and Body are valid until the next call of Next.
type Message struct {
	Header []byte
	// Body are its first bytes: fewer than Size if no more were wanted or captured.
	Body []byte
	Size int64
	// First and Last are the packets with its first and its last byte.
	First, Last capture.Mark
}

// Span is the message with its header.
func (m *Message) Span() capture.Span {
	return capture.Span{First: m.First, Last: m.Last, Bytes: int64(len(m.Header)) + m.Size}
}

// Reader cuts the bytes of one side.
type Reader struct {
	format  *Format
	outside bool // out of step
	lost    uint64

	// The message that has begun: have bytes of its header, then left bytes of its body
	// are to come. Once bytes of the body are missing it is cut.
	header  [MaxHeader]byte
	have    int
	left    int64
	cut     bool
	message Message
	keep    int
	body    []byte
}

// smallBody is the most memory that is held on to between messages.
const smallBody = 2048

// Reset begins anew: with the first byte of a message, or out of step.
func (r *Reader) Reset(f *Format, inStep bool) {
	*r = Reader{format: f, outside: !inStep, lost: r.lost, body: r.body[:0]}
}

// InStep says whether it is known where the next message begins.
func (r *Reader) InStep() bool { return !r.outside }

// Between says whether no message has begun that is not complete.
func (r *Reader) Between() bool { return r.have == 0 }

// Lost counts the bytes that belonged to no message.
func (r *Reader) Lost() uint64 { return r.lost }

// LoseStep says that what was read as messages were none.
func (r *Reader) LoseStep() {
	r.lost += uint64(r.have)
	r.have, r.outside = 0, true
}

// Next takes bytes from the chunk up to the end of a message, and returns that message;
// false when the chunk has no further one.
func (r *Reader) Next(c *capture.Chunk, m *Message) bool {
	if c.Missing > 0 {
		missing := int64(c.Missing)
		c.Missing = 0
		if r.skip(missing) {
			return r.finish(c.Mark, m)
		}
	}
	for len(c.Data) > 0 {
		if r.outside && !r.sync(c.Data) {
			r.lost += uint64(len(c.Data))
			c.Data = nil
			return false
		}
		if r.have == 0 && r.whole(c, m) {
			return true
		}
		if r.have < r.format.Header && !r.takeHeader(c) {
			continue
		}
		if r.takeBody(c) {
			return r.finish(c.Mark, m)
		}
	}
	return false
}

// skip leaves out bytes that the capture lacks, and says whether they end a message.
func (r *Reader) skip(missing int64) bool {
	switch {
	case r.outside:
		return false
	case r.have < r.format.Header:
		r.LoseStep()
		return false
	}
	r.cut = true
	r.outside = missing > r.left
	r.left = max(r.left-missing, 0)
	return r.left == 0
}

// sync tries to get into step.
func (r *Reader) sync(data []byte) bool {
	if r.format.Sync != nil {
		r.outside = !r.format.Sync(data)
	} else {
		r.outside = !r.format.Follow(data)
	}
	return !r.outside
}

// whole takes a message that lies within the chunk.
func (r *Reader) whole(c *capture.Chunk, m *Message) bool {
	h := r.format.Header
	if len(c.Data) < h {
		return false
	}
	size, ok := r.format.Size(c.Data[:h])
	if !ok || size > int64(len(c.Data)-h) {
		return false
	}
	wanted := min(int(size), r.format.Keep(c.Data[:h]))
	*m = Message{Header: c.Data[:h:h], Body: c.Data[h : h+wanted : h+wanted], Size: size, First: c.Mark, Last: c.Mark}
	c.Data = c.Data[h+int(size):]
	return true
}

// takeHeader adds to the header, and says whether it is there and makes sense.
func (r *Reader) takeHeader(c *capture.Chunk) bool {
	if r.have == 0 {
		r.message = Message{First: c.Mark}
	}
	n := copy(r.header[r.have:r.format.Header], c.Data)
	c.Data = c.Data[n:]
	r.have += n
	if r.have < r.format.Header {
		return false
	}
	header := r.header[:r.have]
	size, ok := r.format.Size(header)
	if !ok {
		r.LoseStep()
		// Not even the rest of this chunk is tried again: its beginning is past.
		r.lost += uint64(len(c.Data))
		c.Data = nil
		return false
	}
	r.message.Size, r.left, r.cut = size, size, false
	r.keep = r.format.Keep(header)
	r.body = r.body[:0]
	return true
}

// takeBody adds to the body, and says whether it is complete.
func (r *Reader) takeBody(c *capture.Chunk) bool {
	n := int(min(r.left, int64(len(c.Data))))
	if wanted := min(n, r.keep-len(r.body)); wanted > 0 && !r.cut {
		r.body = append(r.body, c.Data[:wanted]...)
	}
	c.Data = c.Data[n:]
	r.left -= int64(n)
	return r.left == 0
}

// finish hands over the message that has begun.
func (r *Reader) finish(last capture.Mark, m *Message) bool {
	*m = r.message
	m.Last, m.Header, m.Body = last, r.header[:r.have], r.body
	r.have = 0
	if cap(r.body) > smallBody {
		r.body = nil
	}
	return true
}
