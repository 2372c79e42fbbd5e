package exporter_test

import (
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

	"taper.dev/taper/internal/lab/exporter"
	"taper.dev/taper/internal/lab/fleet"
	"taper.dev/taper/internal/model"
)

type fakeFleet struct {
	fleet.Fleet
	usages []fleet.Usage
	err    error
}

func (*fakeFleet) Members() []fleet.Member {
	return []fleet.Member{
		{Endpoint: model.Endpoint{Address: "127.0.1.1:8080", Name: "fib-01"}},
		{Endpoint: model.Endpoint{Address: "127.0.1.2:8080"}},
	}
}

func (f *fakeFleet) Usage(context.Context) ([]fleet.Usage, error) { return f.usages, f.err }

func scrape(t *testing.T, f fleet.Fleet) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	exporter.New(f).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(body)
}

func TestScrape(t *testing.T) {
	golden, err := os.ReadFile("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeFleet{usages: []fleet.Usage{
		{Address: "127.0.1.1:8080", CPUSeconds: 12.5, Requests: 1500, At: time.Now()},
		{Address: "127.0.1.2:8080", At: time.Now()},
	}}
	status, got := scrape(t, f)
	if status != http.StatusOK {
		t.Errorf("status %d, want 200", status)
	}
	if diff := cmp.Diff(string(golden), got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	f.usages[0].CPUSeconds = 13
	if _, got := scrape(t, f); !strings.Contains(got, `pod="fib-01"} 13`+"\n") {
		t.Errorf("the second scrape does not have the new counter:\n%s", got)
	}
}

func TestBrokenFleet(t *testing.T) {
	status, body := scrape(t, &fakeFleet{err: errors.New("endpoint 127.0.1.1:8080 is gone")})
	if status != http.StatusInternalServerError || !strings.Contains(body, "endpoint 127.0.1.1:8080 is gone") || strings.Contains(body, "container_cpu_usage_seconds_total{") {
		t.Errorf("%d: %s\nwant 500 with the reason and no sample", status, body)
	}
}
