// Command net measures "taper net" between two networks of this machine, beside qperf,
// iperf3 and netperf where they are installed: bandwidth, latency, whether small
// differences are told and absent ones are not, and whether shaping is found.
//
//	sudo go run ./test/bench/net [-taper bin/taper] [-rounds N] [-same N]
//
// It prints what was measured beside what is aimed for. Programs that are compared take
// turns, and ratios are medians over rounds, since a busy machine says little else.
package main

import (
	"context"
	"flag"

	"taper.dev/taper/internal/lab/netns"
	"taper.dev/taper/test/bench/aim"
)

// plan says what is measured.
type plan struct {
	taper  string
	rounds int // of each comparison with a tool
	same   int // comparisons of a path with itself
	long   int // trials that look for shaping where there is none
}

func main() {
	p := plan{}
	flag.StringVar(&p.taper, "taper", "bin/taper", "the command to measure")
	flag.IntVar(&p.rounds, "rounds", 9, "how often each tool takes its turn")
	flag.IntVar(&p.same, "same", 100, "how often a path is compared with itself")
	flag.IntVar(&p.long, "long", 20, "how often shaping is looked for where there is none")
	flag.Parse()
	aim.Main(func(ctx context.Context) error { return run(ctx, p) })
}

func run(ctx context.Context, p plan) error {
	if err := netns.Enter(); err != nil {
		return err
	}
	w, err := newWorld(ctx, p.taper)
	if err != nil {
		return err
	}
	defer w.Close()
	for _, step := range []func(context.Context, plan) error{w.tools, w.differences, w.sameness, w.shaping} {
		if err := step(ctx, p); err != nil {
			return err
		}
	}
	return nil
}
