// Command sim measures the simulator: requests per second of one core for the experiment's
// service, time and memory of one with thousands of endpoints and proxies, and how many times
// as fast as SimPy it is at the same queue.
//
//	go run ./test/bench/sim [-rounds N] [-customers N] [-simpy N] [-large N]
//
// It prints what was measured beside what is aimed for. CPU time is measured, in rounds that
// take turns, since the clock of a busy machine says little. Whether both programs simulate
// the same queue is seen in their mean waiting times, which must be Erlang's.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"taper.dev/taper/test/bench/aim"
)

// Aims of the measurements.
const (
	aimRequestsPerSecond = 2e6
	aimLargeSeconds      = 60
	aimLargeBytes        = 2e9
	aimTimesSimPy        = 100
)

// plan says what is measured.
type plan struct {
	rounds    int
	customers int // of taper's queue, in each round
	simpy     int // of SimPy's
	large     int // requests of the large service
	// alone is the measurement of the large service that this process is for.
	alone string
}

func main() {
	p := plan{}
	flag.IntVar(&p.rounds, "rounds", 5, "how often each is measured")
	flag.IntVar(&p.customers, "customers", 4_000_000, "customers of the queue in taper, each round")
	flag.IntVar(&p.simpy, "simpy", 200_000, "customers of the queue in SimPy, each round")
	flag.IntVar(&p.large, "large", 10_000_000, "requests of the large service; 0 leaves it out")
	flag.StringVar(&p.alone, "alone", "", "measure only the large service, with weights that are equal or unequal, and print JSON")
	flag.Parse()
	aim.Main(func(ctx context.Context) error { return run(ctx, p) })
}

func run(ctx context.Context, p plan) error {
	if p.alone != "" {
		return p.measureLarge(ctx)
	}
	if p.rounds < 1 || p.customers < 1000 || p.simpy < 1000 || p.large < 0 {
		return fmt.Errorf("-rounds must be 1 or more, -customers and -simpy 1000 or more, -large not negative")
	}
	dir, err := os.MkdirTemp("", "taper-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := p.speed(ctx, dir); err != nil {
		return err
	}
	if p.large == 0 {
		return nil
	}
	return p.memory(ctx)
}
