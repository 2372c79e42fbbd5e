package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"taper.dev/taper/internal/lab/process"
	"taper.dev/taper/test/cluster"
)

const (
	subjectReadyWithin = 5 * time.Minute
	subjectStopWithin  = 10 * time.Second
)

// subject is the operator that is measured: the real executable, which takes the
// lease and leads.
type subject struct {
	*process.Process
	url    string // of its metrics
	health string
}

func startSubject(c *cluster.Cluster, source string, p plan) (*subject, error) {
	binary, err := process.Lookup(p.operator, `build it with "make build", or name it with -operator`)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := c.KubeconfigFor(cluster.Admin)
	if err != nil {
		return nil, err
	}
	metrics, err := freeAddress()
	if err != nil {
		return nil, err
	}
	health, err := freeAddress()
	if err != nil {
		return nil, err
	}
	environment := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "GOGC=") || strings.HasPrefix(v, "GOMEMLIMIT=") // those of its surroundings
	})
	environment = append(environment, "KUBECONFIG="+kubeconfig)
	if p.memoryLimit != "" {
		environment = append(environment, "GOMEMLIMIT="+p.memoryLimit)
	}
	child, err := process.Start(process.Spec{
		Name: "taper-operator", Path: binary, Env: environment, Log: filepath.Join(c.Dir(), "taper-operator.log"),
		Args: []string{
			"--metrics-bind-address=" + metrics, "--health-probe-bind-address=" + health,
			"--leader-election-namespace=default", "--source-type=VictoriaMetrics", "--source-url=" + source,
		},
	})
	if err != nil {
		return nil, err
	}
	return &subject{child, "http://" + metrics, "http://" + health}, nil
}

// awaitReady returns when it has read the cluster.
func (s *subject) awaitReady(ctx context.Context) error {
	return process.Await(ctx, s.Process, func(ctx context.Context) error {
		return get(ctx, s.health+"/readyz", io.Discard)
	}, subjectReadyWithin)
}

// memory is what is resident, and the most that was since forgetPeak, in bytes.
func (s *subject) memory() (now, peak int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
	if err != nil {
		return 0, 0, fmt.Errorf("reading the operator's memory: %w", err)
	}
	if now, err = field(string(text), "VmRSS:"); err != nil {
		return 0, 0, err
	}
	peak, err = field(string(text), "VmHWM:")
	return now, peak, err
}

// field finds a line such as "VmRSS:     1234 kB".
func field(status, name string) (int64, error) {
	_, rest, found := strings.Cut("\n"+status, "\n"+name)
	line, _, _ := strings.Cut(rest, "\n")
	kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(line, " kB")), 10, 64)
	if !found || err != nil {
		return 0, fmt.Errorf("reading the operator's memory: no number at %s %q", name, line)
	}
	return kib << 10, nil
}

// forgetPeak lets the highest resident memory begin anew.
func (s *subject) forgetPeak() error {
	const peak = "5" // see proc_pid_clear_refs(5)
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.PID()), []byte(peak), 0); err != nil {
		return fmt.Errorf("starting a new peak of the operator's memory: %w", err)
	}
	return nil
}
