package balance

import (
	"math"
	"time"

	"taper.dev/taper/internal/model"
)

const (
	// memoryRequests is how many requests an estimate rests on, beside the newest
	// sample. Service times vary about as much as their mean, so 1,000 of them give
	// a demand within 3 %; fewer would let shares chase noise, and a change that
	// matters is noticed by its surprise.
	memoryRequests = 1000
	// inFlightNoise is how many more requests the same certainty takes when the
	// demand comes from polled requests in flight rather than from a CPU counter.
	inFlightNoise = 2
	// memoryIntervals bounds the same memory in time: an endpoint at the minimum
	// share sees few requests, and what it cost an hour ago must not count.
	memoryIntervals = 60
	// idleIntervals is the memory of the regression for the idle load, which
	// changes rarely and needs rates that differ to be seen at all.
	idleIntervals = 60
	// lineSamples and lineSigmas are what it takes to believe in an idle load: one
	// that is not there would make requests look cheap.
	lineSamples = 5
	lineSigmas  = 3
	// surpriseSigmas and surpriseRatio tell a change from noise: then the past is
	// dropped rather than averaged in.
	surpriseSigmas = 4
	surpriseRatio  = 0.25
	// surpriseWeight is what a sample counts that holds the moment of a change: it
	// shows neither the old demand nor the new one, and the next sample will.
	surpriseWeight = 0.1
	// idleOfLeast caps the idle load at this part of the least CPU lately seen, so
	// that a wrong regression cannot make requests look free.
	idleOfLeast = 0.9
)

// Evidence is what demands are computed from.
type Evidence string

const (
	// FromCPU divides CPU by requests: the best there is.
	FromCPU Evidence = "cpu"
	// FromInFlight takes the demand from requests in flight by Little's law.
	FromInFlight Evidence = "in-flight"
	// FromCPUOnly knows no request rates and takes weight shares for them.
	FromCPUOnly Evidence = "cpu-only"
)

// Memory is what one decision leaves for the next. It can be stored as JSON.
type Memory struct {
	// Evidence is what the estimates rest on; they are not comparable across kinds.
	Evidence Evidence `json:"evidence,omitempty"`
	// EvidenceAt is when that evidence was last seen.
	EvidenceAt time.Time `json:"evidence_at"`
	// CoveredAt is when enough endpoints last had a fresh sample.
	CoveredAt time.Time `json:"covered_at"`
	// Load is the service's smoothed request rate, per second (1 for [FromCPUOnly]).
	Load float64 `json:"load"`
	// Endpoints has an estimate for every endpoint ever seen and not yet gone.
	Endpoints map[string]Estimate `json:"endpoints,omitempty"`
}

// Estimate is what is known of one endpoint. Sums are discounted: newer samples
// count more.
type Estimate struct {
	// Since is when the endpoint joined a service that was already running; zero
	// for those that were there from the start.
	Since time.Time `json:"since"`
	// SampledAt is the time of the newest sample in the sums.
	SampledAt time.Time `json:"sampled_at"`
	// CPU (core-seconds), Requests (a count) and Seconds are the recent sums
	// behind the demand.
	CPU      float64 `json:"cpu"`
	Requests float64 `json:"requests"`
	Seconds  float64 `json:"seconds"`
	// Room is what was learnt of the cores.
	Room Room `json:"room,omitzero"`
	// LeastCPU is the smallest CPU usage lately, in cores.
	LeastCPU float64 `json:"least_cpu"`
	// Rate is the newest request rate, per second (a share for [FromCPUOnly]).
	Rate float64 `json:"rate"`
	// Line is the history that the idle load is read from.
	Line Line `json:"line"`
}

// Line is a least-squares fit of CPU (y, cores) over request rate (x, per
// second), as discounted sums.
type Line struct {
	N  float64 `json:"n"`
	X  float64 `json:"x"`
	Y  float64 `json:"y"`
	XX float64 `json:"xx"`
	XY float64 `json:"xy"`
	YY float64 `json:"yy"`
}

func (l Line) add(x, y, keep float64) Line {
	return Line{
		N: l.N*keep + 1, X: l.X*keep + x, Y: l.Y*keep + y,
		XX: l.XX*keep + x*x, XY: l.XY*keep + x*y, YY: l.YY*keep + y*y,
	}
}

// intercept returns the CPU at no requests. It is 0 where the fit does not tell
// it from 0, and unknown (false) where the rates hardly differed.
func (l Line) intercept() (float64, bool) {
	if l.N < lineSamples {
		return 0, false
	}
	mx, my := l.X/l.N, l.Y/l.N
	vx, vy, cov := l.XX/l.N-mx*mx, l.YY/l.N-my*my, l.XY/l.N-mx*my
	if mx <= 0 || vx < 0.04*mx*mx { // a coefficient of variation below 20 %
		return 0, false
	}
	slope := cov / vx
	icept := my - slope*mx
	residual := max(0, vy-slope*cov) * l.N / (l.N - 2)
	stderr := math.Sqrt(residual * (1 + mx*mx/vx) / l.N)
	if icept < lineSigmas*stderr {
		return 0, true
	}
	return icept, true
}

// observation is one endpoint's sample in the terms of the estimator.
type observation struct {
	cpu  float64 // cores, or their equivalent
	rate float64 // requests per second, or a share
	at   time.Time
	// inFlight are requests being served beside that; missing where it is not known, or is
	// what cpu was taken from.
	inFlight model.Reading
}

// observe reads a sample as the given evidence; false when a part is missing or not valid.
func (e Evidence) observe(s model.Sample, capacity, share float64) (observation, bool) {
	switch e {
	case FromCPU:
		if !s.CPU.Valid() || !s.Requests.Valid() {
			return observation{}, false
		}
		return observation{cpu: s.CPU.Value, rate: s.Requests.Value, at: earlier(s.CPU.At, s.Requests.At), inFlight: s.InFlight}, true
	case FromInFlight:
		if !s.InFlight.Valid() || !s.Requests.Valid() {
			return observation{}, false
		}
		return observation{cpu: busyCores(s.InFlight.Value, capacity), rate: s.Requests.Value, at: earlier(s.InFlight.At, s.Requests.At)}, true
	case FromCPUOnly:
		if !s.CPU.Valid() {
			return observation{}, false
		}
		return observation{cpu: s.CPU.Value, rate: share, at: s.CPU.At}, true
	}
	return observation{}, false
}

// busyCores is the CPU, in cores, behind a mean number of requests in flight. By
// Little's law that number is λT; with the response time T = S/(1-ρ^c) that
// least-latency assumes, it is c·ρ/(1-ρ^c), which grows with ρ.
func busyCores(inFlight, cores float64) float64 {
	servers := max(1, cores)
	low, high := 0.0, 1.0
	for range 40 {
		if rho := (low + high) / 2; servers*rho < inFlight*(1-math.Pow(rho, servers)) {
			low = rho
		} else {
			high = rho
		}
	}
	return high * cores
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// chooseEvidence takes the best that enough fresh samples offer. Evidence seen
// before is waited for as long as weights would be held: a store that loses one
// metric for a minute must not change what demands mean.
func chooseEvidence(in Input, fresh func(time.Time) bool) Evidence {
	has := func(e Evidence) bool {
		n := 0
		for _, ep := range in.Endpoints {
			if o, ok := e.observe(in.Snapshot[ep.Address], 1, 0); ok && fresh(o.at) {
				n++
			}
		}
		return n > 0 && float64(n) >= in.Policy.Coverage*float64(len(in.Endpoints))
	}
	if has(FromCPU) {
		return FromCPU
	}
	m := in.Memory
	if m.Evidence != "" && in.Now.Sub(m.EvidenceAt) < in.Policy.ReleaseAfter {
		return m.Evidence
	}
	for _, e := range []Evidence{FromInFlight, FromCPUOnly} {
		if has(e) {
			return e
		}
	}
	return m.Evidence
}

// learn adds an observation to an estimate and tells whether it was a new one.
func (est Estimate) learn(o observation, e Evidence, p Policy, members int) (Estimate, bool) {
	if !o.at.After(est.SampledAt) {
		return est, false
	}
	gap := p.Interval
	if !est.SampledAt.IsZero() {
		gap = o.at.Sub(est.SampledAt)
	}
	// A sample speaks for the interval before it, not for a gap in which nothing
	// was measured; the past fades over the whole gap.
	seconds := min(gap, 2*p.Interval).Seconds()
	requests, memory := o.rate*seconds, float64(memoryRequests)
	switch e {
	case FromInFlight:
		memory *= inFlightNoise
	case FromCPUOnly:
		// Rates are shares here, and counts are unknown: an equal share's worth of
		// traffic for one interval counts as one memory.
		memory = p.Interval.Seconds() / float64(members)
	}
	weight := 1.0
	if est.surprised(o, requests, e) {
		est.CPU, est.Requests, est.Seconds, est.Line = 0, 0, 0, Line{}
		est.LeastCPU = o.cpu
		weight = surpriseWeight
	} else {
		est.Line = est.Line.add(o.rate, o.cpu, math.Exp(-gap.Seconds()/(idleIntervals*p.Interval.Seconds())))
	}
	fade := math.Exp(-gap.Seconds() / (memoryIntervals * p.Interval.Seconds()))
	if est.SampledAt.IsZero() {
		est.LeastCPU = o.cpu
	}
	est.LeastCPU = min(o.cpu, est.LeastCPU*fade+o.cpu*(1-fade))
	keep := memory / (memory + requests) * fade
	est.CPU = est.CPU*keep + weight*o.cpu*seconds
	est.Requests = est.Requests*keep + weight*requests
	est.Seconds = est.Seconds*keep + weight*seconds
	est.Rate, est.SampledAt = o.rate, o.at
	return est, true
}

// surprised tells whether the observation cannot be the old demand plus noise.
// A rate that changed makes the idle load look like a change of demand, so the
// observation must stand out the same way whether the endpoint idles at nothing
// or at all that it could. Without counts of requests the noise is unknown, and
// nothing is a surprise.
func (est Estimate) surprised(o observation, requests float64, e Evidence) bool {
	if e != FromCPU || est.Requests <= 0 || requests < 1 {
		return false
	}
	most := idleOfLeast * min(est.LeastCPU, o.cpu)
	without, with := est.change(o, 0), est.change(o, most)
	least := max(surpriseRatio, surpriseSigmas/math.Sqrt(requests))
	return min(without, with) > least || max(without, with) < -least
}

// change is by how much the observed demand differs from the one known, relative
// to it, if the endpoint idles at the given CPU; 0 when that cannot be said.
func (est Estimate) change(o observation, idle float64) float64 {
	was := est.demand(idle)
	if was <= 0 {
		return 0
	}
	return (o.cpu-idle)/o.rate/was - 1
}

// idle is the CPU that the endpoint uses without requests, in cores; fallback
// where its own history does not tell.
func (est Estimate) idle(fallback float64) float64 {
	b, ok := est.Line.intercept()
	if !ok {
		b = fallback
	}
	return max(0, min(b, idleOfLeast*est.LeastCPU))
}

// demand is the CPU-seconds that one request costs beyond the idle load; 0 when unknown.
func (est Estimate) demand(idle float64) float64 {
	if est.Requests <= 0 {
		return 0
	}
	return max(0, est.CPU-idle*est.Seconds) / est.Requests
}
