package nginx

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"taper.dev/taper/internal/lab/fleet"
)

// deadline is missed only by something that hangs.
const deadline = 10 * time.Second

// processesIn counts the processes whose working directory is below dir.
func processesIn(t *testing.T, dir string) int {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, link := range links {
		if cwd, err := os.Readlink(link); err == nil && strings.HasPrefix(cwd, dir+"/") {
			count++
		}
	}
	return count
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", deadline, what)
		}
	}
}

func TestAddressInUse(t *testing.T) {
	all := members(t, 20, 20)
	taken, err := net.Listen("tcp", all[1].Address)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()

	_, err = Start(t.Context(), all, Options{Binary: binary(t), Dir: dir})
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("Start = %v, want %v", err, syscall.EADDRINUSE)
	}
	if message := err.Error(); !strings.Contains(message, all[1].Address) || strings.Contains(message, "\n") {
		t.Errorf("error %q, want one line that names %s", message, all[1].Address)
	}
	if got := processesIn(t, dir); got != 0 {
		t.Errorf("%d processes left", got)
	}
}

// Another fleet of the same user must not get a share of the address.
func TestAddressInUseByAnotherFleet(t *testing.T) {
	all := members(t, 20)
	start(t, all, Options{Binary: binary(t), Dir: t.TempDir()})
	if f, err := Start(t.Context(), all, Options{Binary: binary(t), Dir: t.TempDir()}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("Start = %v, want %v", err, syscall.EADDRINUSE)
		if err == nil {
			f.Close()
		}
	}
}

func TestFailedStartLeavesNothing(t *testing.T) {
	all := members(t, 20, 20, 20)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name    string
		ctx     context.Context
		prepare func(dir string, all []fleet.Member)
		want    string
	}{
		{"a file in place of a folder", t.Context(), func(dir string, all []fleet.Member) {
			if err := os.WriteFile(filepath.Join(dir, all[1].Address), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, all[1].Address},
		{"half a core", t.Context(), func(_ string, all []fleet.Member) { all[2].Capacity = 2.5 }, "capacity 2.5"},
		{"no capacity", t.Context(), func(_ string, all []fleet.Member) { all[2].Capacity = math.NaN() }, "capacity NaN"},
		{"nginx rejects its configuration", t.Context(), func(_ string, all []fleet.Member) { all[2].Address += " nonsense" }, "nonsense"},
		{"cancelled", cancelled, func(string, []fleet.Member) {}, context.Canceled.Error()},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir, all := t.TempDir(), append([]fleet.Member(nil), all...)
			test.prepare(dir, all)
			f, err := Start(test.ctx, all, Options{Binary: binary(t), Dir: dir})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
			if err == nil {
				f.Close()
			}
			if got := processesIn(t, dir); got != 0 {
				t.Errorf("%d processes left", got)
			}
		})
	}
}

// checkNothingLeft fails if a process, a socket or a listener is left.
func checkNothingLeft(t *testing.T, all []fleet.Member, dir string) {
	t.Helper()
	if got := processesIn(t, dir); got != 0 {
		t.Errorf("%d processes left", got)
	}
	for _, m := range all {
		if err := checkFree(m.Address); err != nil {
			t.Error(err)
		}
	}
	sockets, err := filepath.Glob(filepath.Join(dir, "*", controlSocket))
	if err != nil || len(sockets) != 0 {
		t.Errorf("sockets left: %v, %v", sockets, err)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	all := members(t, 20, 20)
	all[1].Capacity = 1
	f := start(t, all, Options{Binary: binary(t), Dir: dir})
	if got := processesIn(t, dir); got != 3+2 {
		t.Errorf("%d processes, want two masters, with two workers and with one", got)
	}
	for range 2 {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	checkNothingLeft(t, all, dir)
}

// TestCloseInTheMiddleOfARequest has a worker that does not end when it is asked.
func TestCloseInTheMiddleOfARequest(t *testing.T) {
	dir := t.TempDir()
	all := members(t, 20)
	f := start(t, all, Options{Binary: binary(t), Dir: dir})
	if err := f.Disturb(all[0].Address, 1e200); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- get(all[0], 1) }()
	// Not by Usage: the worker may have accepted the question before the request.
	eventually(t, "a worker computes", func() bool {
		cpu, err := f.endpoints[0].process.CPUTime()
		if err != nil {
			t.Fatal(err)
		}
		return cpu > 500*time.Millisecond
	})

	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	checkNothingLeft(t, all, dir)
	if err := <-ended; err == nil {
		t.Error("the endless request was answered")
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

// TestWorkersEndWithTheirMaster runs nginx as it is left when taper is killed:
// the kernel ends the master, and nobody tells the workers.
func TestWorkersEndWithTheirMaster(t *testing.T) {
	in, err := locate(binary(t))
	if err != nil {
		t.Fatal(err)
	}
	parent := t.TempDir()
	dir := filepath.Join(parent, "nginx")
	if err := prepare(members(t, 20)[0], in, dir); err != nil {
		t.Fatal(err)
	}
	master := exec.Command(in.binary, "-p", dir, "-c", "nginx.conf")
	master.Dir, master.Env = dir, in.environment()
	if err := master.Start(); err != nil {
		t.Fatal(err)
	}
	workers := func() int {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", master.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return len(strings.Fields(string(children)))
	}
	// A worker that has opened its control socket's event queue follows its master.
	control := controlClient(filepath.Join(dir, controlSocket))
	eventually(t, "two workers", func() bool {
		resp, err := control.Get("http://control/requests")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil && workers() == 2
	})
	if err := master.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = master.Wait() // it was killed
	eventually(t, "the workers have ended", func() bool { return processesIn(t, parent) == 0 })
}

// TestUnpackedPackages moves the installed nginx to where only its path tells
// what belongs to it.
func TestUnpackedPackages(t *testing.T) {
	in, err := locate(binary(t))
	if err != nil {
		t.Fatal(err)
	}
	usr := filepath.Join(t.TempDir(), "usr")
	for _, dir := range []string{"sbin", "lib/nginx/modules"} {
		if err := os.MkdirAll(filepath.Join(usr, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{in.binary: "sbin/nginx", in.ndkModule: "lib/nginx/modules/ndk_http_module.so", in.luaModule: "lib/nginx/modules/ngx_http_lua_module.so"} {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(usr, to), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(usr, "share/lua/5.1"), os.DirFS(in.lua)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LD_LIBRARY_PATH", strings.Join(in.libraries, ":"))

	all := members(t, 20)
	f := start(t, all, Options{Binary: filepath.Join(usr, "sbin/nginx"), Dir: t.TempDir()})
	if err := get(all[0], 1); err != nil {
		t.Error(err)
	}
	maps, err := os.ReadFile("/proc/" + strconv.Itoa(f.endpoints[0].process.PID()) + "/maps")
	if err != nil {
		t.Fatal(err)
	}
	if module := filepath.Join(usr, "lib/nginx/modules/ngx_http_lua_module.so"); !strings.Contains(string(maps), module) {
		t.Errorf("runs without %s", module)
	}
}
