package predict

import (
	"math"
	"slices"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/internal/random"
	"taper.dev/taper/internal/sim"
)

// draw is a service that the observed one may well be.
type draw struct {
	seed uint64
	// truth is what requests cost in it, and belief what a control loop knows of that: both
	// are learnt from what was observed, each from another choice of windows.
	truth, belief knowledge
	// rates are per second, for equal parts of the time.
	rates   []float64
	proxies int
	sigma   float64
	// overhead is what network and proxies add to a request, in seconds.
	overhead float64
	// idle is what every endpoint is assumed to use without requests, in cores, where nothing
	// tells.
	idle float64
}

const (
	// mostSteps is how many windows a draw rests on: more would change the rate faster than
	// queues follow.
	mostSteps = 30
	// fewProxies and manyProxies are the range of what is usual, where nobody knows.
	fewProxies, manyProxies = 4, 64
	// idleRange is which part of the CPU of the least busy endpoint may be idling, where
	// rates differ too little to tell: today, all endpoints may get about as many requests.
	// In half of the draws nothing is.
	idleRange = 0.3
	// sigmaRange is how far from what is assumed sigma may be, as a part of it, where today's
	// latency does not tell.
	sigmaRange = 0.3
)

// observation is a service that is ready to be drawn from.
type observation struct {
	*Service
	// central is learnt from all windows, and rates are the service's in each of them.
	// perEndpoint are the endpoints' mean rates, NaN where they are not known.
	central     knowledge
	rates       []float64
	perEndpoint []float64
	// relative says that only ratios are known: see [knowledge.scaled].
	relative bool
	scale    float64
	// idles is the CPU of the least busy endpoint, in cores, if nothing tells what part of it
	// is idling; 0 if that is known, or no CPU was measured.
	idles float64
}

// observe learns from all there is.
func (s *Service) observe() *observation {
	all := make([]int, len(s.Windows))
	for i := range all {
		all[i] = i
	}
	o := &observation{Service: s, central: s.learn(all)}
	o.idles = o.untold()
	if o.central.evidence == balance.FromCPUOnly {
		o.relative = true
		o.central, o.scale = o.central.scaled()
		o.rates = []float64{o.scale}
		return o
	}
	o.rates, o.perEndpoint = s.rates(), s.requests()
	return o
}

// draw draws one. Bootstrap (Efron 1979): the windows that were observed are drawn from
// with replacement, for what was not observed is as likely to be like any of them.
func (o *observation) draw(seed uint64, sigma float64) draw {
	r := random.New(seed)
	windows := o.some(r)
	d := draw{seed: r.Next(), sigma: sigma, proxies: o.Proxies, truth: o.learned(windows), belief: o.learned(o.some(r))}
	if o.idles > 0 {
		d.idle = idleRange * o.idles * max(0, 2*r.Unit()-1)
		d.truth, d.belief = o.idling(d.truth, d.idle), o.idling(d.belief, d.idle)
	}
	d.truth.demand = filled(d.truth, r)
	if o.relative {
		d.rates = o.rates
	} else {
		for _, i := range windows {
			d.rates = append(d.rates, o.rates[i])
		}
	}
	if d.proxies == 0 {
		d.proxies = int(math.Round(fewProxies * math.Pow(manyProxies/fewProxies, r.Unit())))
	}
	return d
}

// untold is [observation.idles].
func (o *observation) untold() float64 {
	if slices.Max(o.central.idle) > 0 || o.central.evidence == balance.FromInFlight {
		return 0
	}
	least := math.Inf(1)
	for i, cpu := range o.means(func(s model.Sample) model.Reading { return s.CPU }) {
		if o.central.demand[i] > 0 && cpu < least { // NaN is not
			least = cpu
		}
	}
	return least
}

// idling takes a part of the CPU that was held to be the requests' for idling. Replicas of
// one service idle alike.
func (o *observation) idling(k knowledge, idle float64) knowledge {
	moved := knowledge{evidence: k.evidence, demand: slices.Clone(k.demand), idle: slices.Repeat([]float64{idle}, len(k.idle))}
	for i := range moved.demand {
		if moved.demand[i] > 0 {
			moved.demand[i] = max(moved.demand[i]-idle/o.rateOf(i), moved.demand[i]*(1-idleRange))
		}
	}
	return moved
}

// rateOf is an endpoint's mean rate, per second, in the terms of its demand.
func (o *observation) rateOf(i int) float64 {
	if o.relative {
		return o.scale / float64(len(o.Endpoints))
	}
	return o.perEndpoint[i]
}

// some are windows drawn with replacement, in the order of time.
func (o *observation) some(r *random.Source) []int {
	windows := make([]int, min(len(o.Windows), mostSteps))
	for i := range windows {
		windows[i] = r.Below(len(o.Windows))
	}
	slices.Sort(windows)
	return windows
}

// learned is what windows say, in the terms of the central knowledge. Where they do not
// tell, all windows do.
func (o *observation) learned(windows []int) knowledge {
	k := o.learn(windows)
	if k.evidence != o.central.evidence {
		return o.central
	}
	for i := range k.demand {
		if o.relative {
			k.demand[i] /= o.scale
		}
		if k.demand[i] <= 0 {
			k.demand[i], k.idle[i] = o.central.demand[i], o.central.idle[i]
		}
	}
	return k
}

// filled are demands in which one that is unknown is like any of the others.
func filled(k knowledge, r *random.Source) []float64 {
	measured := k.measured()
	demands := slices.Clone(k.demand)
	for i := range demands {
		if demands[i] <= 0 && len(measured) > 0 {
			demands[i] = measured[r.Below(len(measured))]
		}
	}
	return demands
}

// middle is the draw that everything is around.
func (o *observation) middle(seed uint64, sigma float64) draw {
	d := draw{
		seed: seed, sigma: sigma, proxies: o.Proxies, truth: o.central, belief: o.central,
		rates: evenly(o.rates, mostSteps),
	}
	d.truth.demand = filled(d.truth, random.New(seed))
	if d.proxies == 0 {
		d.proxies = int(math.Sqrt(fewProxies * manyProxies))
	}
	return d
}

// evenly picks up to n values at equal distances.
func evenly(values []float64, n int) []float64 {
	if len(values) <= n {
		return values
	}
	picked := make([]float64, n)
	for i := range picked {
		picked[i] = values[i*len(values)/n]
	}
	return picked
}

// rate is the mean one, per second.
func (d *draw) rate() float64 {
	var sum float64
	for _, r := range d.rates {
		sum += r / float64(len(d.rates))
	}
	return sum
}

// service is the draw as it is simulated, with about so many requests.
func (o *observation) service(d *draw, requests int) *sim.Service {
	measure := float64(requests) / d.rate()
	service := &sim.Service{
		Servers: make([]sim.Server, len(o.Endpoints)), Proxies: d.proxies, RoundTrip: d.overhead,
		WarmUp: warmUp * measure, Measure: measure,
	}
	for i, e := range o.Endpoints {
		service.Servers[i] = sim.Server{
			Address: e.Address, Cores: e.Capacity, Idle: d.truth.idle[i],
			Demand: sim.NewLogNormal(d.truth.demand[i], d.sigma), Discipline: sim.ProcessorSharing,
		}
	}
	var arrivals sim.Poisson
	for i, rate := range d.rates {
		from := 0.0 // the first rate is also that of the warm-up
		if i > 0 {
			from = service.WarmUp + measure*float64(i)/float64(len(d.rates))
		}
		arrivals = append(arrivals, sim.RateStep{From: from, Rate: rate})
	}
	service.Arrivals = arrivals
	return service
}

// warmUp is how long queues get to fill, as a part of the time that is measured.
const warmUp = 0.2
