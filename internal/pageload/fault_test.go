package pageload

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
)

// site serves HTML at its root, and what else there is.
func site(html string, more map[string]http.HandlerFunc) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, html)
	})
	for path, h := range more {
		mux.HandleFunc(path, h)
	}
	return mux
}

func text(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) }
}

// endless sends as long as somebody reads.
func endless(w http.ResponseWriter, _ *http.Request) {
	for b := make([]byte, 64<<10); ; {
		if _, err := w.Write(b); err != nil {
			return
		}
	}
}

// bomb is little that becomes much, without an end.
func bomb(kind string) http.HandlerFunc {
	var much bytes.Buffer
	z := gzip.NewWriter(&much)
	_, _ = z.Write(make([]byte, 10<<20))
	_ = z.Close()
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Encoding", "gzip")
		for {
			if _, err := w.Write(much.Bytes()); err != nil {
				return
			}
		}
	}
}

func gzipOf(b []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = z.Write(b)
		_ = z.Close()
	}
}

// Pages that cannot be looked at say why, in time.
func TestBrokenPages(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		handler http.Handler
		want    string
	}{
		"endless":      {http.HandlerFunc(endless), "more than 1048576 bytes"},
		"endless gzip": {bomb("text/html"), "more than 1048576 bytes"},
		"gzip bomb":    {gzipOf(make([]byte, 10<<20)), "more than 8388608 bytes of text"},
		"no gzip": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<p>")
		}), "uncompressing"},
		"an odd encoding": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<p>")
		}), `"br"`},
		"redirect loop":    {http.RedirectHandler("/", http.StatusFound), "more than 10 redirects"},
		"redirect away":    {http.RedirectHandler("http://elsewhere.invalid/", http.StatusMovedPermanently), "redirects to http://elsewhere.invalid:80, another origin"},
		"redirect nowhere": {http.RedirectHandler("mailto:x@y", http.StatusFound), "302 Found to nowhere"},
		"redirect too far": {http.RedirectHandler("/"+strings.Repeat("x", 10000), http.StatusFound), "302 Found to nowhere"},
		"errors":           {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }), "500 Internal Server Error"},
		"slow":             {http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), "was not there within 1s"},
		"slow body": {http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "<p>")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}), "was not there within 1s"},
		"cut off": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "<p>")
		}), "unexpected EOF"},
		"hung up":     {http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), "EOF"},
		"long header": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }), "headers exceeded 262144 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, test.handler)
			o := brief(Target{Name: "page", URL: s.URL})
			o.Timeout, o.MaxObjectBytes = time.Second, 1<<20
			if name == "slow" || name == "slow body" {
				t.Cleanup(s.CloseClientConnections)
			} else {
				o.Timeout = 20 * time.Second // machines are busy
			}
			if load, err := Run(t.Context(), o, nil); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%+v, %v, want %q", load, err, test.want)
			}
		})
	}
}

// What is broken of a page is left out, and said; the rest is loaded.
func TestBrokenParts(t *testing.T) {
	t.Parallel()
	s := serve(t, site(`<link rel=stylesheet href=bomb.css><link rel=stylesheet href=a.css><img src=endless.png>
		<img src=gone.png><script src=http://cdn.invalid/a.js></script><img src=moved.png><img src=`+"\xff\x00"+`>`, map[string]http.HandlerFunc{
		"/bomb.css":    bomb("text/css"),
		"/a.css":       text(`@import "b.css"; p { background: url(c.png) }`),
		"/b.css":       text(`p { background: url(too-deep.png) }`),
		"/c.png":       text("c"),
		"/endless.png": endless,
		"/moved.png":   http.RedirectHandler("/c.png?moved", http.StatusFound).ServeHTTP,
	}))
	o := brief(Target{Name: "page", URL: s.URL})
	o.MaxObjectBytes, o.Timeout = 100_000, 20*time.Second
	load := run(t, o)
	found := load.Targets[0]
	// The document, a.css, b.css, c.png and what was moved.
	if found.Objects != 5 || found.Steps[0].Pages == 0 || found.Steps[0].Errors != 0 {
		t.Errorf("%+v", found)
	}
	notes := strings.Join(load.Notes, "\n")
	if !strings.Contains(notes, "4 objects of the page could not be loaded") || !strings.Contains(notes, "1 objects of other origins") {
		t.Errorf("notes are %q", notes)
	}
}

func TestNoMoreObjectsThanAllowed(t *testing.T) {
	t.Parallel()
	var html strings.Builder
	for i := range 30 {
		fmt.Fprintf(&html, "<img src=%d.png>", i)
	}
	s := serve(t, site(html.String(), map[string]http.HandlerFunc{"/": text("x")}))
	o := brief(Target{Name: "page", URL: s.URL})
	o.MaxObjects = 10
	load := run(t, o)
	if load.Targets[0].Objects != 10 || len(load.Notes) != 1 || !strings.Contains(load.Notes[0], "21 objects are left out") {
		t.Errorf("%d objects, %q", load.Targets[0].Objects, load.Notes)
	}
}

// step runs one step against a handler that is well while the page is looked at.
func stepAgainst(t *testing.T, spoiled http.HandlerFunc, o Options) (probe.PageStep, *probe.PageLoad) {
	t.Helper()
	var looked atomic.Bool
	inner := pages(t, "web-1")
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if looked.Load() && r.URL.Path == "/app.js" {
			spoiled(w, r)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	o.Targets = []Target{{Name: "page", URL: s.URL}}
	load, err := Run(t.Context(), o, func(text string) {
		if strings.HasSuffix(text, "users: 1") {
			looked.Store(true)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return load.Targets[0].Steps[0], load
}

func TestErrorsUnderLoadAreCounted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spoiled http.HandlerFunc
		want    string
	}{
		"errors": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, "503 Service Unavailable"},
		"reset":  {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			fmt.Fprint(w, "x")
		}, "unexpected EOF"},
		"slow": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "was not there within 150ms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := brief()
			if name == "slow" {
				o.Timeout = 150 * time.Millisecond
			}
			p, load := stepAgainst(t, test.spoiled, o)
			if p.Errors == 0 || p.Pages != 0 || p.P50 != nil || !strings.Contains(p.Why, test.want) {
				t.Errorf("%+v", p)
			}
			// What refuses is not measured on.
			if found := load.Targets[0]; !strings.Contains(found.Problem, test.want) || found.Users != 0 || load.Bottleneck != nil {
				t.Errorf("%+v, %+v", found, load.Bottleneck)
			}
		})
	}
}

// A page that takes longer than its step is not forgotten.
func TestPagesThatNeverEndCount(t *testing.T) {
	t.Parallel()
	p, _ := stepAgainst(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, brief())
	if p.Errors != 1 || !strings.Contains(p.Why, "longer than the step") {
		t.Errorf("%+v", p)
	}
}

// The client's library asks again where a kept connection was closed under it; that is an
// error like others.
func TestNothingIsTriedAgainUnseen(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			fmt.Fprint(w, "x")
			return
		}
		if asked.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, "y")
	}))
	target, err := newTarget(Target{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	o := brief().withDefaults()
	b := newBrowser(target, &o)
	defer b.Close()
	ignore := func(string, *http.Response) io.Writer { return io.Discard }
	for path, want := range map[string]string{"/": "", "/again": "came over another"} {
		u, _ := target.url.Parse("/")
		if _, _, err := b.fetch(t.Context(), u, ignore); err != nil {
			t.Fatal(err)
		}
		u, _ = target.url.Parse(path)
		_, _, err := b.fetch(t.Context(), u, ignore)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// However many servers there are said to be, memory is bounded.
func TestServersAreBounded(t *testing.T) {
	t.Parallel()
	s := newStep(time.Now().Add(-time.Second), time.Minute)
	for i := range 10 * mostServers {
		_, _ = s.sink(fmt.Sprint(i), nil).Write(make([]byte, 10))
	}
	p := s.summary(1)
	all, rest := sum(p.Bins), sum(p.Served[otherServer])
	if len(p.Served) != mostServers+1 || all != 100*mostServers || rest != 90*mostServers {
		t.Errorf("%d servers, %d and %d bytes", len(p.Served), all, rest)
	}
	r := httptest.NewRecorder().Result()
	r.Header.Set(AgentHeader, strings.Repeat("x", 1000))
	if name := servedBy(r, ""); len(name) != mostName {
		t.Errorf("a name of %d bytes", len(name))
	}
}

func sum(bins []int64) (all int64) {
	for _, b := range bins {
		all += b
	}
	return all
}

func TestServeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(nil) // for its listener
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, s.Listener, pages(t, "web-1")) }()
	r, err := http.Get("http://" + s.Listener.Addr().String())
	if err != nil || r.Header.Get(AgentHeader) != "web-1" {
		t.Fatalf("%v, %v", r, err)
	}
	r.Body.Close()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := Serve(t.Context(), s.Listener, nil); err == nil {
		t.Error("a closed listener can be served")
	}
}
