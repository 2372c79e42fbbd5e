package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/verdict"
	"taper.dev/taper/test/bench/aim"
)

// contest is a figure of a tool, and taper's for the same.
type contest struct {
	name string
	tool string // the executable
	run  func(context.Context) (float64, error)
	spec probe.Spec
	// figure is taper's, as the tool has it.
	figure    func(probe.Trial) float64
	low, high float64 // the ratio aimed for
	turns     int     // in each round; bandwidth wanders by a tenth from second to second
}

// tools compares with the tools that are installed, in turn.
func (w *world) tools(ctx context.Context, p plan) error {
	for _, c := range w.contests() {
		if _, err := exec.LookPath(c.tool); err != nil {
			fmt.Printf("%s: %s is not installed: nothing to compare with\n", c.name, c.tool)
			continue
		}
		ratios, err := w.contest(ctx, c, p.rounds*c.turns)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		want := fmt.Sprintf("%.2f–%.2f", c.low, c.high)
		if c.low == 0 {
			want = fmt.Sprintf("≤ %.2f", c.high)
		}
		ratio := aim.Median(ratios)
		aim.Row(c.name, ratio, "×", want, ratio >= c.low && ratio <= c.high)
		if sure, ok := verdict.Estimate(ratios); ok && sure.Interval != nil {
			fmt.Printf("  of %d rounds, surely %.3f to %.3f\n", len(ratios), sure.Interval.Low, sure.Interval.High)
		}
	}
	return nil
}

// contest returns taper's figure over the tool's, within each round.
func (w *world) contest(ctx context.Context, c contest, rounds int) ([]float64, error) {
	var ratios []float64
	for round := range rounds {
		var ours, theirs float64
		for turn := range 2 {
			if (round+turn)%2 == 0 {
				trial, err := w.clients[0].Run(ctx, c.spec)
				if err != nil {
					return nil, err
				}
				if trial.Incomplete != "" {
					return nil, fmt.Errorf("a trial ended early: %s", trial.Incomplete)
				}
				ours = c.figure(trial)
				continue
			}
			var err error
			if theirs, err = c.run(ctx); err != nil {
				return nil, err
			}
		}
		ratios = append(ratios, ours/theirs)
	}
	return ratios, nil
}

func (w *world) contests() []contest {
	as := func(tool probe.Tool, test probe.Test, near, far *int) probe.Spec {
		s, _ := probe.As(tool, test)
		s.Duration, s.NearCPU, s.FarCPU = contestFor, near, far
		return s
	}
	zero, one := new(int), new(int)
	*one = 1
	host, seconds := far(0).String(), strconv.Itoa(int(contestFor.Seconds()))
	// Where the kernel puts the two ends decides bandwidth more than the tool does: each
	// end has a CPU of its own, for all tools.
	all := []contest{
		{
			name: "tcp_bw as qperf", tool: "qperf", spec: as(probe.Qperf, probe.TCPBandwidth, zero, one), figure: received, low: .97, high: 1.03, turns: 8,
			run: qperf("bw", pin(0), "-lp", pinnedPorts[1], "-t", seconds, "-m", "64K", host, "tcp_bw"),
		},
		{
			name: "tcp_bw as iperf3", tool: "iperf3", spec: as(probe.Iperf3, probe.TCPBandwidth, zero, one), figure: received, low: .97, high: 1.03, turns: 8,
			run: iperf3("-A", "0,1", "-t", seconds, "-c", host),
		},
		{
			name: "tcp_bw as netperf", tool: "netperf", spec: as(probe.Netperf, probe.TCPBandwidth, zero, one), figure: received, low: .97, high: 1.03, turns: 8,
			run: netperf("-T", "0,1", "-H", host, "-t", "TCP_STREAM", "-l", seconds, "-P", "0"),
		},
	}
	for _, pinned := range []struct {
		name      string
		near, far *int
	}{{"one CPU", zero, zero}, {"two CPUs", zero, one}} {
		all = append(all, contest{
			name: "tcp_lat as qperf, pinned to " + pinned.name, tool: "qperf",
			spec: as(probe.Qperf, probe.TCPLatency, pinned.near, pinned.far), figure: halfMean, high: 1.10, turns: 1,
			run: qperf("latency", pin(*pinned.near), "-lp", pinnedPorts[*pinned.far], "-t", seconds, host, "tcp_lat"),
		})
	}
	return all
}

// pin are the words before a command that keep it on a CPU.
func pin(cpu int) []string { return []string{"taskset", "-c", strconv.Itoa(cpu)} }

// contestFor is qperf's time: its clock ticks every 10 ms.
const contestFor = time.Second

func received(t probe.Trial) float64 { return float64(t.Far.ReceivedBytes) / t.Far.Elapsed.Seconds() }

func halfMean(t probe.Trial) float64 { return t.RTT.Mean().Seconds() / 2 }

var qperfLine = regexp.MustCompile(`(?m)^\s*(bw|latency)\s*=\s*([0-9.,]+)\s*(\S+)`)

// units are qperf's, in bytes per second and seconds.
var units = map[string]float64{
	"GB/sec": 1e9, "MB/sec": 1e6, "KB/sec": 1e3, "bytes/sec": 1, "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "sec": 1,
}

// qperf runs it, after the words that pin it if there are any.
func qperf(what string, pin []string, args ...string) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		// It prints three digits by itself.
		out, err := output(ctx, slices.Concat(pin, []string{"qperf", "--precision", "6"}, args)...)
		if err != nil {
			return 0, err
		}
		m := qperfLine.FindStringSubmatch(out)
		if m == nil || m[1] != what || units[m[3]] == 0 {
			return 0, fmt.Errorf("qperf says %q", out)
		}
		v, err := strconv.ParseFloat(strings.ReplaceAll(m[2], ",", ""), 64)
		return v * units[m[3]], err
	}
}

func iperf3(args ...string) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		out, err := output(ctx, append([]string{"iperf3", "-J"}, args...)...)
		if err != nil {
			return 0, err
		}
		var said struct {
			End struct {
				Received struct {
					BitsPerSecond float64 `json:"bits_per_second"`
				} `json:"sum_received"`
			} `json:"end"`
		}
		if err := json.Unmarshal([]byte(out), &said); err != nil {
			return 0, fmt.Errorf("iperf3 says %q: %w", out, err)
		}
		return said.End.Received.BitsPerSecond / 8, nil
	}
}

func netperf(args ...string) func(context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		out, err := output(ctx, append([]string{"netperf"}, args...)...)
		if err != nil {
			return 0, err
		}
		fields := strings.Fields(out)
		if len(fields) == 0 {
			return 0, fmt.Errorf("netperf says nothing")
		}
		megabits, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		return megabits * 1e6 / 8, err
	}
}
