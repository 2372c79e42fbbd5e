package mysql

import (
	"bytes"
	"encoding/binary"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/framing"
)

const (
	headerLen = 4
	// maxPayload is the longest payload of a packet; what is as long goes on in the next.
	maxPayload = 1<<24 - 1
	// maxStatement bounds what is read of a statement, in bytes.
	maxStatement = 64 << 10
	// maxSure is the longest packet that is taken for one where none is expected.
	maxSure = 1 << 20
	// maxHead is enough for the part of other packets that is read.
	maxHead = 128
)

func payload(h []byte) (int64, bool) {
	return int64(h[0]) | int64(h[1])<<8 | int64(h[2])<<16, true
}

// fromClient frames commands. They are numbered from 0.
var fromClient = framing.Format{
	Header: headerLen,
	Size:   payload,
	Keep: func(h []byte) int {
		if h[3] == 0 {
			return maxStatement
		}
		return maxHead
	},
	Sync: looksLikeCommand,
}

// fromServer frames responses. Where one begins is known only from the command.
var fromServer = framing.Format{
	Header: headerLen,
	Size:   payload,
	Keep:   func([]byte) int { return maxHead },
	Sync:   func([]byte) bool { return false },
}

// looksLikeCommand says whether a command begins where data does.
func looksLikeCommand(data []byte) bool {
	if len(data) <= headerLen || data[3] != 0 {
		return false
	}
	size, _ := payload(data)
	if size == 0 || size > maxSure {
		return false
	}
	rest := data[headerLen+1:]
	switch kind := command(data[headerLen]); kind {
	case comQuery, comPrepare:
		for _, c := range rest[:min(len(rest), 16)] {
			if c < ' ' && c != '\n' && c != '\r' && c != '\t' && c > 1 {
				return false
			}
		}
		return size > 1
	case comPing, comQuit, comStatistics, comResetConnection:
		return size == 1
	case comReset, comClose:
		return size == 5
	case comExecute:
		return size >= 10
	default:
		return kind.name() != "" && size < 1<<16
	}
}

// recognise tells a server's greeting on any port, and commands on a usual one.
func recognise(first []byte) capture.Recognition {
	if len(first) <= headerLen {
		if len(first) < headerLen || first[3] == 0 {
			return capture.Perhaps
		}
		return capture.NotIt
	}
	if size, _ := payload(first); first[3] == 0 && first[headerLen] == protocol10 && size >= 40 && size < 512 {
		version, _, whole := bytes.Cut(first[headerLen+1:], []byte{0})
		switch {
		case !isVersion(version, whole):
		case whole:
			return capture.ByServer
		default:
			return capture.Perhaps
		}
	}
	if looksLikeCommand(first) {
		return capture.Perhaps
	}
	return capture.NotIt
}

// protocol10 is the version of the protocol, the only one since 1999.
const protocol10 = 10

// isVersion says whether a text can be a server's version, or the beginning of one.
func isVersion(text []byte, whole bool) bool {
	for _, c := range text {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	if !whole {
		return len(text) == 0 || '0' <= text[0] && text[0] <= '9'
	}
	return len(text) >= 3 && '0' <= text[0] && text[0] <= '9' && bytes.IndexByte(text, '.') > 0
}

// Flags of status, in OK, EOF and greeting.
const (
	moreResults        = 0x0008
	cursorExists       = 0x0040
	noBackslashEscapes = 0x0200
)

// First bytes of a server's packets.
const (
	headOK     = 0x00
	headMore   = 0x01 // of authentication
	headInfile = 0xfb
	headEOF    = 0xfe
	headError  = 0xff
)

// eofSize is the length of an EOF packet. With CLIENT_DEPRECATE_EOF there is an OK packet
// in its place, which is longer.
const eofSize = 5

// isEOF says whether a packet among rows ends them. A row begins so only if its first
// value has 16 MB or more.
func isEOF(m *framing.Message) bool {
	return len(m.Body) > 0 && m.Body[0] == headEOF && m.Size < maxPayload && m.Size >= eofSize
}

// statusOf is the status flags of an OK or EOF packet.
func statusOf(m *framing.Message) (flags uint16, ok bool) {
	if m.Body[0] == headEOF && m.Size == eofSize && len(m.Body) == eofSize {
		return binary.LittleEndian.Uint16(m.Body[3:]), true
	}
	rest := m.Body[1:]
	for range 2 { // rows affected, last id
		n := lengthOf(rest)
		if n > len(rest) {
			return 0, false
		}
		rest = rest[n:]
	}
	if len(rest) < 2 {
		return 0, false
	}
	return binary.LittleEndian.Uint16(rest), true
}

// lengthOf is how many bytes a length-encoded integer has.
func lengthOf(b []byte) int {
	switch {
	case len(b) == 0:
		return 1
	case b[0] == 0xfc:
		return 3
	case b[0] == 0xfd:
		return 4
	case b[0] == 0xfe:
		return 9
	}
	return 1
}

// count is a length-encoded integer that counts columns.
func count(b []byte) int {
	switch {
	case len(b) >= 3 && b[0] == 0xfc:
		return int(binary.LittleEndian.Uint16(b[1:]))
	case len(b) >= 1 && b[0] < headInfile:
		return int(b[0])
	}
	return 0
}
