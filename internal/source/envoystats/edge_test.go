package envoystats_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"taper.dev/taper/internal/lab/process"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/internal/source/envoystats"
)

const pollEvery = 20 * time.Millisecond

// eventually asks until done is nil, and fails with its last error.
func eventually(t *testing.T, done func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * pollEvery) {
		if err = done(); err == nil {
			return
		}
	}
	t.Fatal(err)
}

func start(t *testing.T, admins ...string) *envoystats.Source {
	t.Helper()
	s, err := envoystats.Start(envoystats.Config{Admins: admins, Cluster: "fib", PollEvery: pollEvery})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestOddAnswers sees that what is not an Envoy is named, and not with its secrets.
func TestOddAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		fails   string
	}{
		"a page":      {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "not a list of clusters"},
		"not found":   {http.NotFound, "404 Not Found; is this an admin interface?"},
		"cut short":   {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"cluster_statuses":[`) }, "not a list of clusters"},
		"no clusters": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) }, `cluster "fib" is not known`},
		"breaks off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "{")
		}, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(test.handler)
			defer server.Close()
			s := start(t, strings.Replace(server.URL, "http://", "http://user:secret@", 1))
			eventually(t, func() error {
				snapshot, err := s.Collect(t.Context(), []model.Endpoint{{Address: "127.0.0.1:1"}})
				switch {
				case err == nil:
					t.Fatalf("%v without an error", snapshot)
				case strings.Contains(err.Error(), "secret"):
					t.Fatalf("a secret in %q", err)
				case !strings.Contains(err.Error(), test.fails) || !strings.Contains(err.Error(), server.URL):
					return fmt.Errorf("%q; want %q and %s", err, test.fails, server.URL)
				}
				return nil
			})
		})
	}
}

// TestCloseEndsPolls sees that Close does not wait for an Envoy that hangs, and
// that nothing is asked afterwards.
func TestCloseEndsPolls(t *testing.T) {
	var polls atomic.Int64
	asked := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		polls.Add(1)
		select {
		case asked <- struct{}{}:
		default:
		}
		<-r.Context().Done()
	}))
	defer server.Close()
	s := start(t, server.URL)
	<-asked
	s.Close()
	before := polls.Load()
	time.Sleep(5 * pollEvery)
	if after := polls.Load(); after != before {
		t.Errorf("%d polls after Close", after-before)
	}
}

// TestEnvoy reads two real Envoys: one host answers at once, one holds its request.
func TestEnvoy(t *testing.T) {
	binary := needsEnvoy(t)
	quick := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer quick.Close()
	release := make(chan struct{})
	held := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer held.Close()
	defer close(release)
	quickAddress, heldAddress := quick.Listener.Addr().String(), held.Listener.Addr().String()

	var admins, listeners []string
	for range 2 {
		admin, listener := runEnvoy(t, binary, quickAddress, heldAddress)
		admins, listeners = append(admins, "http://"+admin), append(listeners, "http://"+listener)
	}
	s := start(t, admins...)
	endpoints := []model.Endpoint{{Address: quickAddress}, {Address: heldAddress}, {Address: "127.0.0.1:1"}}
	time.Sleep(10 * pollEvery) // an Envoy that has not been polled yet is left out, which is no error
	eventually(t, func() error { _, err := s.Collect(t.Context(), endpoints); return err })

	const each = 20 // of which round robin sends half to either host
	began := time.Now()
	for range each {
		for _, listener := range listeners {
			go func() {
				if resp, err := http.Get(listener); err == nil {
					resp.Body.Close()
				}
			}()
		}
	}
	var requests float64 // of the quick host, over all intervals
	eventually(t, func() error {
		last := time.Now()
		time.Sleep(10 * pollEvery)
		snapshot, err := s.Collect(t.Context(), endpoints)
		if err != nil {
			return err
		}
		q, h := snapshot[quickAddress], snapshot[heldAddress]
		requests += q.Requests.Value * time.Since(last).Seconds()
		if _, ok := snapshot["127.0.0.1:1"]; ok {
			t.Fatal("a host that no Envoy knows was measured")
		}
		if h.InFlight.Value != each || q.InFlight.Value != 0 || h.Requests.Value != 0 || requests == 0 {
			return fmt.Errorf("quick %+v, held %+v, %.1f requests; want 0 and %d in flight and no more new requests", q, h, requests, each)
		}
		if h.InFlight.At.Before(began) || h.InFlight.At.After(time.Now()) {
			t.Errorf("measured at %s, which is not the time of a poll", h.InFlight.At)
		}
		return nil
	})
	// An interval ends at its last poll and not at the call, hence the width.
	if requests < each/2 || requests > each*2 {
		t.Errorf("%.1f requests of the quick host were counted, want about %d", requests, each)
	}
}

func runEnvoy(t *testing.T, binary string, hosts ...string) (admin, listener string) {
	t.Helper()
	dir := t.TempDir()
	admin, listener = freeAddress(t), freeAddress(t)
	bootstrap, err := os.ReadFile("testdata/bootstrap.yaml")
	if err != nil {
		t.Fatal(err)
	}
	socket := func(address string) string {
		host, port, _ := net.SplitHostPort(address)
		return fmt.Sprintf("{socket_address: {address: %s, port_value: %s}}", host, port)
	}
	text := strings.NewReplacer("ADMIN", socket(admin), "LISTENER", socket(listener), "HOST1", socket(hosts[0]), "HOST2", socket(hosts[1])).Replace(string(bootstrap))
	file := filepath.Join(dir, "bootstrap.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := process.Start(process.Spec{
		Name: "envoy",
		Path: binary,
		Args: []string{"-c", file, "--concurrency", "1", "--use-dynamic-base-id", "-l", "error"},
		Log:  filepath.Join(dir, "envoy.log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(5 * time.Second) })
	// The admin interface is up before the listener, which comes last.
	eventually(t, func() error {
		conn, err := net.Dial("tcp", listener)
		if err == nil {
			conn.Close()
		}
		return err
	})
	return admin, listener
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func needsEnvoy(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("envoy")
	if err == nil {
		return path
	}
	if os.Getenv("TAPER_TEST_REQUIRE_ALL") == "1" {
		t.Fatalf("%v; install Envoy 1.40", err)
	}
	t.Skipf("%v; install Envoy 1.40", err)
	return ""
}
