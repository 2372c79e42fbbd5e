package metadata

import (
	"bytes"
	"time"

	"taper.dev/taper/internal/capture"
)

// MaxBody is how much of an answer is worth keeping for Expires, in bytes. Answers with
// credentials have 1 to 4 KiB.
const MaxBody = 16 << 10

// latest is beyond what credentials say, in seconds: the year 2200.
const latest = 7_258_118_400

// Expires reads when the credentials in an answer end; zero when it does not say so. The
// body is JSON, and may be cut; now is when it came.
func Expires(m *capture.Metadata, body []byte, now capture.Time) capture.Time {
	if m == nil || m.Kind != capture.MetadataCredentials {
		return 0
	}
	var absolute, relative capture.Time
	members(body, func(name, value []byte) bool {
		switch {
		case m.Provider == capture.Google:
			if string(name) == "expires_in" {
				relative = seconds(now, value)
				return relative == 0
			}
		case m.Provider == capture.Azure:
			// Both in either order; not all versions write the first one as a number.
			switch string(name) {
			case "expires_on":
				absolute = seconds(0, value)
			case "expires_in":
				relative = seconds(now, value)
			}
		case string(name) == "Expiration":
			absolute = moment(value)
			return false
		}
		return absolute == 0
	})
	if absolute != 0 {
		return absolute
	}
	return relative
}

// moment reads an RFC 3339 time.
func moment(text []byte) capture.Time {
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil || t.Unix() <= 0 || t.Unix() > latest {
		return 0
	}
	return capture.At(t)
}

// seconds is the time so many seconds, as Google and Azure write them, after from.
func seconds(from capture.Time, text []byte) capture.Time {
	// In digits, a century from 1970 has ten.
	const most = 10
	n := int64(0)
	for i, b := range text {
		if b < '0' || b > '9' || i == most {
			return 0
		}
		n = 10*n + int64(b-'0')
	}
	at := int64(from)/int64(time.Second) + n
	if n == 0 || at > latest {
		return 0
	}
	return from + capture.Time(n*int64(time.Second))
}

// members calls take with the name and value of each member of the object in body whose
// value is a text or a number, until take returns false. Texts are without quotes and as
// they are written. It reads as far as body is JSON, once.
func members(body []byte, take func(name, value []byte) bool) {
	var name []byte
	depth := 0
	for i := 0; i < len(body); {
		switch b := body[i]; b {
		case '{', '[':
			depth++
			name = nil
		case '}', ']':
			depth--
			name = nil
		case ',':
			name = nil
		case ' ', '\t', '\r', '\n', ':':
		default:
			value, end := scalar(body[i:])
			if end == 0 {
				return
			}
			i += end
			if depth != 1 {
				continue
			}
			if name == nil {
				name = value
			} else {
				if !take(name, value) {
					return
				}
				name = nil
			}
			continue
		}
		i++
	}
}

// scalar reads the text, number or word at the start of rest, and returns how long it is;
// 0 when it does not end.
func scalar(rest []byte) (value []byte, length int) {
	if rest[0] != '"' {
		end := bytes.IndexAny(rest, ",}] \t\r\n")
		if end <= 0 {
			return nil, 0
		}
		return rest[:end], end
	}
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '"':
			return rest[1:i], i + 1
		}
	}
	return nil, 0
}
