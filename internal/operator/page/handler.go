package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"taper.dev/taper/internal/operator/journal"
	"taper.dev/taper/internal/uplot"
)

// Options say who serves the page.
type Options struct {
	// Version is the operator's.
	Version string
	// Replica is the name of this replica's pod.
	Replica string
	// Leading tells whether this replica acts. It must be set.
	Leading func() bool
	// Lease is what names the leader; zero when there is no election.
	Lease types.NamespacedName
	// Now is the clock; [time.Now] when nil.
	Now func() time.Time
}

// server answers from the journal.
type server struct {
	Options
	journal *journal.Journal
}

// New returns the handler of the page and all below it.
func New(j *journal.Journal, o Options) http.Handler {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &server{o, j}
	static := assets()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		if accept := r.Header.Get("Accept"); strings.Contains(accept, "text/plain") && !strings.Contains(accept, "text/html") {
			s.textAll(w, r)
			return
		}
		static["index.html"].ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /static/{file}", func(w http.ResponseWriter, r *http.Request) {
		if file, ok := static[r.PathValue("file")]; ok {
			file.ServeHTTP(w, r)
			return
		}
		http.NotFound(w, r)
	})
	mux.HandleFunc("GET /text", s.textAll)
	mux.HandleFunc("GET /text/{namespace}/{name}", s.textOne)
	mux.HandleFunc("GET /api/policies", s.serveAll)
	mux.HandleFunc("GET /api/policies/{namespace}/{name}", s.serveOne)
	mux.HandleFunc("GET /api/policies/{namespace}/{name}/history", s.serveHistory)
	return protect(mux)
}

// protect sets the headers that keep the page to itself: it loads from where it
// comes from only, runs no inline code and shows in no frame.
func protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
			"base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

//go:embed static
var files embed.FS

// asset is a file that changes with the operator's version only.
type asset struct {
	kind, tag string
	content   []byte
}

// ServeHTTP implements [http.Handler].
func (a asset) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", a.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.content))
}

// assets are the files of the page and of its chart library, by name.
func assets() map[string]asset {
	contents := map[string][]byte{
		"uPlot.js": []byte(uplot.Script), "uPlot.css": []byte(uplot.Styles), "uPlot-licence.txt": []byte(uplot.Licence),
	}
	entries, err := files.ReadDir("static")
	if err != nil {
		panic(fmt.Sprintf("page: reading its own files: %v", err)) // they are in the binary
	}
	for _, e := range entries {
		if contents[e.Name()], err = files.ReadFile("static/" + e.Name()); err != nil {
			panic(fmt.Sprintf("page: reading its own files: %v", err))
		}
	}
	all := map[string]asset{}
	for name, content := range contents {
		sum := sha256.Sum256(content)
		all[name] = asset{contentType(name), `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`, content}
	}
	return all
}

// contentType does not ask the machine's table of types, which may be missing.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".html":
		return "text/html; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return "text/plain; charset=utf-8"
}

// writeJSON answers with v.
func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, fmt.Sprintf("encoding the answer: %v", err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // who asked may have left
}
