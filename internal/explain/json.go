package explain

import (
	"encoding/json"
	"io"
)

// WriteJSON writes the explanation as indented JSON. The error is the writer's.
func (e *Explanation) WriteJSON(w io.Writer) error { return writeJSON(w, e) }

func writeJSON(w io.Writer, v any) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(v)
}
