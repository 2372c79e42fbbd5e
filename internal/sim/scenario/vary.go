package scenario

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"taper.dev/taper/internal/sim"
)

// Parameter is something that a sweep can vary.
type Parameter struct {
	Name string
	// About says what its values are.
	About           string
	least, greatest float64
	// vary changes a copy whose slices and weighers are its own.
	vary func(s *Scenario, value float64) error
}

// Parameters lists them.
var Parameters = []Parameter{
	{"load", "what the rate is multiplied by", 1e-6, maxFactor, varyLoad},
	{"heterogeneity", "0 makes all demands alike, 1 leaves them as they are, 2 makes their ratios squares", 0, 10, varyHeterogeneity},
	{"proxies", "how many balance", 1, maxProxies, varyProxies},
	{"interval", "seconds between decisions; what is in multiples of it goes along", leastInterval, maxInterval, varyInterval},
	{"metric-delay", "seconds that samples are old when they are read", 0, maxSeconds, varyDelay},
}

// Vary is the scenario with another value of a parameter. Errors list the parameters that
// there are. Static weights are set anew.
func (s *Scenario) Vary(parameter string, value float64) (*Scenario, error) {
	known := make([]string, len(Parameters))
	for i, p := range Parameters {
		known[i] = p.Name
		if p.Name != parameter {
			continue
		}
		if !(value >= p.least && value <= p.greatest) { // NaN fails too
			return nil, fmt.Errorf("%s is %g: it must be in %g..%g", p.Name, value, p.least, p.greatest)
		}
		varied := s.clone()
		if err := p.vary(varied, value); err != nil {
			return nil, fmt.Errorf("%s %g: %w", p.Name, value, err)
		}
		if err := varied.resettle(); err != nil {
			return nil, fmt.Errorf("%s %g: %w", p.Name, value, err)
		}
		return varied, nil
	}
	return nil, fmt.Errorf("unknown parameter %q: it is one of %s", parameter, strings.Join(known, ", "))
}

// clone is a copy that can be changed in what is varied.
func (s *Scenario) clone() *Scenario {
	c := *s
	c.Service.Servers = slices.Clone(s.Service.Servers)
	c.Arms = slices.Clone(s.Arms)
	for i := range c.Arms {
		if w := c.Arms[i].Weigher; w != nil {
			own := *w
			c.Arms[i].Weigher = &own
		}
	}
	return &c
}

// resettle sets static weights for what the service is now.
func (s *Scenario) resettle() error {
	for i := range s.Arms {
		w := s.Arms[i].Weigher
		if w == nil || w.Fixed == nil || w.Decide == nil {
			continue
		}
		fixed, err := settle(&s.Service, w)
		if err != nil {
			return fmt.Errorf("arm %s: %w", s.Arms[i].Name, err)
		}
		w.Fixed = fixed
	}
	return nil
}

func varyLoad(s *Scenario, factor float64) error {
	if n := factor * requests(s.Service.Arrivals, s.Service.WarmUp+s.Service.Measure); n > maxRequests {
		return fmt.Errorf("that makes some %.2g requests: the most are %.0e", n, float64(maxRequests))
	}
	switch a := s.Service.Arrivals.(type) {
	case sim.Poisson:
		a = slices.Clone(a)
		for i := range a {
			a[i].Rate *= factor
		}
		s.Service.Arrivals = a
	case sim.Regular:
		s.Service.Arrivals = a * sim.Regular(factor)
	case sim.Trace:
		a = slices.Clone(a)
		for i := range a {
			a[i] /= factor
		}
		s.Service.Arrivals = a
	default:
		return fmt.Errorf("arrivals are %T, whose rate cannot be varied", a)
	}
	return nil
}

// varyHeterogeneity makes each mean demand d into g·(d/g)^h, with g their geometric mean
// over all servers.
func varyHeterogeneity(s *Scenario, h float64) error {
	servers := s.Service.Servers
	var logs float64
	for i := range servers {
		logs += math.Log(servers[i].Demand.Mean()) / float64(len(servers))
	}
	g := math.Exp(logs)
	for i := range servers {
		mean := servers[i].Demand.Mean()
		if varied := g * math.Pow(mean/g, h); varied >= leastDemand && varied <= maxDemand {
			servers[i].Demand = sim.Scaled{Demand: servers[i].Demand, Factor: varied / mean}
			continue
		}
		return fmt.Errorf("the demand of %s would be out of %s..%s", servers[i].Address, seconds(leastDemand), seconds(maxDemand))
	}
	return nil
}

func varyProxies(s *Scenario, count float64) error {
	if count != math.Trunc(count) {
		return errors.New("it takes a whole number")
	}
	s.Service.Proxies = int(count)
	return nil
}

// varyInterval keeps what is set in multiples of the interval in proportion to it.
func varyInterval(s *Scenario, seconds float64) error {
	return s.loops(func(w *sim.Weigher) error {
		p := &w.Policy
		interval := time.Duration(seconds * float64(time.Second))
		factor := float64(interval) / float64(p.Interval)
		p.Interval = interval
		for _, d := range []*time.Duration{&p.Ramp, &p.MaxAge, &p.ReleaseAfter} {
			*d = time.Duration(math.Round(float64(*d) * factor))
		}
		return p.Validate()
	})
}

func varyDelay(s *Scenario, seconds float64) error {
	return s.loops(func(w *sim.Weigher) error {
		w.Delay = seconds
		return nil
	})
}

// loops calls a function for each control loop, of which there must be one.
func (s *Scenario) loops(change func(*sim.Weigher) error) error {
	found := false
	for i := range s.Arms {
		w := s.Arms[i].Weigher
		if w == nil || w.Fixed != nil {
			continue
		}
		found = true
		if err := change(w); err != nil {
			return fmt.Errorf("arm %s: %w", s.Arms[i].Name, err)
		}
	}
	if !found {
		return errors.New("no arm has a control loop that it could matter to")
	}
	return nil
}
