package nginx

import (
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/lab/fleet"
	"taper.dev/taper/internal/model"
)

// binary is the nginx to test with.
func binary(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("nginx")
	if err == nil {
		_, err = locate(path)
	}
	if err == nil {
		return path
	}
	if os.Getenv("TAPER_TEST_REQUIRE_ALL") == "1" {
		t.Fatal(err)
	}
	t.Skipf(`%v: run "make tools", or install nginx and libnginx-mod-http-lua`, err)
	return ""
}

// members have addresses that are free, apart from those of a lab that runs.
func members(t *testing.T, fibs ...int) []fleet.Member {
	t.Helper()
	var all []fleet.Member
	for i, fib := range fibs {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.2.%d:0", i+1))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		all = append(all, fleet.Member{Endpoint: model.Endpoint{Address: l.Addr().String(), Capacity: 2}, Fib: fib})
	}
	return all
}

func start(t *testing.T, all []fleet.Member, opts Options) *Fleet {
	t.Helper()
	f, err := Start(t.Context(), all, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

var fibonacci = map[int]string{20: "6765", 25: "75025", 27: "196418", 29: "514229"}

// get sends requests one after the other and checks the answers.
func get(m fleet.Member, count int) error {
	for range count {
		resp, err := http.Get("http://" + m.Address + "/any/path")
		if err != nil {
			return err
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK || string(body) != fibonacci[m.Fib] {
			return fmt.Errorf("%s: %s %q, want fib(%d) = %s", m.Address, resp.Status, body, m.Fib, fibonacci[m.Fib])
		}
		if got := resp.Header.Get(fleet.EndpointHeader); got != m.Address {
			return fmt.Errorf("%s: header %s: %q", m.Address, fleet.EndpointHeader, got)
		}
	}
	return nil
}

func usage(t *testing.T, f *Fleet) []fleet.Usage {
	t.Helper()
	all, err := f.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// cost is the CPU time per request of an endpoint, in seconds. Requests come one
// after the other over a connection, so one worker serves them.
func cost(t *testing.T, f *Fleet, endpoint int) float64 {
	t.Helper()
	const count = 40
	before := usage(t, f)[endpoint]
	if err := get(f.members[endpoint], count); err != nil {
		t.Fatal(err)
	}
	after := usage(t, f)[endpoint]
	if got := after.Requests - before.Requests; got != count {
		t.Fatalf("%s counts %d requests, want %d", after.Address, got, count)
	}
	return (after.CPUSeconds - before.CPUSeconds) / count
}

func TestUsage(t *testing.T) {
	all := members(t, 25, 29)
	f := start(t, all, Options{Binary: binary(t), Dir: t.TempDir()})
	if diff := cmp.Diff(all, f.Members()); diff != "" {
		t.Errorf("Members() (-want +got):\n%s", diff)
	}
	began := time.Now()
	for i, u := range usage(t, f) {
		if u.Address != all[i].Address || u.Requests != 0 || u.At.Before(began) {
			t.Errorf("usage %d before any request: %+v", i, u)
		}
	}
	cheap, dear := cost(t, f, 0), cost(t, f, 1)
	t.Logf("fib(25) costs %.2f ms, fib(29) %.2f ms", cheap*1e3, dear*1e3)
	// φ⁴ is 6.9. What a request costs besides the computation lowers it.
	if ratio := dear / cheap; ratio < 3 || ratio > 10 {
		t.Errorf("fib(29) costs %.1f times fib(25), want 3..10", ratio)
	}
}

func TestConcurrentRequestsAreAllCounted(t *testing.T) {
	const clients, each = 8, 25
	all := members(t, 20)
	f := start(t, all, Options{Binary: binary(t), Dir: t.TempDir()})
	var last uint64
	var sending sync.WaitGroup
	for range clients {
		sending.Go(func() {
			if err := get(all[0], each); err != nil {
				t.Error(err)
			}
		})
	}
	for range 20 {
		now := usage(t, f)[0].Requests
		if now < last {
			t.Errorf("requests fell from %d to %d", last, now)
		}
		last = now
	}
	sending.Wait()
	if got := usage(t, f)[0].Requests; got != clients*each {
		t.Errorf("%d requests counted, want %d", got, clients*each)
	}
}

func TestDisturb(t *testing.T) {
	all := members(t, 27)
	f := start(t, all, Options{Binary: binary(t), Dir: t.TempDir()})
	base := cost(t, f, 0)
	for _, step := range []struct{ factor, total float64 }{
		{2, 2}, {0.5, 1}, {1.5, 1.5}, {1.0 / 3, 0.5},
	} {
		if err := f.Disturb(all[0].Address, step.factor); err != nil {
			t.Fatal(err)
		}
		if got := cost(t, f, 0) / base; math.Abs(got/step.total-1) > 0.4 {
			t.Errorf("disturbed by %g in all, a request costs %.2f times as much", step.total, got)
		}
	}
}

func TestDisturbRejects(t *testing.T) {
	all := members(t, 20, 20)
	f := start(t, all, Options{Binary: binary(t), Dir: t.TempDir()})
	err := f.Disturb("127.0.0.1:1", 2)
	if err == nil || !strings.Contains(err.Error(), all[0].Address+", "+all[1].Address) {
		t.Errorf("unknown address: %v, want an error that lists the known ones", err)
	}
	if err := f.Disturb(all[0].Address, 1e200); err != nil {
		t.Fatal(err)
	}
	for _, factor := range []float64{0, -1, math.NaN(), math.Inf(1), 1e200} { // the last overflows
		if err := f.Disturb(all[0].Address, factor); err == nil {
			t.Errorf("factor %v was accepted", factor)
		}
	}
}
