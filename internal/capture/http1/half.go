package http1

import (
	"bytes"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/fields"
)

// state is where in a message a half is.
type state uint8

const (
	idle       state = iota // between messages
	startLine               // in a first line
	headers                 // in header fields
	body                    // in a body of known length
	chunkSize               // in the line before a chunk
	chunkData               // in a chunk
	chunkEnd                // in the line break after a chunk
	trailers                // in the fields after the last chunk
	untilClose              // in a body that the end of the connection ends
	scan                    // lost, looking for the next message
)

// half is one side of a connection: a reader of messages that have no end in common with
// the pieces in which they come.
type half struct {
	state state
	line  line
	// left are the bytes of the body, or of the chunk, that are still to come.
	left uint64
	// last is when bytes came last, before those that are being read.
	last capture.Mark
	// first is when the first line began, and size how many of its bytes were read.
	first capture.Mark
	size  int64
	// span is the message that is being read; nil when none is open. In scan it is a
	// message whose end cannot be known.
	span *capture.Span
	// fresh says that the next byte may begin a message: it begins a packet or a line.
	fresh bool
	// missed says that messages may be missing since the last one, whole; gapped that
	// anything ever was missing.
	missed, gapped bool
	framing
	// kept is the beginning of the body, as far as it is looked at: at most keep bytes.
	kept []byte
	keep int
	// lost counts bytes that no message was found in.
	lost uint64
}

// framing is what the headers of a message say about its end.
type framing struct {
	length  int64 // -1: not said
	chunked bool
	invalid bool // contradictory lengths
	close   bool
	alive   bool
	old     bool // HTTP/1.0
	field   fields.Name
}

// begin opens a message whose first bytes come with mark.
func (h *half) begin(mark capture.Mark) {
	h.state, h.first, h.size = startLine, mark, 0
}

// open says where the message's times and size are told, after its first line.
func (h *half) open(span *capture.Span, old bool) {
	span.First, span.Bytes = h.first, h.size
	h.span, h.state = span, headers
	h.missed = false
	h.framing = framing{length: -1, old: old}
	h.keep = 0
}

// closed ends the message.
func (h *half) closed(mark capture.Mark) {
	if h.span != nil {
		h.span.Last = mark
	}
	h.span = nil
	h.state, h.fresh = idle, true
	h.line.drop()
}

// wipe forgets what was kept of a body.
func (h *half) wipe() {
	clear(h.kept)
	h.kept, h.keep = h.kept[:0], 0
}

// count adds bytes to the open message.
func (h *half) count(n int) {
	if h.span != nil {
		h.span.Bytes += int64(n)
	}
}

// content takes bytes of a body, of which left are still to come, and returns how many.
func (h *half) content(data []byte) int {
	n := int(min(h.left, uint64(len(data))))
	h.look(data[:n])
	h.left -= uint64(n)
	h.count(n)
	return n
}

// look keeps the beginning of a body that is looked at.
func (h *half) look(data []byte) {
	if room := h.keep - len(h.kept); room > 0 {
		if cap(h.kept) < h.keep {
			// At once, so that growing leaves no copies behind. The next body uses it again.
			h.kept = make([]byte, 0, h.keep)
		}
		h.kept = append(h.kept, data[:min(room, len(data))]...)
	}
}

// lose gives up the place in the stream; an open message stays open.
func (h *half) lose() {
	h.lost += uint64(len(h.line.held))
	h.state, h.fresh = scan, false
	h.line.drop()
	h.keep = len(h.kept)
}

// seek passes over data until a message may start there, and returns how many bytes that
// was. The rest begins a message if there is any.
func (h *half) seek(data []byte, side capture.Side) int {
	for at := 0; at < len(data); {
		if h.fresh && mayStart(data[at:], side) {
			h.lost += uint64(at)
			h.count(at)
			return at
		}
		end := bytes.IndexByte(data[at:], '\n')
		if h.fresh = end >= 0; !h.fresh {
			break
		}
		at += end + 1
	}
	h.lost += uint64(len(data))
	h.count(len(data))
	return len(data)
}

// isLastChunk says whether data look like the end of a body in chunks, with or without
// trailers. It ends messages of which the place in the stream, or even that they have
// chunks, is not known.
func isLastChunk(data []byte) bool {
	if begins(data, "0\r\n") {
		return len(data) > 3 && bytes.HasSuffix(data, []byte("\r\n\r\n"))
	}
	return bytes.HasSuffix(data, []byte("\r\n0\r\n\r\n"))
}

// frame takes a header field that says where the message ends.
func (f *framing) frame(name fields.Name, value []byte) {
	switch name {
	case fields.ContentLength:
		f.setLength(value)
	case fields.TransferEncoding:
		f.chunked = f.chunked || fields.Has(value, "chunked")
	case fields.Connection:
		f.close = f.close || fields.Has(value, "close")
		f.alive = f.alive || fields.Has(value, "keep-alive")
	}
}

// setLength reads Content-Length; one that is repeated must say the same.
func (f *framing) setLength(value []byte) {
	if length, ok := decimal(value); ok && f.length < 0 {
		f.length = length // as nearly always
		return
	}
	for len(value) > 0 {
		var one []byte
		one, value, _ = bytes.Cut(value, []byte{','})
		length, ok := decimal(fields.Trim(one))
		if !ok || f.length >= 0 && f.length != length {
			f.invalid = true
			return
		}
		f.length = length
	}
}

func decimal(text []byte) (n int64, ok bool) {
	if len(text) == 0 || len(text) > 18 {
		return 0, false
	}
	for _, b := range text {
		if b < '0' || b > '9' {
			return 0, false
		}
		n = 10*n + int64(b-'0')
	}
	return n, true
}

// hexadecimal reads the size of a chunk: the line up to an extension.
func hexadecimal(text []byte) (n uint64, ok bool) {
	if end := bytes.IndexByte(text, ';'); end >= 0 {
		text = text[:end]
	}
	text = fields.Trim(text)
	if len(text) == 0 || len(text) > 15 {
		return 0, false
	}
	for _, b := range text {
		switch {
		case b >= '0' && b <= '9':
			b -= '0'
		case b|0x20 >= 'a' && b|0x20 <= 'f':
			b = b | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		n = n<<4 | uint64(b)
	}
	return n, true
}
