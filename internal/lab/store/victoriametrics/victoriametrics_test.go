package victoriametrics

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"taper.dev/taper/internal/lab/process"
)

func TestScrapeConfig(t *testing.T) {
	got, err := scrapeConfig(Config{Targets: []string{"http://127.0.0.1:9090/metrics", "http://[::1]:80/a/b"}, ScrapeEvery: 1500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	const want = `scrape_configs:
    - job_name: taper-lab
      scrape_interval: 1.5s
      scrape_timeout: 1.5s
      static_configs:
        - targets:
            - 127.0.0.1:9090
          labels:
            __metrics_path__: /metrics
        - targets:
            - '[::1]:80'
          labels:
            __metrics_path__: /a/b
`
	if string(got) != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	for name, test := range map[string]struct {
		cfg   Config
		fails string
	}{
		"no interval": {Config{Targets: []string{"http://127.0.0.1:9090"}}, "scraping every 0s"},
		"no target":   {Config{ScrapeEvery: time.Second}, "no target to scrape"},
		"not a URL":   {Config{Targets: []string{"user:secret@host"}, ScrapeEvery: time.Second}, "not a URL"},
	} {
		if _, err := scrapeConfig(test.cfg); err == nil || !strings.Contains(err.Error(), test.fails) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v; want an error with %q and no secret", name, err, test.fails)
		}
	}
}

func TestMissingBinary(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Start(t.Context(), Config{Targets: []string{"http://127.0.0.1:9090"}, ScrapeEvery: time.Second})
	const want = "victoria-metrics not found in PATH: install it (Debian: apt-get install victoria-metrics) or use the embedded store"
	if err == nil || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
}

// TestScraped reads what the server says of its targets.
func TestScraped(t *testing.T) {
	for name, test := range map[string]struct{ targets, fails string }{
		"both up":      {`{"health":"up"},{"health":"up"}`, ""},
		"not yet":      {`{"health":"up"},{"health":"down"}`, "has scraped 1 of 2 targets"},
		"not known":    {``, "has scraped 0 of 2 targets"},
		"not possible": {`{"health":"up"},{"health":"down","scrapeUrl":"http://127.0.0.1:1/metrics","lastError":"connection refused"}`, "cannot scrape http://127.0.0.1:1/metrics: connection refused"},
		"not JSON":     {`<`, "reading victoria-metrics' targets"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"status":"success","data":{"activeTargets":[%s]}}`, test.targets)
			}))
			defer server.Close()
			err := (&Store{url: server.URL}).scraped(t.Context(), 2)
			if test.fails == "" && err != nil || test.fails != "" && (err == nil || !strings.Contains(err.Error(), test.fails)) {
				t.Errorf("%v; want an error with %q", err, test.fails)
			}
		})
	}
}

// TestGivenUp sees that nothing is left behind when the targets do not come up.
func TestGivenUp(t *testing.T) {
	needsServer(t)
	target := httptest.NewServer(http.NotFoundHandler())
	defer target.Close()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := Start(ctx, Config{Targets: []string{target.URL + "/metrics"}, ScrapeEvery: 200 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "victoria-metrics") {
		t.Errorf("%v; want an error with the server's name", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func needsServer(t *testing.T) {
	t.Helper()
	if _, err := process.Lookup("victoria-metrics", "install victoria-metrics"); err != nil {
		if os.Getenv("TAPER_TEST_REQUIRE_ALL") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}
