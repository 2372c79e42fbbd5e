package pageload

import (
	"bytes"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/html"
)

// reference is something that a document or a style sheet makes a browser load.
type reference struct {
	url *url.URL
	// style says that it may reference more.
	style bool
}

const (
	// mostReferences bounds what is kept of one document.
	mostReferences = 10000
	// mostToken bounds a tag with all its attributes, and a text; what follows a longer one
	// is not read.
	mostToken = 1 << 20
	// mostURL bounds a URL, and one that others are relative to: servers take no longer ones.
	mostURL = 8 << 10
	// viewport is the width of the user's window, in CSS pixels of one pixel each.
	viewport = 1280
)

// documentReferences are what a browser would load of an HTML document, in its order, each
// once. Broken documents are read as far as they can be.
func documentReferences(document []byte, base *url.URL) []reference {
	d := documentReader{references: references{base: base}}
	z := html.NewTokenizer(bytes.NewReader(document))
	z.SetMaxBuf(mostToken)
	for {
		switch z.Next() {
		case html.ErrorToken:
			return d.found
		case html.StartTagToken, html.SelfClosingTagToken:
			d.start(z.Token())
		case html.EndTagToken:
			d.end(z.Token().Data)
		case html.TextToken:
			if d.inStyle {
				d.addStyles(string(z.Raw()))
			}
		}
	}
}

// documentReader goes through a document.
type documentReader struct {
	references
	based   bool
	inStyle bool
	// hidden counts the elements around that a browser with scripts does not look into.
	hidden int
}

func (d *documentReader) start(t html.Token) {
	if t.Data == "noscript" || t.Data == "template" {
		d.hidden++
	}
	if d.hidden > 0 {
		return
	}
	if text, ok := attribute(t, "style"); ok {
		d.addStyles(text)
	}
	switch t.Data {
	case "base":
		d.rebase(t)
	case "style":
		d.inStyle = true
	case "script":
		// Who knows modules leaves out what is there for others.
		if _, old := attribute(t, "nomodule"); !old {
			d.addAttribute(t, "src", false)
		}
	case "link":
		d.link(t)
	case "img":
		d.image(t)
	}
}

func (d *documentReader) end(tag string) {
	switch tag {
	case "style":
		d.inStyle = false
	case "noscript", "template":
		d.hidden = max(0, d.hidden-1)
	}
}

// rebase takes the first base that a document has.
func (d *documentReader) rebase(t html.Token) {
	raw, ok := attribute(t, "href")
	if !ok || d.based || len(raw) > mostURL {
		return
	}
	if u, err := d.base.Parse(strings.TrimSpace(raw)); err == nil {
		d.base, d.based = u, true
	}
}

func (d *documentReader) link(t html.Token) {
	text, _ := attribute(t, "rel")
	kinds := strings.Fields(strings.ToLower(text))
	is := func(kind string) bool { return slices.Contains(kinds, kind) }
	_, disabled := attribute(t, "disabled")
	switch {
	case is("stylesheet"):
		if !is("alternate") && !disabled {
			d.addAttribute(t, "href", true)
		}
	case is("icon"), is("preload"), is("modulepreload"):
		d.addAttribute(t, "href", false)
	}
}

// image takes the one picture that a browser would choose.
func (d *documentReader) image(t html.Token) {
	plain, _ := attribute(t, "src")
	set, ok := attribute(t, "srcset")
	if !ok {
		d.add(plain, false)
		return
	}
	d.add(chooseCandidate(set, plain), false)
}

func (d *documentReader) addAttribute(t html.Token, name string, style bool) {
	if raw, ok := attribute(t, name); ok {
		d.add(raw, style)
	}
}

func (d *documentReader) addStyles(css string) {
	for _, r := range scanStyles(css) {
		d.add(r.raw, r.imported)
	}
}

func attribute(t html.Token, name string) (string, bool) {
	for _, a := range t.Attr {
		if a.Key == name && a.Namespace == "" {
			return a.Val, true
		}
	}
	return "", false
}

// references collects them.
type references struct {
	base  *url.URL
	found []reference
	seen  map[string]bool
}

func (r *references) add(raw string, style bool) {
	raw = strings.TrimSpace(raw)
	if raw == "" || raw[0] == '#' || len(raw) > mostURL || len(r.found) >= mostReferences {
		return
	}
	u, err := r.base.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return
	}
	u = normal(u)
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	if key := u.String(); !r.seen[key] {
		r.seen[key] = true
		r.found = append(r.found, reference{u, style})
	}
}

// chooseCandidate is the picture out of a srcset (and the src beside it) for a window of
// [viewport] pixels: the least dense that is dense enough, else the densest. Without
// knowing the layout, a picture counts as being as wide as the window, as the attribute
// sizes has it where it is missing.
func chooseCandidate(set, plain string) string {
	best, density := plain, 1.0
	if plain == "" {
		density = 0
	}
	byWidth := false
	for set != "" {
		var candidate, descriptor string
		candidate, descriptor, set = nextCandidate(set)
		value, wide := 1.0, strings.HasSuffix(descriptor, "w")
		if descriptor != "" {
			v, err := strconv.ParseFloat(descriptor[:len(descriptor)-1], 64)
			if err != nil || !(v > 0) || !wide && !strings.HasSuffix(descriptor, "x") {
				continue
			}
			value = v
		}
		if candidate == "" {
			continue
		}
		if wide {
			value /= viewport
			if !byWidth { // then the src is for browsers that know no widths
				byWidth, density = true, 0
			}
		}
		if density == 0 || density < 1 && value > density || value >= 1 && value < density {
			best, density = candidate, value
		}
	}
	return best
}

// nextCandidate takes the first off a srcset (HTML standard, "parse a srcset attribute").
func nextCandidate(set string) (candidate, descriptor, rest string) {
	const space = " \t\n\f\r"
	set = strings.TrimLeft(set, space+",")
	end := strings.IndexAny(set, space)
	if end < 0 {
		end = len(set)
	}
	candidate, rest = set[:end], set[end:]
	if trimmed := strings.TrimRight(candidate, ","); trimmed != candidate {
		return trimmed, "", rest
	}
	descriptor, rest, _ = strings.Cut(rest, ",")
	return candidate, strings.Trim(descriptor, space), rest
}
