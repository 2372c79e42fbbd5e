// Command explain measures "taper explain" on captures that it generates, beside tshark
// on the same file and fields: packets per second of one core, and memory on a stream of
// gigabytes with more than a hundred thousand connections.
//
//	go run ./test/bench/explain [-taper bin/taper] [-packets N] [-rounds N] [-stream BYTES]
//
// It prints what was measured beside what is aimed for. CPU time is compared, in rounds
// that take turns, since the clock of a busy machine says little.
package main

import (
	"context"
	"flag"
	"os"

	"taper.dev/taper/test/bench/aim"
)

// Aims of the measurements.
const (
	aimPacketsPerSecond = 1.5e6
	aimTimesTshark      = 20
	aimResident         = 300e6
)

func main() {
	p := plan{}
	flag.StringVar(&p.taper, "taper", "bin/taper", "the command to measure")
	flag.IntVar(&p.packets, "packets", 1_000_000, "packets of the file")
	flag.IntVar(&p.rounds, "rounds", 5, "how often each command is measured")
	flag.Int64Var(&p.stream, "stream", 4<<30, "bytes of the stream; 0 leaves it out")
	flag.Parse()
	aim.Main(func(ctx context.Context) error { return run(ctx, p) })
}

// plan says what is measured.
type plan struct {
	taper           string
	packets, rounds int
	stream          int64
}

func run(ctx context.Context, p plan) error {
	dir, err := os.MkdirTemp("", "taper-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := p.speed(ctx, dir); err != nil {
		return err
	}
	if p.stream == 0 {
		return nil
	}
	return p.memory(ctx)
}
