package readback

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	fib        = Service{Namespace: "demo", Host: "fib.demo.svc.cluster.local"}
	kubernetes = Service{Namespace: "default", Host: "kubernetes.default.svc.cluster.local"}
)

// golden is what a real istiod answered, to which a Service of three pods and the
// ServiceEntry of two of them were known.
func golden(t testing.TB) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/endpointz.json")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestRead(t *testing.T) {
	t.Parallel()
	var path, auth string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, auth = r.URL.Path, r.Header.Get("Authorization")
		w.Write(golden(t))
	}))
	defer server.Close()
	r, err := New(server.URL, func(context.Context) (string, error) { return "secret\n", nil })
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Read(t.Context(), fib, kubernetes, Service{"demo", "none"}, Service{"other", fib.Host})
	want := map[Service]Weights{
		fib:        {"http": {"10.0.0.1": 7, "10.0.0.2": 13}},
		kubernetes: {},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if path != "/debug/endpointz" || auth != "Bearer secret" {
		t.Errorf("asked for %s with %q", path, auth)
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	one := func(shards string) string { return `{"a":{"n":{"Shards":` + shards + `}}}` }
	a := Service{"n", "a"}
	for name, test := range map[string]struct {
		text  string
		want  Weights // nil: istiod does not know it
		fails string
	}{
		"empty":               {`{}`, nil, ""},
		"another namespace":   {`{"a":{"m":{"Shards":{"External/K":[{"Addresses":["1.1.1.1"],"ServicePortName":"p"}]}}}}`, nil, ""},
		"no shards":           {one(`null`), Weights{}, ""},
		"no weight is 1":      {one(`{"External/K":[{"Addresses":["1.1.1.1"],"ServicePortName":"p"}]}`), Weights{"p": {"1.1.1.1": 1}}, ""},
		"the first of two":    {one(`{"External/K":[{"Addresses":["1.1.1.1"],"LbWeight":2},{"Addresses":["1.1.1.1"],"LbWeight":3}]}`), Weights{"": {"1.1.1.1": 2}}, ""},
		"two ports":           {one(`{"External/K":[{"Addresses":["1.1.1.1"],"ServicePortName":"p","LbWeight":2},{"Addresses":["1.1.1.1"],"ServicePortName":"q","LbWeight":3}]}`), Weights{"p": {"1.1.1.1": 2}, "q": {"1.1.1.1": 3}}, ""},
		"no address":          {one(`{"External/K":[{"Addresses":[]}]}`), Weights{}, ""},
		"odd, but not wanted": {`{"b":7,"c":[{"x":{}}],"a":{"m":"x"}}`, nil, ""},
		"nothing":             {``, nil, "unexpected EOF"},
		"cut short":           {`{"a":{"n":{"Shards":{"External/K":[{"Addr`, nil, "unexpected EOF"},
		"cut at the end":      {`{"a":{"n":{"Shards":{}}}`, nil, "unexpected EOF"},
		"a page":              {`<!doctype html>`, nil, "invalid character '<'"},
		"a list":              {`[]`, nil, "[ at byte 1; want {"},
		"a number for a host": {`{"a":1}`, nil, "1 at byte 6; want {"},
		"a negative weight":   {one(`{"External/K":[{"Addresses":["1.1.1.1"],"LbWeight":-1}]}`), nil, "LbWeight"},
	} {
		got, err := decode(strings.NewReader(test.text), []Service{a})
		if test.fails != "" {
			if err == nil || got != nil || !strings.Contains(err.Error(), test.fails) {
				t.Errorf("%s: %v, %v; want an error with %q", name, got, err, test.fails)
			}
			continue
		}
		want := map[Service]Weights{}
		if test.want != nil {
			want[a] = test.want
		}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// TestRefused holds every odd answer to one line that says what to do, without the
// token.
func TestRefused(t *testing.T) {
	t.Parallel()
	say := func(code int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			io.WriteString(w, text)
		}
	}
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		fails   string
	}{
		"unauthorized": {say(401, ""), "401 Unauthorized: \"\"; it wants a service account's token for the audience istio-ca"},
		"forbidden":    {say(403, ""), "DEBUG_ENDPOINT_AUTH_ALLOWED_NAMESPACES: add the operator's"},
		"not found":    {say(404, "404 page not found\n"), `404 Not Found: "404 page not found"; is this the port 15014 of an istiod`},
		"broken":       {say(500, strings.Repeat("x", 5000)), strings.Repeat("x", maxQuote) + `"`},
		"elsewhere":    {http.RedirectHandler("https://login.example/?token=secret", http.StatusFound).ServeHTTP, "302 Found; want istiod itself, not a login page"},
		"a page":       {say(200, "<!doctype html>"), "should be JSON"},
		"cut short": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, `{"a":`)
		}, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(test.handler)
			defer server.Close()
			r, err := New(server.URL, func(context.Context) (string, error) { return "secret", nil })
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.Read(t.Context(), fib)
			if err == nil || !strings.Contains(err.Error(), test.fails) || !strings.HasPrefix(err.Error(), "reading from istiod at "+server.URL+"/debug/endpointz: ") {
				t.Fatalf("%v\nwant %q", err, test.fails)
			}
			if text := err.Error(); strings.Contains(text, "secret") || strings.Contains(text, "\n") || len(text) > 700 {
				t.Errorf("a secret, a line break or too much in %q", text)
			}
		})
	}
}

func TestNoAnswer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	r, err := New(server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := r.Read(ctx, fib); !errors.Is(err, context.DeadlineExceeded) || strings.Count(err.Error(), server.URL) != 1 {
		t.Errorf("%v; want the deadline, and istiod's name once", err)
	}
	failed := errors.New("no token today")
	r.token = func(context.Context) (string, error) { return "", failed }
	if _, err := r.Read(t.Context(), fib); !errors.Is(err, failed) {
		t.Errorf("%v; want %v", err, failed)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "istiod:15014", "ftp://istiod", "http://user:secret@istiod:15014", "http://istiod:%zz"} {
		if _, err := New(bad, nil); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestBounded sees that an answer that does not end is left.
func TestBounded(t *testing.T) {
	t.Parallel()
	endless := io.MultiReader(strings.NewReader(`{"a":"`), neverEnding('x'))
	_, err := decode(&bounded{from: endless, left: 1 << 20}, []Service{fib})
	if !errors.Is(err, errTooLong) {
		t.Errorf("%v; want %v", err, errTooLong)
	}
}

type neverEnding byte

func (b neverEnding) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(b)
	}
	return len(p), nil
}

func FuzzDecode(f *testing.F) {
	f.Add(golden(f))
	f.Add([]byte(`{"fib.demo.svc.cluster.local":{"demo":{"Shards":{"External/K":[{"Addresses":["1.1.1.1"],"LbWeight":2}]}}}}`))
	f.Add([]byte(`{"fib.demo.svc.cluster.local":{"demo":null}}`))
	f.Add([]byte(`{"x":[[[[`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := decode(bytes.NewReader(text), []Service{fib})
		if err != nil {
			if got != nil {
				t.Errorf("both %v and %v", got, err)
			}
			return
		}
		for service, weights := range got {
			if service != fib {
				t.Errorf("%v was not asked for", service)
			}
			for port, byAddress := range weights {
				for address, weight := range byAddress {
					if weight == 0 {
						t.Errorf("weight 0 for %s on port %q", address, port)
					}
				}
			}
		}
	})
}
