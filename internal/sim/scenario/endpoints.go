package scenario

import (
	"fmt"

	"taper.dev/taper/internal/sim"
)

// servers are all endpoints, numbered within their kinds.
func (r *reader) servers() ([]sim.Server, error) {
	if len(r.Endpoints) == 0 {
		return nil, r.Errorf("endpoints", "is missing: name at least one, such as {count: 3, cores: 2, demand: 5ms}")
	}
	var servers []sim.Server
	kinds := map[string]*kind{}
	for i := range r.Endpoints {
		path, e := fmt.Sprintf("endpoints[%d]", i), &r.Endpoints[i]
		like, err := r.server(path, e)
		if err != nil {
			return nil, err
		}
		k := kinds[like.Kind]
		if k == nil {
			k = &kind{of: e}
			kinds[like.Kind] = k
		} else if !k.of.alike(e) {
			return nil, r.Errorf(path+".kind", "is %q again, and not the same: endpoints of one kind are alike, so give it another", like.Kind)
		} else {
			like.Demand = k.demand // one value for all, so that it is kept once
		}
		k.demand = like.Demand
		count := value(e.Count, 1)
		if count < 1 || len(servers)+count > maxEndpoints {
			return nil, r.Errorf(path+".count", "is %d: a scenario has 1 to %d endpoints in all", count, maxEndpoints)
		}
		for range count {
			k.count++
			like.Address = fmt.Sprintf("%s-%d", like.Kind, k.count)
			servers = append(servers, like)
		}
	}
	return servers, nil
}

// kind is what is known of endpoints of a name.
type kind struct {
	of     *endpoints
	demand sim.Demand
	count  int
}

// alike tells whether endpoints differ in nothing but when they are there.
func (e *endpoints) alike(other *endpoints) bool {
	return value(e.Cores, 1) == value(other.Cores, 1) && e.Idle == other.Idle && e.Discipline == other.Discipline &&
		value(e.Demand, 0) == value(other.Demand, 0) && e.Distribution == other.Distribution &&
		value(e.Sigma, defaultSigma) == value(other.Sigma, defaultSigma) && e.File == other.File
}

// server is what endpoints of a line of the document are like.
func (r *reader) server(path string, e *endpoints) (sim.Server, error) {
	s := sim.Server{Kind: e.Kind, Cores: value(e.Cores, 1), Idle: e.Idle, From: float64(e.From), Until: float64(e.Until)}
	if s.Kind == "" {
		s.Kind = "endpoint"
	}
	if err := r.named(path+".kind", s.Kind); err != nil {
		return s, err
	}
	if err := r.within([]limit{{path + ".cores", s.Cores, leastCores, maxCores}}); err != nil {
		return s, err
	}
	if !(s.Idle >= 0 && s.Idle < s.Cores) {
		return s, r.Errorf(path+".idle", "is %g: it takes cores used without requests, from 0 to less than the %g there are", s.Idle, s.Cores)
	}
	if err := r.lasts(path, "from", e.From, e.Until); err != nil {
		return s, err
	}
	discipline, err := r.choice(path+".discipline", e.Discipline, "processor-sharing", "first-come-first-served")
	if err != nil {
		return s, err
	}
	s.Discipline = []sim.Discipline{sim.ProcessorSharing, sim.FirstComeFirstServed}[discipline]
	s.Demand, err = r.demand(path, e)
	return s, err
}

// demand is what requests cost at an endpoint.
func (r *reader) demand(path string, e *endpoints) (sim.Demand, error) {
	const (
		lognormal = iota
		exponential
		constant
		empirical
	)
	d, err := r.choice(path+".distribution", e.Distribution, "lognormal", "exponential", "constant", "empirical")
	switch {
	case err != nil:
		return nil, err
	case e.Sigma != nil && d != lognormal:
		return nil, r.Errorf(path+".sigma", "belongs to lognormal: the distribution is %s", e.Distribution)
	case e.File != "" && d != empirical:
		return nil, r.Errorf(path+".file", "takes distribution: empirical")
	case e.Demand == nil && d != empirical:
		return nil, r.Errorf(path+".demand", "is missing: it takes the mean CPU time of a request, such as 5ms")
	}
	if e.Demand != nil {
		if err := r.spans([]span{{path + ".demand", *e.Demand, leastDemand, maxDemand}}); err != nil {
			return nil, err
		}
	}
	switch d {
	case lognormal:
		sigma := value(e.Sigma, defaultSigma)
		return sim.NewLogNormal(float64(*e.Demand), sigma), r.within([]limit{{path + ".sigma", sigma, 0, maxSigma}})
	case exponential:
		return sim.Exponential(*e.Demand), nil
	case constant:
		return sim.Constant(*e.Demand), nil
	}
	return r.empirical(path, e)
}

// empirical is as was measured; a demand beside it is what its mean is made.
func (r *reader) empirical(path string, e *endpoints) (sim.Demand, error) {
	if e.File == "" {
		return nil, r.Errorf(path+".file", "is missing: it takes a file of measured demands, in seconds, one per line")
	}
	values, err := r.numbers(path+".file", e.File)
	if err != nil {
		return nil, err
	}
	for i, v := range values {
		if !(v >= 0 && v <= maxDemand) {
			return nil, r.Errorf(path+".file", "%s: demand %d is %g: it takes seconds, 0 to %d", e.File, i+1, v, maxDemand)
		}
	}
	measured := sim.NewEmpirical(values)
	mean := measured.Mean()
	if !(mean >= leastDemand) {
		return nil, r.Errorf(path+".file", "%s: the mean demand is %g s: it must be at least %s", e.File, mean, seconds(leastDemand))
	}
	if e.Demand == nil {
		return measured, nil
	}
	return sim.Scaled{Demand: measured, Factor: float64(*e.Demand) / mean}, nil
}
