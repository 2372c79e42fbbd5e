package nginx

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"time"

	"taper.dev/taper/internal/lab/fleet"
	"taper.dev/taper/internal/lab/process"
)

//go:embed nginx.conf.tmpl
var configText string

// socket is the control socket's name in the endpoint's folder.
const socket = "control.sock"

// endpoint is one member's nginx.
type endpoint struct {
	member  fleet.Member
	process *process.Process
	control *http.Client

	mu     sync.Mutex
	factor float64 // of the member's demand, as last set
}

// startEndpoint starts the member's nginx in dir, a folder it creates.
func startEndpoint(m fleet.Member, install installation, dir string) (*endpoint, error) {
	config, err := render(m, install, os.Geteuid() == 0)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of endpoint %s: %w", m.Address, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), config, 0o644); err != nil {
		return nil, fmt.Errorf("configuring endpoint %s: %w", m.Address, err)
	}
	p, err := process.Start(process.Spec{
		Name: "nginx " + m.Address,
		Path: install.binary,
		Args: []string{"-p", dir, "-c", "nginx.conf", "-e", "stderr"},
		Dir:  dir,
		Env:  install.environment(),
		Log:  filepath.Join(dir, "nginx.log"),
	})
	if err != nil {
		return nil, err
	}
	return &endpoint{member: m, process: p, control: controlClient(filepath.Join(dir, socket)), factor: 1}, nil
}

// parameters fill in nginx.conf.tmpl.
type parameters struct {
	Address      string
	Fib          int
	Header       string // names the endpoint in responses
	User         string // empty where nginx cannot change users
	Modules, Lua string // folders
	Socket       string
}

// render configures the member's nginx.
func render(m fleet.Member, install installation, asRoot bool) ([]byte, error) {
	t, err := template.New("nginx.conf").Parse(configText)
	if err != nil {
		return nil, err
	}
	params := parameters{
		Address: m.Address,
		Fib:     m.Fib,
		Header:  fleet.EndpointHeader,
		Modules: install.modules,
		Lua:     install.lua,
		Socket:  socket,
	}
	if asRoot {
		params.User = "root" // the default user may not read an unpacked package
	}
	var config bytes.Buffer
	err = t.Execute(&config, params)
	return config.Bytes(), err
}

// controlClient speaks HTTP over a unix socket. Each request has a connection
// of its own, which goes to a worker that is free.
func controlClient(path string) *http.Client {
	var dialer net.Dialer
	return &http.Client{
		Timeout: controlDeadline,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, "unix", path)
			},
		},
	}
}

// ask returns the answer to a control request.
func (e *endpoint) ask(ctx context.Context, path string) (string, error) {
	answer, err := e.tryAsk(ctx, path)
	if err == nil {
		return answer, nil
	}
	if died := e.process.Err(); died != nil {
		return "", died
	}
	return "", fmt.Errorf("asking nginx %s for %s: %w", e.member.Address, path, err)
}

func (e *endpoint) tryAsk(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://control"+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := e.control.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %s", resp.Status)
	}
	return strings.TrimSpace(string(body)), nil
}

// ready fails until the endpoint answers.
func (e *endpoint) ready(ctx context.Context) error {
	_, err := e.tryAsk(ctx, "/requests")
	return err
}

func (e *endpoint) usage(ctx context.Context) (fleet.Usage, error) {
	answer, err := e.ask(ctx, "/requests")
	if err != nil {
		return fleet.Usage{}, err
	}
	requests, err := strconv.ParseUint(answer, 10, 64)
	if err != nil {
		return fleet.Usage{}, fmt.Errorf("nginx %s counts requests: %w", e.member.Address, err)
	}
	cpu, err := e.process.CPUTime()
	if err != nil {
		return fleet.Usage{}, err
	}
	return fleet.Usage{
		Address:    e.member.Address,
		CPUSeconds: cpu.Seconds(),
		Requests:   requests,
		At:         time.Now(),
	}, nil
}

// disturb multiplies the demand by factor, on top of earlier calls.
func (e *endpoint) disturb(factor float64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	next := e.factor * factor
	value := strconv.FormatFloat(next, 'g', -1, 64)
	if _, err := e.ask(context.Background(), "/factor?value="+url.QueryEscape(value)); err != nil {
		return err
	}
	e.factor = next
	return nil
}

func (e *endpoint) close() { e.process.Stop(stopGrace) }
