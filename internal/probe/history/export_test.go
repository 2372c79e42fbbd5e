package history

import "time"

// Hurry makes the pauses between attempts short.
func Hurry(r *Remote) { r.first = time.Millisecond }
