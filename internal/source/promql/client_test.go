package promql

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const emptyVector = `{"status":"success","data":{"resultType":"vector","result":[]}}`

// TestOddAnswers holds every odd answer to one clear line that names the store,
// what was read and what is wrong, without secrets.
func TestOddAnswers(t *testing.T) {
	say := func(status int, contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	}
	api := func(status int, body string) http.HandlerFunc { return say(status, "application/json", body) }
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		fails   string // "": it is an answer
	}{
		"empty":           {api(200, emptyVector), ""},
		"a note on style": {api(200, `{"status":"success","infos":["metric might not be a counter"],"data":{"resultType":"vector","result":[]}}`), ""},
		"an old note":     {api(200, `{"status":"success","warnings":["PromQL info: metric might not be a counter"],"data":{"resultType":"vector","result":[]}}`), ""},
		"a warning":       {api(200, `{"status":"success","warnings":["store-1 is away"],"data":{"resultType":"vector","result":[]}}`), `the store warns "store-1 is away"`},
		"partial":         {api(200, `{"status":"success","isPartial":true,"data":{"resultType":"vector","result":[]}}`), "the answer is partial"},
		"a scalar":        {api(200, `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`), `is of type "scalar"; want a vector`},
		"a string":        {api(200, `{"status":"success","data":{"resultType":"string","result":[1,"1"]}}`), `is of type "string"; want a vector`},
		"no type":         {api(200, `{"status":"success"}`), `is of type ""; want a vector`},
		"a matrix":        {api(200, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"1"]]}]}}`), `is of type "matrix"; want a vector`},
		"sorted fields":   {api(200, `{"data":{"result":[],"resultType":"vector"},"isPartial":false,"status":"success"}`), ""},
		"null":            {api(200, `{"status":"success","data":{"resultType":"vector","result":null}}`), ""},
		"two":             {api(200, emptyVector+emptyVector), "the answer cannot be used: there is more after its end"},
		"late warning":    {api(200, `{"status":"success","data":{"resultType":"vector","result":[]},"warnings":["PromQL info: style","store-2 is away"]}`), `the store warns "store-2 is away"`},
		"late partial":    {api(200, `{"status":"success","data":{"resultType":"vector","result":[]},"isPartial":true}`), "the answer is partial"},
		"an error at 200": {api(200, `{"status":"error","errorType":"internal","error":"no"}`), `200 OK: internal: "no"`},
		"an odd result":   {api(200, `{"status":"success","data":{"resultType":"vector","result":{}}}`), "the answer cannot be used: there is a JSON { where"},
		"bad numbers":     {api(200, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"one"]}]}}`), `a series has the value "one"; want a number`},
		"bad query":       {api(422, `{"status":"error","errorType":"execution","error":"too many samples"}`), `422 Unprocessable Entity: execution: "too many samples"`},
		"timeout":         {api(503, `{"status":"error","errorType":"timeout","error":"query timed out"}`), `503 Service Unavailable: timeout: "query timed out"`},
		"not ready":       {say(503, "text/plain", "Service Unavailable\nrid 7"), `503 Service Unavailable: "Service Unavailable"; the store or a proxy before it is not ready`},
		"unauthorized":    {say(401, "text/plain", "no"), `401 Unauthorized: "no"; are the credentials right?`},
		"wrong path":      {say(404, "text/plain", "404 page not found"), "is the URL's path right?"},
		"a page":          {say(200, "text/html", "\n<!doctype html>\n<title>Grafana</title>"), `is not one of the Prometheus API but "text/html": "<!doctype html>"`},
		"other JSON":      {api(200, `{"hits":[]}`), "is not one of the Prometheus API"},
		"login":           {http.RedirectHandler("https://login.example/start?token=secret", http.StatusFound).ServeHTTP, "302 Found; want the API itself, not a login page or an old address (redirect to https://login.example/start)"},
		"cut short": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "{")
		}, "unexpected EOF"},
		"a long line": {say(500, "text/plain", strings.Repeat("x", 5000)), strings.Repeat("x", maxQuote) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(test.handler)
			defer server.Close()
			url := strings.Replace(server.URL, "http://", "http://user:secret@", 1) + "?tenant=secret"
			got, err := collect(t, Config{URL: url, CPU: Metric{Selector: "up"}})
			if test.fails == "" {
				if err != nil || len(got) != 0 {
					t.Errorf("%v, %v; want an empty snapshot", got, err)
				}
				return
			}
			if err == nil || got != nil {
				t.Fatalf("%v, %v; want an error with %q", got, err, test.fails)
			}
			text := err.Error()
			if !strings.HasPrefix(text, "reading cpu from "+server.URL+": ") || !strings.Contains(text, test.fails) {
				t.Errorf("%q\nwant reading cpu from %s: … %s", text, server.URL, test.fails)
			}
			if strings.Contains(text, "secret") || strings.Contains(text, "\n") || len(text) > 600 {
				t.Errorf("a secret, a line break or too much in %q", text)
			}
		})
	}
}

// TestHugeAnswer sees that one is not read to its end, be it a single token or many
// series.
func TestHugeAnswer(t *testing.T) {
	for name, test := range map[string]struct{ part, fails string }{
		"a string": {"x", "there is a text of more than 1 MiB"},
		"series":   {`"},"value":[1,"1"]},{"metric":{"pod":"`, "longer than 4 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan bool, 1)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"taper_reading":"value","pod":"`)
				piece := strings.Repeat(test.part, 1<<20/len(test.part))
				for range 1000 {
					if _, err := io.WriteString(w, piece); err != nil {
						ended <- true
						return
					}
				}
				ended <- false
			}))
			defer server.Close()
			s, err := New(Config{URL: server.URL, Window: time.Minute, NamespaceLabel: "namespace", CPU: Metric{Selector: "up"}})
			if err != nil {
				t.Fatal(err)
			}
			s.client.most = 4 << 20
			if _, err := s.client.query(t.Context(), "up", s.labels.answered(), func(*series) error { return nil }); err == nil || !strings.Contains(err.Error(), test.fails) {
				t.Errorf("%v; want %q", err, test.fails)
			}
			if !<-ended {
				t.Error("all of it was read")
			}
		})
	}
}

// TestDeadline sees that a slow store is left at the context's deadline.
func TestDeadline(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer server.Close()
	s, err := New(Config{URL: server.URL, Window: time.Minute, CPU: Metric{Selector: "up"}, Requests: Metric{Selector: "up"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Collect(ctx, endpoints); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), server.URL) {
		t.Errorf("%v; want the deadline and the store's name", err)
	}
}

// TestUnreachable sees that one line names a store that is not there.
func TestUnreachable(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	_, err := collect(t, Config{URL: server.URL, CPU: Metric{Selector: "up"}})
	if err == nil || strings.Count(err.Error(), server.URL) != 1 || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v; want %s once, and connection refused", err, server.URL)
	}
}

// TestRequest checks what is sent: credentials, headers, path and query.
func TestRequest(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(token, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var got *http.Request
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.ParseForm()
		got = r
		fmt.Fprint(w, emptyVector)
	}))
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}

	cfg := Config{
		URL:             server.URL + "/select/0/prometheus?extra_label=a%3Db",
		Headers:         map[string]string{"X-Scope-OrgID": "shop"},
		BearerTokenFile: token,
		CAFile:          ca,
		Window:          time.Minute,
		CPU:             Metric{Selector: "up"},
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"first", "second"} {
		write(want + "\n")
		if _, err := s.Collect(t.Context(), endpoints); err != nil {
			t.Fatal(err)
		}
		if auth := got.Header.Get("Authorization"); auth != "Bearer "+want {
			t.Errorf("Authorization is %q, want the token %q", auth, want)
		}
	}
	if got.URL.Path != "/select/0/prometheus/api/v1/query" || got.Form.Get("extra_label") != "a=b" || got.Header.Get("X-Scope-OrgID") != "shop" {
		t.Errorf("sent %s with %v and %v", got.URL, got.Form, got.Header)
	}

	cfg.BearerTokenFile, cfg.URL = "", strings.Replace(server.URL, "https://", "https://me:p%40ss@", 1)
	if _, err := collect(t, cfg); err != nil {
		t.Fatal(err)
	}
	if user, password, _ := got.BasicAuth(); user != "me" || password != "p@ss" {
		t.Errorf("sent user %q and password %q", user, password)
	}

	cfg.URL, cfg.Username, cfg.Password = server.URL, "you", NewSecret("p@ss2")
	if _, err := collect(t, cfg); err != nil {
		t.Fatal(err)
	}
	if user, password, _ := got.BasicAuth(); user != "you" || password != "p@ss2" {
		t.Errorf("sent user %q and password %q", user, password)
	}
	cfg.Username, cfg.Password, cfg.BearerToken = "", Secret{}, NewSecret("third\n")
	cfg.CAFile, cfg.CAPEM = "", block
	if _, err := collect(t, cfg); err != nil {
		t.Fatal(err)
	}
	if auth := got.Header.Get("Authorization"); auth != "Bearer third" {
		t.Errorf("Authorization is %q, want the token", auth)
	}
	cfg.ServerName = "another.example"
	if _, err := collect(t, cfg); err == nil || !strings.Contains(err.Error(), "another.example") {
		t.Errorf("%v; want a certificate of another name refused", err)
	}

	cfg.CAPEM, cfg.ServerName = nil, ""
	if _, err := collect(t, cfg); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("%v; want the unknown certificate refused", err)
	}
}

// TestGetFallback sees that a proxy which forbids POST is asked by GET, with the
// URL's own parameters: a tenant may be among them.
func TestGetFallback(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			http.Error(w, "POST is not allowed", http.StatusMethodNotAllowed)
			return
		}
		if r.FormValue("query") == "" || r.FormValue("extra_label") != "a=b" {
			http.Error(w, r.URL.String(), http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, emptyVector)
	}))
	defer server.Close()
	if _, err := collect(t, Config{URL: server.URL + "?extra_label=a%3Db", CPU: Metric{Selector: "up"}}); err != nil {
		t.Error(err)
	}
}
