package pageload

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
)

// AgentHeader says who served a response.
const AgentHeader = "X-Taper-Agent"

// PageOptions say what page is served.
type PageOptions struct {
	// Name is whose page this is: it comes with each response.
	Name string
	// ScriptBytes, StyleBytes and ImageBytes are the sizes of these objects as sent to
	// browsers, the first two compressed; 0 is the default.
	ScriptBytes, StyleBytes, ImageBytes int
}

// Sizes by default. The script is that of the published story.
const (
	DefaultScriptBytes = 200_000
	DefaultStyleBytes  = 20_000
	DefaultImageBytes  = 30_000
)

const (
	// leastObject is below what an object has no room for its frame.
	leastObject = 1000
	// mostObject bounds what a page keeps in memory.
	mostObject = 256 << 20
)

const document = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>A page to load</title>
<link rel="icon" href="image.png">
<link rel="stylesheet" href="style.css">
<script src="app.js" defer></script>
</head>
<body>
<h1>A page to load</h1>
<p>taper net serve --page serves it, taper net page loads it.</p>
<img src="image.png" alt="">
</body>
</html>
`

// Page is a page with a script, a style and an image. Each is the same every time and
// everywhere, is kept compressed, and may not be cached.
func Page(o PageOptions) (http.Handler, error) {
	p := page{name: o.Name, files: map[string]file{}}
	for _, f := range []struct {
		path, kind string
		size       int
		make       func(size int) []byte
	}{
		{"/style.css", "text/css; charset=utf-8", cmp.Or(o.StyleBytes, DefaultStyleBytes), style},
		{"/app.js", "text/javascript; charset=utf-8", cmp.Or(o.ScriptBytes, DefaultScriptBytes), script},
		{"/image.png", "image/png", cmp.Or(o.ImageBytes, DefaultImageBytes), picture},
	} {
		if f.size < leastObject || f.size > mostObject {
			return nil, fmt.Errorf("%s of %d bytes is not possible: it must have %d to %d", f.path[1:], f.size, leastObject, mostObject)
		}
		p.files[f.path] = newFile(f.kind, f.make(f.size))
	}
	p.files["/"] = newFile("text/html; charset=utf-8", []byte(document))
	p.files["/index.html"] = p.files["/"]
	if strings.ContainsFunc(o.Name, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, errors.New("the name of a page's server goes into a header: it must be of printable ASCII")
	}
	return p, nil
}

// page implements http.Handler.
type page struct {
	name  string
	files map[string]file
}

// file is an object in the forms in which it is sent. Compressed is nil where that would
// not be smaller.
type file struct {
	kind              string
	plain, compressed []byte
}

func newFile(kind string, plain []byte) file {
	f := file{kind: kind, plain: plain}
	if !strings.HasPrefix(kind, "image/") {
		var b bytes.Buffer
		// Neither fails: the level is one that there is, and memory takes everything.
		w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
		_, _ = w.Write(plain)
		_ = w.Close()
		f.compressed = b.Bytes()
	}
	return f
}

func (p page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if p.name != "" {
		h.Set(AgentHeader, p.name)
	}
	h.Set("Cache-Control", "no-store")
	f, ok := p.files[r.URL.Path]
	switch {
	case !ok:
		http.NotFound(w, r)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	body := f.plain
	h.Set("Content-Type", f.kind)
	if f.compressed != nil {
		h.Set("Vary", "Accept-Encoding")
		if takesGzip(r.Header.Values("Accept-Encoding")) {
			h.Set("Content-Encoding", "gzip")
			body = f.compressed
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(body) // who does not want it has gone
	}
}

// takesGzip reads Accept-Encoding (RFC 9110, section 12.5.3).
func takesGzip(values []string) bool {
	for _, coding := range strings.Split(strings.Join(values, ","), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		if name = strings.ToLower(strings.TrimSpace(name)); name != "gzip" && name != "*" {
			continue
		}
		q, weighted := strings.CutPrefix(strings.ToLower(strings.TrimSpace(weight)), "q=")
		share, err := strconv.ParseFloat(q, 64)
		return !weighted || err == nil && share > 0
	}
	return false
}

// What is served has no meaning. Its letters are random ones out of 64, the same each
// time, so that compression leaves 6 bits of 8: a size as sent can be had.
const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_$"

// noise is text that has about so many bytes when compressed, in lines between a head and
// a tail.
func noise(seed uint64, compressed int, before, after string) []byte {
	const lineBytes, perNumber = 70, 10 // letters: a number has 64 bits, a letter takes 6
	random := rand.New(rand.NewPCG(seed, 0))
	lines := compressed*8/6/lineBytes + 1
	b := make([]byte, 0, lines*(len(before)+lineBytes+len(after)))
	for range lines {
		b = append(b, before...)
		for range lineBytes / perNumber {
			for n, i := random.Uint64(), 0; i < perNumber; n, i = n>>6, i+1 {
				b = append(b, letters[n%uint64(len(letters))])
			}
		}
		b = append(b, after...)
	}
	return b
}

// fitted makes text with as much noise as gives the size wanted: a sample tells what stands
// beside the noise.
func fitted(want int, make func(noiseBytes int) []byte) []byte {
	sample := min(want, sampleBytes)
	got := len(newFile("text/plain", make(sample)).compressed)
	return make(int(math.Round(float64(want) * float64(sample) / float64(got))))
}

const sampleBytes = 20_000

func script(size int) []byte {
	return fitted(size, func(n int) []byte {
		return bytes.Join([][]byte{[]byte("const taper = ["), noise(1, n, "\"", "\",\n"), []byte("];\n")}, nil)
	})
}

func style(size int) []byte {
	return fitted(size, func(n int) []byte {
		return bytes.Join([][]byte{[]byte("body { margin: 2em }\n"), noise(2, n, "/*", "*/\n")}, nil)
	})
}

// picture is a PNG of grey noise, which has a byte for each of its pixels.
func picture(size int) []byte {
	const width = 200
	random := rand.New(rand.NewPCG(3, 0))
	img := image.NewGray(image.Rect(0, 0, width, max(1, size/width)))
	for i := range img.Pix {
		img.Pix[i] = byte(random.Uint32())
	}
	var b bytes.Buffer
	_ = png.Encode(&b, img) // memory takes everything
	return b.Bytes()
}
