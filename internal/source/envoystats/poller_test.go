package envoystats_test

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"taper.dev/taper/internal/model"
	"taper.dev/taper/internal/source/envoystats"
)

const aHost = `{"address":{"socket_address":{"address":"127.0.0.1","port_value":8001}},"stats":[{"name":"rq_total","value":"5"},{"name":"rq_active"}]}`

// serving answers each question for clusters with the same text.
func serving(t *testing.T, text string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }))
	t.Cleanup(server.Close)
	return server
}

func TestClusterIsFoundByEitherName(t *testing.T) {
	server := serving(t, `{"cluster_statuses":[{"name":"outbound|80||fib","observability_name":"fib","host_statuses":[`+aHost+`]}]}`)
	s := start(t, server.URL)
	eventually(t, func() error {
		snapshot, err := s.Collect(t.Context(), []model.Endpoint{{Address: "127.0.0.1:8001"}})
		if err == nil && len(snapshot) != 1 {
			t.Fatalf("%v; want one endpoint", snapshot)
		}
		return err
	})
}

// TestErrorsAreShort sees that an error does not repeat an answer of megabytes.
func TestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, test := range map[string]struct{ answer, fails string }{
		"a value": {`{"cluster_statuses":[{"host_statuses":[{"stats":[{"value":"` + long + `"}]}]}]}`, "not a list of clusters"},
		"a name":  {`{"cluster_statuses":[{"name":"` + long + `"}]}`, "it knows"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, serving(t, test.answer).URL)
			eventually(t, func() error {
				_, err := s.Collect(t.Context(), nil)
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					return fmt.Errorf("%v; want %q", err, test.fails)
				}
				if n := len(err.Error()); n > 1000 {
					t.Errorf("an error of %d bytes", n)
				}
				return nil
			})
		})
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	var asked atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer server.Close()
	s := start(t, server.URL)
	eventually(t, func() error {
		if _, err := s.Collect(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "302 Found") {
			return fmt.Errorf("%v; want the redirect in it", err)
		}
		return nil
	})
	if asked.Load() {
		t.Error("the target of the redirect was asked")
	}
}

func TestStartNamesTheAddress(t *testing.T) {
	for address, fails := range map[string]string{
		"localhost:9901":        `"localhost:9901"`,
		"http://127.0.0.1:9901": "listed twice",
	} {
		s, err := envoystats.Start(envoystats.Config{Admins: []string{"http://127.0.0.1:9901", address}, Cluster: "fib"})
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), fails) {
			t.Errorf("%s: %v; want an error with %s", address, err, fails)
		}
	}
}

// TestEnvoyRate compares the rates read of a real Envoy with what its hosts got.
func TestEnvoyRate(t *testing.T) {
	var served [2]atomic.Int64
	var hosts [2]string
	for i := range hosts {
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served[i].Add(1) }))
		defer server.Close()
		hosts[i] = server.Listener.Addr().String()
	}
	admin, listener := runEnvoy(t, needsEnvoy(t), hosts[:]...)
	ended, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			if resp, err := http.Get("http://" + listener); err == nil {
				resp.Body.Close()
			}
		}
	}()
	defer func() { close(stop); <-ended }()

	s := start(t, "http://"+admin)
	eventually(t, func() error {
		before, began := [2]int64{served[0].Load(), served[1].Load()}, time.Now()
		time.Sleep(time.Second)
		snapshot, err := s.Collect(t.Context(), []model.Endpoint{{Address: hosts[0]}, {Address: hosts[1]}})
		if err != nil {
			return err
		}
		seconds := time.Since(began).Seconds()
		for i, address := range hosts {
			got, want := snapshot[address].Requests.Value, float64(served[i].Load()-before[i])/seconds
			if want == 0 || math.Abs(got/want-1) > 0.15 {
				return fmt.Errorf("host %d: %.1f requests/s, but it served %.1f/s", i, got, want)
			}
		}
		return nil
	})
}
