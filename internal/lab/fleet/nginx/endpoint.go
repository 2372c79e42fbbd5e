package nginx

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"text/template"
	"time"

	"taper.dev/taper/internal/lab/fleet"
	"taper.dev/taper/internal/lab/process"
)

var (
	//go:embed nginx.conf.tmpl
	configTemplate string
	//go:embed endpoint.lua
	program []byte
)

const (
	// controlSocket is the name of the control socket in the endpoint's folder.
	controlSocket = "control"
	// maxSocketPath is what a Unix socket's address has room for, in bytes.
	maxSocketPath = 107
	// startDeadline is far above what a start takes, even on a busy machine: 0.1 s.
	startDeadline = 20 * time.Second
	// controlDeadline bounds the wait behind the computations of a worker.
	controlDeadline = 5 * time.Second
	// maxAnswer bounds what is read from the control socket, in bytes.
	maxAnswer = 1 << 10
	// stopGrace lets the workers finish the computations they are in.
	stopGrace = 2 * time.Second
	// pollEvery is how often an address is tried that is about to be free.
	pollEvery = 5 * time.Millisecond
)

// endpoint is one member's nginx.
type endpoint struct {
	member  fleet.Member
	process *process.Process
	control *http.Client
	socket  string

	mu     sync.Mutex
	factor float64 // of the demand, as last set
}

// startEndpoint starts the member's nginx in dir, which it creates, and returns
// once it answers.
func startEndpoint(ctx context.Context, m fleet.Member, in installation, dir string) (*endpoint, error) {
	if err := prepare(m, in, dir); err != nil {
		return nil, fmt.Errorf("endpoint %s: %w", m.Address, err)
	}
	p, err := process.Start(process.Spec{
		Name: "nginx " + m.Address,
		Path: in.binary,
		Args: []string{"-p", dir, "-c", "nginx.conf"},
		Dir:  dir,
		Env:  in.environment(),
		Log:  filepath.Join(dir, "nginx.log"),
	})
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, controlSocket)
	e := &endpoint{member: m, process: p, control: controlClient(socket), socket: socket, factor: 1}
	if err := process.Await(ctx, p, e.answers, startDeadline); err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

// prepare puts what nginx needs into dir.
func prepare(m fleet.Member, in installation, dir string) error {
	if socket := filepath.Join(dir, controlSocket); len(socket) > maxSocketPath {
		return fmt.Errorf("%s has %d bytes, a Unix socket's path must not have more than %d: name a shorter temporary folder with TMPDIR", socket, len(socket), maxSocketPath)
	}
	config, err := render(m, in, os.Geteuid() == 0)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "endpoint.lua"), program, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "nginx.conf"), config, 0o600)
}

// render returns the member's nginx.conf.
func render(m fleet.Member, in installation, asRoot bool) ([]byte, error) {
	if m.Capacity != math.Trunc(m.Capacity) || !(m.Capacity >= 1 && m.Capacity <= maxWorkers) {
		return nil, fmt.Errorf("capacity %v: nginx has a worker for each core, so it must be a whole number in 1..%d", m.Capacity, maxWorkers)
	}
	t, err := template.New("nginx.conf").Parse(configTemplate)
	if err != nil {
		return nil, err
	}
	var config bytes.Buffer
	err = t.Execute(&config, struct {
		Address, Header, Socket       string
		NDKModule, LuaModule, LuaPath string
		Fib, Workers                  int
		AsRoot                        bool
	}{
		Address: m.Address, Header: fleet.EndpointHeader, Socket: controlSocket,
		NDKModule: in.ndkModule, LuaModule: in.luaModule, LuaPath: "$prefix/?.lua;" + in.lua + "/?.lua",
		Fib: m.Fib, Workers: int(m.Capacity),
		AsRoot: asRoot,
	})
	return config.Bytes(), err
}

// controlClient speaks HTTP over a Unix socket. Every request has a connection
// of its own, which goes to a worker that has time.
func controlClient(socket string) *http.Client {
	return &http.Client{
		Timeout: controlDeadline,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var dialer net.Dialer
				return dialer.DialContext(ctx, "unix", socket)
			},
		},
	}
}

// ask returns the answer to a control request. An endpoint that has died says so.
func (e *endpoint) ask(ctx context.Context, path string) (string, error) {
	answer, err := e.get(ctx, path)
	if err == nil {
		return answer, nil
	}
	if died := e.process.Err(); died != nil {
		return "", died
	}
	return "", fmt.Errorf("asking nginx %s for %s: %w", e.member.Address, path, err)
}

func (e *endpoint) get(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+controlSocket+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := e.control.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %s", resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return string(body), err
}

// answers fails until a worker is up. The address is open by then: the master
// listens before it starts the workers.
func (e *endpoint) answers(ctx context.Context) error {
	_, err := e.get(ctx, "/requests")
	return err
}

func (e *endpoint) usage(ctx context.Context) (fleet.Usage, error) {
	answer, err := e.ask(ctx, "/requests")
	if err != nil {
		return fleet.Usage{}, err
	}
	requests, err := strconv.ParseUint(answer, 10, 64)
	if err != nil {
		return fleet.Usage{}, fmt.Errorf("requests of nginx %s: %w", e.member.Address, err)
	}
	cpu, err := e.process.CPUTime()
	if err != nil {
		return fleet.Usage{}, err
	}
	return fleet.Usage{Address: e.member.Address, CPUSeconds: cpu.Seconds(), Requests: requests, At: time.Now()}, nil
}

// disturb multiplies the demand by factor, on top of earlier calls.
func (e *endpoint) disturb(factor float64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	next := e.factor * factor
	if !(next > 0) || math.IsInf(next, 1) {
		return fmt.Errorf("disturbing endpoint %s: factor %v on top of %v: want a finite number above 0", e.member.Address, factor, e.factor)
	}
	// Without an exponent, whose plus sign would have to be escaped.
	value := strconv.FormatFloat(next, 'f', -1, 64)
	if _, err := e.ask(context.Background(), "/factor?value="+value); err != nil {
		return err
	}
	e.factor = next
	return nil
}

// close ends nginx. When it has to be killed, it leaves the socket behind, and the
// workers end a moment after the master.
func (e *endpoint) close() error {
	e.process.Stop(stopGrace)
	for range stopGrace / pollEvery {
		if !errors.Is(checkFree(e.member.Address), syscall.EADDRINUSE) {
			break
		}
		time.Sleep(pollEvery)
	}
	if err := os.Remove(e.socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("endpoint %s: %w", e.member.Address, err)
	}
	return nil
}
