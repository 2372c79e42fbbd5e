// Command operator measures taper-operator on a large cluster: a real API server
// with many policies and their pods, and a real VictoriaMetrics with their samples.
//
// What comes in: sizes, by flags. What goes out: a table of what was measured beside
// what is aimed for, on standard output. Nothing fails because of a bound that is
// missed: it is printed, not hidden. Times of a busy machine say little, so that CPU
// time is measured where it can be, and the table ends with who used the machine.
//
// Start with [bench.measure] in measure.go, which goes through the phases. world.go
// has the objects, store.go the samples, subject.go the operator, follow.go watches
// what it writes, churn.go changes endpoints, and result.go prints.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"taper.dev/taper/test/cluster"
)

// plan is what is measured.
type plan struct {
	operator    string // executable
	policies    int
	endpoints   int // of each policy's service
	namespaces  int
	interval    time.Duration
	cycles      int // that the steady state is measured for
	changes     int // of endpoints, a second
	changing    time.Duration
	memoryLimit string
	json        bool
}

func parse(args []string) (plan, error) {
	var p plan
	set := flag.NewFlagSet("operator", flag.ContinueOnError)
	set.StringVar(&p.operator, "operator", "bin/taper-operator", "executable to measure")
	set.IntVar(&p.policies, "policies", 1000, "policies, each for a service of its own")
	set.IntVar(&p.endpoints, "endpoints", 100, "endpoints of each service")
	set.IntVar(&p.namespaces, "namespaces", 20, "namespaces that they are spread over")
	set.DurationVar(&p.interval, "interval", 30*time.Second, "interval of the policies")
	set.IntVar(&p.cycles, "cycles", 4, "control cycles to measure while nothing changes")
	set.IntVar(&p.changes, "changes", 100, "changes of endpoints a second")
	set.DurationVar(&p.changing, "for", time.Minute, "how long endpoints change")
	set.StringVar(&p.memoryLimit, "memory-limit", "691MiB", "GOMEMLIMIT of the operator, by default the chart's; empty for none")
	set.BoolVar(&p.json, "json", false, "print JSON")
	if err := set.Parse(args); err != nil {
		return p, err
	}
	if set.NArg() > 0 {
		return p, fmt.Errorf("unknown argument %q", set.Arg(0))
	}
	return p, p.validate()
}

func (p plan) validate() error {
	for _, b := range []struct {
		name            string
		value, low, top int
	}{
		{"policies", p.policies, 1, 10_000},
		{"endpoints", p.endpoints, 4, 1000}, // an EndpointSlice has 1000 at most
		{"namespaces", p.namespaces, 1, 200},
		{"cycles", p.cycles, 1, 1000},
		{"changes", p.changes, 1, 10_000},
	} {
		if b.value < b.low || b.value > b.top {
			return fmt.Errorf("-%s %d: want %d to %d", b.name, b.value, b.low, b.top)
		}
	}
	if p.interval < 5*time.Second || p.interval > time.Hour {
		return fmt.Errorf("-interval %s: want 5s to 1h", p.interval)
	}
	if p.changing < time.Second || p.changing > time.Hour {
		return fmt.Errorf("-for %s: want 1s to 1h", p.changing)
	}
	return nil
}

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench-operator:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	plan, err := parse(args)
	if err != nil {
		return err
	}
	// With a network and a folder of its own nothing is left behind, whatever happens.
	if err := cluster.Isolate(); err != nil {
		fmt.Fprintln(os.Stderr, "not isolated:", err)
	}
	klog.SetLogger(logr.FromSlogHandler(slog.DiscardHandler)) // clients repeat what their errors say
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	result, err := measure(ctx, plan)
	if err != nil {
		return err
	}
	if plan.json {
		return result.writeJSON(os.Stdout)
	}
	return result.writeTable(os.Stdout)
}
