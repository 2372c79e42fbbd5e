package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"

	"taper.dev/taper/internal/sim"
	"taper.dev/taper/internal/sim/policy"
	"taper.dev/taper/internal/sim/scenario"
	"taper.dev/taper/test/bench/aim"
)

// The weights of the large service.
const (
	equal   = "equal"
	unequal = "unequal"
)

// memory measures the large service in processes of their own, whose memory is nobody else's.
func (p plan) memory(ctx context.Context) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	for _, weights := range []string{equal, unequal} {
		cmd := exec.CommandContext(ctx, program, "-alone", weights, "-large", strconv.Itoa(p.large))
		out, err := output(cmd)
		if err != nil {
			return err
		}
		var l load
		if err := json.Unmarshal(out, &l); err != nil {
			return fmt.Errorf("measuring the large service: it says %q: %w", out, err)
		}
		cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		resident := float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) * 1024
		fmt.Printf("%d endpoints, %d proxies, %d requests, least-request, %s weights\n", l.Endpoints, l.Proxies, l.Requests, weights)
		aim.Row("CPU time, with the start of the process", cpu.Seconds(), "s", "≤ 60 s", cpu.Seconds() <= aimLargeSeconds)
		aim.Row("resident memory, highest", resident/1e6, "MB", "≤ 2000 MB", resident <= aimLargeBytes)
	}
	return nil
}

// load is what was simulated.
type load struct{ Endpoints, Proxies, Requests uint64 }

// measureLarge simulates the large service in this process and prints how large it was.
func (p plan) measureLarge(ctx context.Context) error {
	s, err := scenario.Open("large")
	if err != nil {
		return err
	}
	kind, err := policy.Find("least-request")
	if err != nil {
		return err
	}
	service := &s.Service
	service.WarmUp, service.Measure = 0, float64(p.large)/service.Arrivals.Rate(0)
	t := sim.Trial{Service: service, NewPolicy: kind.New, Steps: 100}
	switch p.alone {
	case equal:
	case unequal:
		t.Weigher = &sim.Weigher{Fixed: equalLoad(service.Servers)}
		if slices.Min(t.Weigher.Fixed) == slices.Max(t.Weigher.Fixed) {
			return errors.New("the endpoints of the scenario large are alike: there is no reason for weights")
		}
	default:
		return fmt.Errorf("-alone is %q: it must be %s or %s", p.alone, equal, unequal)
	}
	r, err := sim.Run(ctx, t)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(load{uint64(len(service.Servers)), uint64(service.Proxies), r.Requests})
}

// equalLoad are the weights at which all servers have the same utilization.
func equalLoad(servers []sim.Server) []uint32 {
	const mean = 100
	speeds, sum := make([]float64, len(servers)), 0.0
	for i, s := range servers {
		speeds[i] = s.Cores / s.Demand.Mean()
		sum += speeds[i]
	}
	weights := make([]uint32, len(servers))
	for i, speed := range speeds {
		weights[i] = uint32(max(1, math.Round(mean*speed/sum*float64(len(servers)))))
	}
	return weights
}
