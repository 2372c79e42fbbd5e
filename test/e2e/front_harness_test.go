//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"
)

// front is a way to a store that can be disturbed, and sees what is asked for.
type front struct {
	*httptest.Server
	store http.Handler

	mu      sync.Mutex
	disturb disturbance
	asked   []question
}

// disturbance answers in place of a store, or has it answer.
type disturbance func(w http.ResponseWriter, r *http.Request, store http.Handler)

// question is a query that was sent, and when.
type question struct {
	at    time.Time
	query string
}

// newFront is a way to a server, as yet undisturbed.
func newFront(t *testing.T, server string) *front {
	t.Helper()
	f := unstartedFront(t, server)
	f.Start()
	return f
}

// newTLSFront is one by TLS, whose own certificate is the CA to check it by.
func newTLSFront(t *testing.T, server string) *front {
	t.Helper()
	f := unstartedFront(t, server)
	f.StartTLS()
	return f
}

func unstartedFront(t *testing.T, server string) *front {
	t.Helper()
	target, err := url.Parse(server)
	must(t, err)
	f := &front{store: httputil.NewSingleHostReverseProxy(target)}
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(f.serve))
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

func (f *front) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	form, _ := url.ParseQuery(string(body)) // what is not a form has no query
	r.Body = io.NopCloser(bytes.NewReader(body))
	f.mu.Lock()
	f.asked = append(f.asked, question{time.Now(), form.Get("query")})
	disturb := f.disturb
	f.mu.Unlock()
	if disturb == nil {
		f.store.ServeHTTP(w, r)
		return
	}
	disturb(w, r, f.store)
}

// set disturbs from now on; not any more when nil.
func (f *front) set(d disturbance) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.disturb = d
}

// questions are those since a time.
func (f *front) questions(since time.Time) []question {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, q := range f.asked {
		if !q.at.Before(since) {
			return append([]question(nil), f.asked[i:]...)
		}
	}
	return nil
}

// say answers everything alike.
func say(status int, body string) disturbance {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// hang answers nothing, until whoever asks has gone.
func hang(_ http.ResponseWriter, r *http.Request, _ http.Handler) { <-r.Context().Done() }

// cut ends the connection in the middle of an answer.
func cut(w http.ResponseWriter, r *http.Request, store http.Handler) {
	answer := answerOf(r, store)
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	w.Write(answer[:len(answer)/2])
	panic(http.ErrAbortHandler)
}

// answerOf is the body of the store's answer.
func answerOf(r *http.Request, store http.Handler) []byte {
	r.Header.Del("Accept-Encoding")
	got := httptest.NewRecorder()
	store.ServeHTTP(got, r)
	return got.Body.Bytes()
}

// edit changes the store's answers, which are JSON objects.
func edit(change func(answer map[string]any)) disturbance {
	return func(w http.ResponseWriter, r *http.Request, store http.Handler) {
		var answer map[string]any
		if err := json.Unmarshal(answerOf(r, store), &answer); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		change(answer)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // fails only where nobody listens any more
	}
}

// editSeries changes each series of answers: its labels, and its value as a text.
func editSeries(change func(labels map[string]any, value string) string) disturbance {
	return edit(func(answer map[string]any) {
		data, _ := answer["data"].(map[string]any)
		result, _ := data["result"].([]any)
		for _, one := range result {
			series := one.(map[string]any)
			value := series["value"].([]any)
			value[1] = change(series["metric"].(map[string]any), fmt.Sprint(value[1]))
		}
	})
}
