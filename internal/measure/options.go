package measure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"taper.dev/taper/internal/probe"
)

// Prober runs trials on one path. A trial that ended early comes back with what it has;
// an error without any trial means that there is nothing to keep.
type Prober interface {
	Run(context.Context, probe.Spec) (probe.Trial, error)
}

// Path is one way to be measured.
type Path struct {
	// Name tells it from the others.
	Name     string
	Kind     probe.Path
	From, To string
	// Near and Far are the hosts at its ends, as far as they are known.
	Near, Far *probe.Host
	Prober    Prober
	// Notes are what a reader of its figures must know, each a sentence.
	Notes []string
}

// Options say what is measured.
type Options struct {
	// Paths are compared with the first.
	Paths []Path
	// Specs are measured in each round.
	Specs []probe.Spec
	// RatePerS is with how many messages a second percentiles of latency are measured.
	RatePerS float64
	// Sustain is how long the trial takes that looks for shaping; 0 leaves it out.
	Sustain time.Duration
	// Tools are those whose figures are measured as they would measure them.
	Tools []probe.Tool
	// Rounds is how many there are at least, within the Budget of time. Where that allows,
	// rounds go on until a difference worth telling would show: Difference, a share, of
	// bandwidth, DifferenceLatency of latency.
	Rounds            int
	Budget            time.Duration
	Difference        float64
	DifferenceLatency time.Duration
	// Seed decides the order within rounds.
	Seed uint64
	// Progress is told what is going on; nil tells nobody.
	Progress func(string)
}

// Defaults.
const (
	DefaultTrial             = 500 * time.Millisecond
	DefaultRounds            = 10
	DefaultBudget            = time.Minute
	DefaultSustain           = 2 * time.Second
	DefaultRatePerS          = 1000
	DefaultDifference        = 0.05
	DefaultDifferenceLatency = 5 * time.Microsecond
)

// Validate says what is wrong, all at once.
func (o Options) Validate() error {
	var errs []error
	if len(o.Paths) == 0 {
		errs = append(errs, errors.New("there is no path to measure"))
	}
	names := map[string]bool{}
	for _, p := range o.Paths {
		if names[p.Name] {
			errs = append(errs, fmt.Errorf("two paths are called %q: give them names of their own, as in NAME=HOST", p.Name))
		}
		names[p.Name] = true
	}
	if len(o.Specs) == 0 {
		errs = append(errs, errors.New("there is nothing to measure"))
	}
	for _, s := range o.Specs {
		errs = append(errs, s.Validate())
	}
	if o.Rounds < 1 {
		errs = append(errs, fmt.Errorf("%d rounds are not possible: there must be at least 1", o.Rounds))
	}
	if o.Budget <= 0 {
		errs = append(errs, fmt.Errorf("a budget of %v is not possible: it must be more than 0", o.Budget))
	}
	if o.Sustain < 0 || o.Sustain > probe.MaxDuration {
		errs = append(errs, fmt.Errorf("looking for shaping for %v is not possible: it must be 0 to %v", o.Sustain, probe.MaxDuration))
	}
	if !(o.RatePerS > 0 && o.RatePerS <= probe.MaxRatePerS) {
		errs = append(errs, fmt.Errorf("%v messages per second are not possible: it must be more than 0, and at most %.0f", o.RatePerS, probe.MaxRatePerS))
	}
	if !(o.Difference > 0 && o.Difference < 1) {
		errs = append(errs, fmt.Errorf("a difference of %v is not possible: it is a share, between 0 and 1", o.Difference))
	}
	if o.DifferenceLatency <= 0 {
		errs = append(errs, fmt.Errorf("a difference of %v is not possible: it must be more than 0", o.DifferenceLatency))
	}
	return errors.Join(errs...)
}
