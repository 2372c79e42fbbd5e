package nginx

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/lab/fleet"
	"taper.dev/taper/internal/model"
)

var update = flag.Bool("update", false, "write the golden files")

var _ fleet.Fleet = (*Fleet)(nil)

// binary is the nginx to test with.
func binary(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("nginx")
	if err == nil {
		_, err = locate(Options{Binary: path})
	}
	if err == nil {
		return path
	}
	if os.Getenv("TAPER_TEST_REQUIRE_ALL") == "1" {
		t.Fatal(err)
	}
	t.Skipf("%v: install nginx and libnginx-mod-http-lua", err)
	return ""
}

// members have free ports of the loopback network, so that tests do not meet a
// running lab.
func members(t *testing.T, fibs ...int) []fleet.Member {
	t.Helper()
	var all []fleet.Member
	for i, fib := range fibs {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.2.%d:0", i+1))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fleet.Member{Endpoint: model.Endpoint{Address: l.Addr().String(), Capacity: 2}, Fib: fib})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
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

// fibonacci has the number that a member with that Fib answers.
var fibonacci = map[int]string{20: "6765\n", 25: "75025\n", 27: "196418\n", 29: "514229\n"}

// get sends count requests one after the other and checks the answers.
func get(t *testing.T, m fleet.Member, count int) {
	t.Helper()
	for range count {
		resp, err := http.Get("http://" + m.Address + "/any/path")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: status %s, %v", m.Address, resp.Status, err)
		}
		if got := resp.Header.Get(fleet.EndpointHeader); got != m.Address {
			t.Fatalf("%s: header %s = %q", m.Address, fleet.EndpointHeader, got)
		}
		if got := string(body); got != fibonacci[m.Fib] {
			t.Fatalf("%s: fib(%d) = %q, want %q", m.Address, m.Fib, got, fibonacci[m.Fib])
		}
	}
}

func usage(t *testing.T, f *Fleet) []fleet.Usage {
	t.Helper()
	u, err := f.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// perRequest is the CPU time between two readings, in seconds per request.
func perRequest(before, after fleet.Usage) float64 {
	return (after.CPUSeconds - before.CPUSeconds) / float64(after.Requests-before.Requests)
}

func TestUsageFollowsDemand(t *testing.T) {
	all := members(t, 25, 29)
	f := start(t, all, Options{Binary: binary(t), Dir: t.TempDir()})
	if diff := cmp.Diff(all, f.Members()); diff != "" {
		t.Errorf("Members() (-want +got):\n%s", diff)
	}

	const count = 30
	before := usage(t, f)
	for _, m := range all {
		get(t, m, count)
	}
	after := usage(t, f)
	for i, m := range all {
		if after[i].Address != m.Address {
			t.Errorf("usage %d is of %s, want %s", i, after[i].Address, m.Address)
		}
		if got := after[i].Requests - before[i].Requests; got != count {
			t.Errorf("%s: counts %d requests, want %d", m.Address, got, count)
		}
		if !after[i].At.After(before[i].At) {
			t.Errorf("%s: read at %v and then at %v", m.Address, before[i].At, after[i].At)
		}
	}
	// The golden ratio to the fourth is 6.9; what every request costs besides lowers it.
	ratio := perRequest(before[1], after[1]) / perRequest(before[0], after[0])
	if ratio < 3 || ratio > 10 {
		t.Errorf("fib(29) costs %.1f times fib(25), want 3..10", ratio)
	}
}

// Both workers count into one counter.
func TestConcurrentRequestsAreAllCounted(t *testing.T) {
	all := members(t, 20)
	f := start(t, all, Options{Binary: binary(t), Dir: t.TempDir()})
	t.Run("clients", func(t *testing.T) {
		for range 8 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				get(t, all[0], 25)
			})
		}
	})
	if got := usage(t, f)[0].Requests; got != 200 {
		t.Errorf("counts %d requests, want 200", got)
	}
}

func TestReadingUsageIsNoRequest(t *testing.T) {
	f := start(t, members(t, 20), Options{Binary: binary(t), Dir: t.TempDir()})
	for range 5 {
		if got := usage(t, f)[0].Requests; got != 0 {
			t.Fatalf("%d requests before any", got)
		}
	}
}

func TestDisturb(t *testing.T) {
	all := members(t, 27)
	f := start(t, all, Options{Binary: binary(t), Dir: t.TempDir()})

	// cost is the CPU time per request.
	cost := func() float64 {
		before := usage(t, f)
		get(t, all[0], 40)
		return perRequest(before[0], usage(t, f)[0])
	}
	cost() // the first requests compile the function
	base := cost()
	for _, step := range []struct{ factor, total float64 }{
		{2, 2}, {1.5, 3}, {1.0 / 6, 0.5},
	} {
		if err := f.Disturb(all[0].Address, step.factor); err != nil {
			t.Fatal(err)
		}
		if got := cost() / base; math.Abs(got/step.total-1) > 0.35 {
			t.Errorf("disturbed by %g in all, a request costs %.2f times as much", step.total, got)
		}
	}
}

func TestDisturbRefuses(t *testing.T) {
	all := members(t, 20, 20)
	f := start(t, all, Options{Binary: binary(t), Dir: t.TempDir()})
	for _, factor := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if err := f.Disturb(all[0].Address, factor); err == nil {
			t.Errorf("a factor of %v is accepted", factor)
		}
	}
	err := f.Disturb("127.0.0.1:1", 2)
	want := "no endpoint 127.0.0.1:1 to disturb, there are " + all[0].Address + ", " + all[1].Address
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// processesIn counts the processes whose working directory is below dir.
func processesIn(t *testing.T, dir string) int {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, link := range links {
		if cwd, err := os.Readlink(link); err == nil && strings.HasPrefix(cwd, dir) {
			count++
		}
	}
	return count
}

func TestCloseLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	all := members(t, 20, 20)
	f := start(t, all, Options{Binary: binary(t), Dir: dir})
	if got := processesIn(t, dir); got != 6 {
		t.Errorf("%d processes for two endpoints, want 2 masters and 4 workers", got)
	}
	for range 2 {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := processesIn(t, dir); got != 0 {
		t.Errorf("%d processes left", got)
	}
	if err := checkFree(all); err != nil {
		t.Error(err)
	}
}

func TestUsageNamesADeadEndpoint(t *testing.T) {
	all := members(t, 20, 20)
	f := start(t, all, Options{Binary: binary(t), Dir: t.TempDir()})
	p := f.endpoints[1].process
	if err := syscall.Kill(p.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	_, err := f.Usage(t.Context())
	if want := "nginx " + all[1].Address + " died: signal: killed"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s…", err, want)
	}
}

// When taper itself is killed, the kernel ends the masters only.
func TestWorkersEndWithTheirMaster(t *testing.T) {
	install, err := locate(Options{Binary: binary(t)})
	if err != nil {
		t.Fatal(err)
	}
	config, err := render(members(t, 20)[0], install, os.Geteuid() == 0)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), config, 0o644); err != nil {
		t.Fatal(err)
	}
	master := exec.Command(install.binary, "-p", dir, "-c", "nginx.conf", "-e", "stderr")
	master.Dir = dir
	master.Env = install.environment()
	if err := master.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a master and two workers", func() bool { return processesIn(t, dir) == 3 })
	if err := master.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = master.Wait() // it was killed
	eventually(t, "the workers have ended", func() bool { return processesIn(t, dir) == 0 })
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within 5s: %s", what)
}

func TestAddressInUse(t *testing.T) {
	dir := t.TempDir()
	all := members(t, 20, 20)
	l, err := net.Listen("tcp", all[1].Address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := Start(t.Context(), all, Options{Binary: binary(t), Dir: dir})
	want := "endpoint address " + all[1].Address + " is in use: end what listens there, such as another lab"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if f != nil {
		t.Error("got a fleet and an error")
	}
	if got := processesIn(t, dir); got != 0 {
		t.Errorf("%d processes left", got)
	}
}

func TestFailedStartLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	all := members(t, 20, 20)
	// The second endpoint's folder is taken by a file.
	if err := os.WriteFile(filepath.Join(dir, all[1].Address), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), all, Options{Binary: binary(t), Dir: dir}); err == nil || !strings.Contains(err.Error(), all[1].Address) {
		t.Errorf("got %v, want an error that names %s", err, all[1].Address)
	}
	if got := processesIn(t, dir); got != 0 {
		t.Errorf("%d processes left", got)
	}
}

func TestCancelledStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	if _, err := Start(ctx, members(t, 20), Options{Binary: binary(t), Dir: dir}); err == nil {
		t.Error("started")
	}
	if got := processesIn(t, dir); got != 0 {
		t.Errorf("%d processes left", got)
	}
}
