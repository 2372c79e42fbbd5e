package pageload

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"image/png"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ask asks a page for one of its objects.
func ask(page http.Handler, method, path, encoding string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	if encoding != "" {
		r.Header.Set("Accept-Encoding", encoding)
	}
	w := httptest.NewRecorder()
	page.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) []byte {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPageHasTheSizesAskedFor(t *testing.T) {
	t.Parallel()
	for _, o := range []PageOptions{{Name: "web-1"}, {ScriptBytes: 1_000_000, StyleBytes: 2_000, ImageBytes: 5_000}} {
		page, err := Page(o)
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]int{
			"/app.js": cmp.Or(o.ScriptBytes, DefaultScriptBytes), "/style.css": cmp.Or(o.StyleBytes, DefaultStyleBytes),
			"/image.png": cmp.Or(o.ImageBytes, DefaultImageBytes),
		} {
			r := ask(page, http.MethodGet, path, "gzip")
			got := body(t, r)
			if math.Abs(float64(len(got)-want)) > 0.02*float64(want)+300 {
				t.Errorf("%s has %d bytes, want %d", path, len(got), want)
			}
			if r.Header.Get("Content-Length") != strconv.Itoa(len(got)) {
				t.Errorf("%s says %s bytes and has %d", path, r.Header.Get("Content-Length"), len(got))
			}
			if again := body(t, ask(page, http.MethodGet, path, "gzip")); !bytes.Equal(got, again) {
				t.Errorf("%s is another one the second time", path)
			}
		}
	}
}

func TestPageIsSentAsBrowsersTakeIt(t *testing.T) {
	t.Parallel()
	page, err := Page(PageOptions{Name: "web-1"})
	if err != nil {
		t.Fatal(err)
	}
	plain := body(t, ask(page, http.MethodGet, "/app.js", ""))
	for encoding, compressed := range map[string]bool{
		"gzip": true, "br, gzip;q=0.5": true, "*": true, "GZIP": true,
		"": false, "br": false, "gzip;q=0": false, "gzip;q=x": false, "identity": false,
	} {
		r := ask(page, http.MethodGet, "/app.js", encoding)
		if got := r.Header.Get("Content-Encoding") == "gzip"; got != compressed {
			t.Errorf("Accept-Encoding %q: compressed %v", encoding, got)
		}
		text := body(t, r)
		if compressed {
			z, err := gzip.NewReader(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if text, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(text, plain) {
			t.Errorf("Accept-Encoding %q: not the same script", encoding)
		}
		for name, want := range map[string]string{AgentHeader: "web-1", "Cache-Control": "no-store", "Vary": "Accept-Encoding"} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	}
	if _, err := png.Decode(ask(page, http.MethodGet, "/image.png", "gzip").Body); err != nil {
		t.Errorf("the image: %v", err)
	}
	found := texts(documentReferences(body(t, ask(page, http.MethodGet, "/", "")), base(t)))
	slices.Sort(found)
	if want := []string{"/list/app.js", "/list/image.png", "style /list/style.css"}; !slices.Equal(found, want) {
		t.Errorf("the document references %q, want %q", found, want)
	}
}

func TestPageRefuses(t *testing.T) {
	t.Parallel()
	page, err := Page(PageOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		method, path string
		status       int
		bytes        bool
	}{
		{http.MethodGet, "/index.html", 200, true},
		{http.MethodHead, "/app.js", 200, false},
		{http.MethodPost, "/", 405, true},
		{http.MethodGet, "/../etc/passwd", 404, true},
		{http.MethodGet, "/app.js/", 404, true},
	} {
		r := ask(page, test.method, test.path, "")
		if got := body(t, r); r.StatusCode != test.status || (len(got) > 0) != test.bytes {
			t.Errorf("%s %s: %s with %d bytes, want %d", test.method, test.path, r.Status, len(got), test.status)
		}
	}
	for want, o := range map[string]PageOptions{
		"app.js of 10 bytes":         {ScriptBytes: 10},
		"style.css of -1 bytes":      {StyleBytes: -1},
		"image.png of 1000000000000": {ImageBytes: 1e12},
		"printable ASCII":            {Name: "web\r\nSet-Cookie: x"},
	} {
		if _, err := Page(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q in it", o, err, want)
		}
	}
}
