package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

//go:embed simpy.txt
var requirements []byte

//go:embed queue.py
var program []byte

// simPy is an interpreter that has SimPy.
type simPy struct{ python, packages, program string }

// installSimPy puts the pinned version into a folder of its own, which nothing else sees.
func installSimPy(ctx context.Context, dir string) (*simPy, error) {
	python, err := exec.LookPath("python3")
	if err != nil {
		return nil, err
	}
	s := &simPy{python, filepath.Join(dir, "packages"), filepath.Join(dir, "queue.py")}
	list := filepath.Join(dir, "simpy.txt")
	for path, text := range map[string][]byte{list: requirements, s.program: program} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return nil, err
		}
	}
	_, err = output(exec.CommandContext(ctx, python, "-m", "pip", "--quiet", "--disable-pip-version-check", "--timeout", "30", "--retries", "2",
		"install", "--no-deps", "--only-binary=:all:", "--require-hashes", "--requirement", list, "--target", s.packages))
	return s, err
}

// queue simulates customers who queue, and returns how many a second of CPU time is enough
// for, and how long they wait on average, in stretches.
func (s *simPy) queue(ctx context.Context, customers int, seed uint64) (speed float64, waits []float64, err error) {
	args := []string{s.program, strconv.Itoa(customers), strconv.Itoa(cores), strconv.FormatFloat(utilization, 'g', -1, 64), strconv.FormatUint(seed, 10)}
	cmd := exec.CommandContext(ctx, s.python, args...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+s.packages)
	out, err := output(cmd)
	if err != nil {
		return 0, nil, err
	}
	var said struct {
		CPU   float64   `json:"cpu_s"`
		Waits []float64 `json:"mean_waits"`
	}
	if err := json.Unmarshal(out, &said); err != nil {
		return 0, nil, fmt.Errorf("SimPy says %q: %w", out, err)
	}
	if said.CPU <= 0 || len(said.Waits) == 0 {
		return 0, nil, fmt.Errorf("SimPy says %q: there must be CPU time and waiting times", out)
	}
	return float64(customers) / said.CPU, said.Waits, nil
}

// output runs a command and returns what it prints.
func output(cmd *exec.Cmd) ([]byte, error) {
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("running %s: %w: %s", filepath.Base(cmd.Path), err, strings.TrimSpace(said.String()))
	}
	return out, nil
}
