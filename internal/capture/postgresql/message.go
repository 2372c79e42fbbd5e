package postgresql

import (
	"encoding/binary"
	"strings"

	"taper.dev/taper/internal/capture/framing"
)

// Codes that stand for a version in a startup packet.
const (
	version3 = 3 << 16 // and minor versions above
	cancel   = 1234<<16 | 5678
	ssl      = 1234<<16 | 5679
	gss      = 1234<<16 | 5680
)

const (
	// maxStartup is the longest startup packet that servers accept, in bytes.
	maxStartup = 10000
	// maxMessage is the longest message that servers accept, in bytes.
	maxMessage = 1 << 30
	// maxStatement bounds what is read of a statement.
	maxStatement = 64 << 10
	// maxNames is enough for the names at the beginning of Bind, Execute and others, and
	// for the code in an error.
	maxNames = 512
)

// startups frames what a client sends before it has said its version: a length, which
// counts itself, and a code.
var startups = framing.Format{
	Header: 8,
	Size: func(h []byte) (int64, bool) {
		size, code := binary.BigEndian.Uint32(h), binary.BigEndian.Uint32(h[4:])
		switch code {
		case ssl, gss:
			return 0, size == 8
		case cancel:
			return int64(size) - 8, size >= 16 && size <= 268
		}
		return int64(size) - 8, code>>16 == 3 && size >= 9 && size <= maxStartup
	},
	Keep: func([]byte) int { return 0 },
}

// A message is a letter and a length, which counts itself.
const headerLen = 5

// Letters of messages, and of those that have no body.
const (
	lettersOfClient = "QPBEDCSHFXpdcf"
	lettersOfServer = "RSKZTDCIENA123sntGHWdcVv"
	emptyOfClient   = "SHXc"
	emptyOfServer   = "123Insc"
)

var ofClient = framing.Format{
	Header: headerLen,
	Size: func(h []byte) (int64, bool) {
		return size(h, lettersOfClient, emptyOfClient)
	},
	Keep: func(h []byte) int {
		switch h[0] {
		case 'Q', 'P':
			return maxStatement
		case 'B', 'E', 'D', 'C':
			return maxNames
		}
		return 0
	},
	Sync: shortOfClient.Follow,
}

var ofServer = framing.Format{
	Header: headerLen,
	Size: func(h []byte) (int64, bool) {
		if h[0] == 'Z' {
			return 1, binary.BigEndian.Uint32(h[1:]) == 5
		}
		return size(h, lettersOfServer, emptyOfServer)
	},
	Keep: func(h []byte) int {
		switch h[0] {
		case 'E', 'S':
			return maxNames
		}
		return 0
	},
	Sync: shortOfServer.Follow,
}

// maxSure is the longest message that is taken for one where none is expected. Four
// letters of a text, taken for a length, are more.
const maxSure = 1 << 20

// shortOfClient and shortOfServer find messages where it is not known that there are any.
var (
	shortOfClient = framing.Format{Header: headerLen, Size: func(h []byte) (int64, bool) {
		size, ok := size(h, lettersOfClient, emptyOfClient)
		return size, ok && size <= maxSure
	}}
	shortOfServer = framing.Format{Header: headerLen, Size: func(h []byte) (int64, bool) {
		size, ok := size(h, lettersOfServer, emptyOfServer)
		return size, ok && size <= maxSure && (h[0] != 'Z' || size == 1)
	}}
)

func size(h []byte, letters, empty string) (int64, bool) {
	size := int64(binary.BigEndian.Uint32(h[1:])) - 4
	if strings.IndexByte(letters, h[0]) < 0 || size < 0 || size > maxMessage {
		return 0, false
	}
	return size, (size == 0) == (strings.IndexByte(empty, h[0]) >= 0)
}

// text takes a text, which ends with a zero byte, from a body. One that was cut goes to
// the end.
func text(body []byte) (text, rest []byte) {
	for i, c := range body {
		if c == 0 {
			return body[:i], body[i+1:]
		}
	}
	return body, nil
}
