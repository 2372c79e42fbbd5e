package predict

import (
	"errors"
	"fmt"
	"math"
	"time"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/internal/sim/policy"
)

// Bounds of what is predicted: above them a simulation takes more time and memory than a
// person waits for.
const (
	mostEndpoints = 2000
	mostWindows   = 10000
	mostProxies   = 10000
	// leastWindows is what it takes to tell noise from what stays.
	leastWindows = 3
)

// Service is a live service as it was observed.
type Service struct {
	Name string
	// Endpoints are its members. Each states its capacity.
	Endpoints []model.Endpoint
	// Windows rise in time and do not overlap; Length is how long each of them is.
	Windows []Window
	Length  time.Duration
	// Proxies is how many balance its requests, 0 if nobody knows.
	Proxies int
	// Choice is how they choose today, by its name in package policy.
	Choice string
	// Today is the latency that was measured over the windows; nil if it was not.
	Today *Latency
	// Policy is what the owner allows weights to do, and the strategy that is asked about.
	Policy balance.Policy
}

// Window is what was measured over one stretch of time.
type Window struct {
	End time.Time
	// Samples have the means over the window. What was not measured in it is missing.
	Samples model.Snapshot
}

// Latency is in seconds, of requests as clients see them.
type Latency struct{ P50, P99 float64 }

// check tells why nothing can be said about such a service.
func (s *Service) check() error {
	switch n := len(s.Endpoints); {
	case n < 2:
		return fmt.Errorf("service %q has %d endpoints: there is nothing to balance between less than 2", s.Name, n)
	case n > mostEndpoints:
		return fmt.Errorf("service %q has %d endpoints: a prediction takes up to %d", s.Name, n, mostEndpoints)
	case len(s.Windows) < leastWindows:
		return fmt.Errorf("service %q was observed over %d windows of %s: it takes %d to tell noise from what stays; observe it for longer", s.Name, len(s.Windows), s.Length, leastWindows)
	case len(s.Windows) > mostWindows:
		return fmt.Errorf("service %q was observed over %d windows: a prediction takes up to %d; take longer windows", s.Name, len(s.Windows), mostWindows)
	case s.Length < 100*time.Millisecond || s.Length > time.Hour:
		return fmt.Errorf("windows are %s long: a prediction takes 100ms to 1h", s.Length)
	case s.Proxies < 0 || s.Proxies > mostProxies:
		return fmt.Errorf("%d proxies: it takes 1 to %d, or 0 for unknown", s.Proxies, mostProxies)
	}
	for i := 1; i < len(s.Windows); i++ {
		if s.Windows[i].End.Sub(s.Windows[i-1].End) < s.Length {
			return fmt.Errorf("the windows that end at %s and %s are less than %s apart: they may not overlap",
				s.Windows[i-1].End.Format(time.RFC3339), s.Windows[i].End.Format(time.RFC3339), s.Length)
		}
	}
	if err := s.Policy.Validate(); err != nil {
		return err
	}
	if s.Choice != "" {
		if _, err := policy.Find(s.Choice); err != nil {
			return err
		}
	}
	if err := s.checkEndpoints(); err != nil {
		return err
	}
	return s.Today.check()
}

func (s *Service) checkEndpoints() error {
	known := make(map[string]bool, len(s.Endpoints))
	for _, e := range s.Endpoints {
		if e.Address == "" {
			return errors.New("an endpoint has no address")
		}
		if known[e.Address] {
			return fmt.Errorf("endpoint %s is there twice", e.Address)
		}
		known[e.Address] = true
		if !(e.Capacity >= 0.001 && e.Capacity <= 4096) {
			return fmt.Errorf("endpoint %s has a capacity of %g cores: it takes 0.001 to 4096", e.Address, e.Capacity)
		}
	}
	for _, e := range s.Endpoints {
		for _, w := range s.Windows {
			// Meters are read at slightly different times than they say.
			const slack = 1.1
			if cpu := w.Samples[e.Address].CPU; cpu.Valid() && cpu.Value > slack*e.Capacity {
				return fmt.Errorf("endpoint %s used %.3g cores over the %s until %s and has a capacity of %g: its capacity is more than that; correct it",
					e.Address, cpu.Value, s.Length, w.End.Format(time.RFC3339), e.Capacity)
			}
		}
	}
	return nil
}

func (l *Latency) check() error {
	if l == nil {
		return nil
	}
	if !(l.P50 > 0 && l.P99 > l.P50) || math.IsInf(l.P99, 1) {
		return fmt.Errorf("today's latency is p50 %g ms and p99 %g ms: it takes both, above 0 and rising", 1000*l.P50, 1000*l.P99)
	}
	return nil
}

// Within is what of a snapshot was measured in a window: a reading that is older is that
// of another window, and none of this one.
func Within(samples model.Snapshot, end time.Time, length time.Duration) model.Snapshot {
	kept := make(model.Snapshot, len(samples))
	for address, sample := range samples {
		for _, r := range []*model.Reading{&sample.CPU, &sample.Requests, &sample.InFlight} {
			age := end.Sub(r.At)
			if !r.Valid() || age < 0 || age >= length {
				*r = model.Reading{}
				continue
			}
			r.At = end
		}
		if sample.CPU.Known() || sample.Requests.Known() || sample.InFlight.Known() {
			sample.Window = length
			kept[address] = sample
		}
	}
	return kept
}
