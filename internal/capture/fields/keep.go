package fields

import (
	"bytes"

	"taper.dev/taper/internal/capture"
)

// Keep keeps a field of a request in x, whose HTTP is set, if it is one of those that are
// the same in all versions of HTTP; else it does nothing.
func (c *Cache) Keep(x *capture.Exchange, name Name, value []byte) {
	switch name {
	case Host:
		// What comes before "@" is a user and a password.
		for at := bytes.IndexByte(value, '@'); at >= 0; at = bytes.IndexByte(value, '@') {
			value = value[at+1:]
		}
		x.Authority = c.Text(value)
	case UserAgent:
		x.HTTP.UserAgent = c.Text(value)
	case TraceParent, B3, B3TraceID:
		// The standard wins where a request has several.
		if trace := Trace(name, value); trace != 0 && (x.Keys.Trace == 0 || name == TraceParent) {
			x.Keys.Trace = trace
		}
	case RequestID:
		x.Keys.Request = Request(value)
	case Authorization:
		x.HTTP.Signed = x.HTTP.Signed || Signed(value)
	}
}
