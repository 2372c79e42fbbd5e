package http2

import (
	"encoding/binary"

	"taper.dev/taper/internal/capture/framing"
)

// Types of frames (RFC 9113, section 6).
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	framePriority     = 0x2
	frameRSTStream    = 0x3
	frameSettings     = 0x4
	framePushPromise  = 0x5
	framePing         = 0x6
	frameGoAway       = 0x7
	frameWindowUpdate = 0x8
	frameContinuation = 0x9
)

// Flags of frames.
const (
	flagEndStream  = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20
)

const (
	// headerLength is the length of a frame's header.
	headerLength = 9
	// maxBlock bounds a header block, over all of its frames.
	maxBlock = 64 << 10
	// maxFrame is more than implementations let their peers send: 16 KiB is usual, 1 MiB
	// the most that is configured.
	maxFrame = 4 << 20
	// maxType is the last type that has been registered, PRIORITY_UPDATE.
	maxType = 0x10
)

// header is a frame's header.
type header struct {
	length      int
	kind, flags byte
	stream      uint32
}

func parseHeader(data []byte) header {
	return header{
		length: int(data[0])<<16 | int(data[1])<<8 | int(data[2]),
		kind:   data[3],
		flags:  data[4],
		stream: binary.BigEndian.Uint32(data[5:]),
	}
}

// valid says whether there can be such a frame: most types have a length, and belong to
// streams or to the connection.
func (h header) valid() bool {
	if h.length > maxFrame || h.kind > maxType || h.stream>>31 != 0 {
		return false
	}
	switch h.kind {
	case frameData, frameHeaders, framePushPromise, frameContinuation:
		return h.stream != 0
	case framePriority:
		return h.stream != 0 && h.length == 5
	case frameRSTStream:
		return h.stream != 0 && h.length == 4
	case frameSettings:
		return h.stream == 0 && h.length%6 == 0 && (h.flags&flagEndStream == 0 || h.length == 0)
	case framePing:
		return h.stream == 0 && h.length == 8
	case frameGoAway:
		return h.stream == 0 && h.length >= 8
	case frameWindowUpdate:
		return h.length == 4
	}
	return true
}

// likely says whether bytes out of the middle of a stream are a frame's header: valid,
// and with nothing set that nobody sets.
func (h header) likely() bool {
	const known = flagEndStream | flagEndHeaders | flagPadded | flagPriority
	return h.valid() && h.kind <= frameContinuation && h.length <= 1<<20 && h.flags&^known == 0
}

// frames is how frames are cut, for one side. resync is called when the place of the next
// frame was unknown, before it is looked for.
func frames(resync func()) *framing.Format {
	return &framing.Format{
		Header: headerLength,
		Size: func(data []byte) (int64, bool) {
			h := parseHeader(data)
			return int64(h.length), h.valid()
		},
		Keep: func(data []byte) int {
			if data[3] == frameData {
				return 0
			}
			return maxBlock
		},
		Sync: func(data []byte) bool {
			resync()
			return follows(data)
		},
	}
}

// follows says whether data begin with a frame, and go on with frames.
func follows(data []byte) bool {
	if len(data) < headerLength {
		return false
	}
	for len(data) >= headerLength {
		h := parseHeader(data)
		if !h.likely() {
			return false
		}
		data = data[headerLength:]
		data = data[min(h.length, len(data)):]
	}
	return true
}

// fragment is the part of a frame's body that belongs to a header block: without padding,
// priority and promised stream.
func (h header) fragment(body []byte) ([]byte, bool) {
	padding := 0
	if h.kind != frameContinuation && h.flags&flagPadded != 0 {
		if len(body) == 0 {
			return nil, false
		}
		padding, body = int(body[0]), body[1:]
	}
	before := 0
	switch {
	case h.kind == frameHeaders && h.flags&flagPriority != 0:
		before = 5
	case h.kind == framePushPromise:
		before = 4
	}
	if before+padding > len(body) {
		return nil, false
	}
	return body[before : len(body)-padding], true
}
