package http1

import "testing"

// Spaces are where they should not be, and lines end early.
func TestRequestLine(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]struct {
		target, cut string // of a whole line, and of the beginning of one; "-" is none
		old         bool
	}{
		"GET /a HTTP/1.1":          {target: "/a", cut: "/a"},
		"GET   /a  HTTP/1.0":       {target: "/a", cut: "/a", old: true},
		"GET /a b?c d HTTP/1.1":    {target: "/a b?c d", cut: "/a"},
		"PROPFIND /dav?x HTTP/1.1": {target: "/dav?x", cut: "/dav"},
		"CONNECT h:443 HTTP/1.1":   {target: "h:443", cut: "h:443"},
		"OPTIONS * HTTP/1.1":       {target: "*", cut: "*"},
		"GET http://h/a HTTP/1.1":  {target: "http://h/a", cut: "http://h/a"},
		"GET /a HTTP/1.2":          {target: "-", cut: "/a"},
		"GET /aHTTP/1.1":           {target: "-", cut: "-"},
		"GET /a":                   {target: "-", cut: "-"},
		"GET  HTTP/1.1":            {target: "-", cut: "-"},
		"GET ":                     {target: "-", cut: "-"},
		"get /a HTTP/1.1":          {target: "-", cut: "-"},
		"":                         {target: "-", cut: "-"},
	} {
		for _, cut := range []bool{false, true} {
			got, r := "-", requestLine{}
			if r, _ = parseRequestLine([]byte(line), cut); r.target != nil {
				got = string(r.target)
			}
			expected := want.target
			if cut {
				expected = want.cut
			}
			if got != expected || !cut && r.old != want.old {
				t.Errorf("%q, cut %v: %q, old %v; want %q", line, cut, got, r.old, expected)
			}
		}
	}
}
