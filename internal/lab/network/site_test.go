package network

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"taper.dev/taper/internal/pageload"
)

// testSite is a site whose interfaces are narrow enough for a short test.
func testSite(t *testing.T) *site {
	t.Helper()
	needRoot(t)
	envoy, err := exec.LookPath("envoy")
	if err != nil {
		if os.Getenv("TAPER_TEST_REQUIRE_ALL") != "" {
			t.Fatal(err)
		}
		t.Skipf(`%v: run "make tools"`, err)
	}
	o := DefaultOptions()
	o.Narrow.BitsPerS = narrow
	s, err := newSite(t.Context(), t.TempDir(), envoy, o.Agent, o.Narrow)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

const narrow = 40e6

func TestTheBalancerSpreadsThePageAndIsNarrow(t *testing.T) {
	s := testSite(t)
	servers := map[string]int{}
	bytes, began := int64(0), time.Now()
	for time.Since(began) < 1500*time.Millisecond {
		response, err := direct.Get(s.balancer.url() + "app.js")
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("status %d, %v", response.StatusCode, err)
		}
		servers[response.Header.Get(pageload.AgentHeader)]++
		bytes += n
	}
	if one, two := servers["web-1"], servers["web-2"]; one == 0 || two == 0 || len(servers) > 2 {
		t.Errorf("it was served by %v", servers)
	}
	// Beside the rate there is a small burst, and between files a pause.
	took := time.Since(began).Seconds()
	if most := narrow/8*took + 2*narrowBurst; float64(bytes) > most {
		t.Errorf("%d bytes came in %.2f s, more than %.0f", bytes, took, most)
	}
	if least := 0.5 * narrow / 8 * took; float64(bytes) < least {
		t.Errorf("%d bytes came in %.2f s, fewer than %.0f", bytes, took, least)
	}
}

func TestADeadBalancerEndsTheRun(t *testing.T) {
	s := testSite(t)
	err := guarded(t.Context(), s.watch, func(ctx context.Context) error {
		if err := syscall.Kill(s.balancer.running.PID(), syscall.SIGKILL); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if err == nil || errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "envoy on machine balancer died") {
		t.Errorf("%v, want what Envoy died of", err)
	}
}
