package explain

import (
	"bytes"
	"encoding/json"
	"io"
)

// WriteJSON writes the explanation as indented JSON. The error is the writer's.
func (e *Explanation) WriteJSON(w io.Writer) error { return writeJSON(w, e) }

func writeJSON(w io.Writer, v any) error {
	var compact bytes.Buffer
	encoder := json.NewEncoder(&compact)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	return writeIndented(w, compact.Bytes())
}

// writeAt is how many bytes are gathered before they are written.
const writeAt = 64 << 10

// writeIndented writes JSON with the line breaks and two spaces of [json.Indent]. The text
// is an encoder's, so it is known to be valid and compact: checking that again, byte by
// byte, would take longer than making it did.
func writeIndented(w io.Writer, compact []byte) error {
	out := make([]byte, 0, writeAt+writeAt/4)
	depth := 0
	for len(compact) > 0 {
		n := 1
		switch b := compact[0]; b {
		case '{', '[':
			if compact[1] == b+2 { // its other half, in ASCII: it is empty
				n = 2
				out = append(out, compact[:n]...)
				break
			}
			depth++
			out = appendLine(append(out, b), depth)
		case '}', ']':
			depth--
			out = append(appendLine(out, depth), b)
		case ',':
			out = appendLine(append(out, b), depth)
		case ':':
			out = append(out, ": "...)
		default:
			n = scalar(compact)
			out = append(out, compact[:n]...)
		}
		compact = compact[n:]
		if len(out) >= writeAt {
			if _, err := w.Write(out); err != nil {
				return err
			}
			out = out[:0]
		}
	}
	_, err := w.Write(out)
	return err
}

// appendLine begins a line.
func appendLine(out []byte, depth int) []byte {
	out = append(out, '\n')
	for range depth {
		out = append(out, "  "...)
	}
	return out
}

// scalar is the length of the text, number or word at the start of valid JSON.
func scalar(from []byte) int {
	if from[0] != '"' {
		n := 1
		for n < len(from) && from[n] != ',' && from[n] != ']' && from[n] != '}' {
			n++
		}
		return n
	}
	for i := 1; ; i++ {
		i += bytes.IndexByte(from[i:], '"')
		before := i
		for from[before-1] == '\\' {
			before--
		}
		if (i-before)%2 == 0 { // not an escaped quote
			return i + 1
		}
	}
}
