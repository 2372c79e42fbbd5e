package scenario

import (
	"cmp"
	"math"
	"slices"

	"taper.dev/taper/internal/sim"
)

// Load is what a service is asked for at a time, against what there is. CPU is in cores, and
// what servers idle is part of neither.
type Load struct {
	// At is the time, in seconds, and Rate that of requests then, per second.
	At, Rate float64
	// Cores are those that requests can use.
	Cores float64
	// Equal is the CPU that requests ask for if each endpoint gets as many.
	Equal float64
	// Best is what they ask for if endpoints get as many as makes all equally full. No way to
	// balance can serve more than that for long.
	Best float64
	// Fullest is the utilization of the fullest endpoint if each gets as many.
	Fullest float64
}

// Impossible tells whether queues grow without bound as long as the load lasts, whatever
// the balancing.
func (l Load) Impossible() bool { return l.Cores > 0 && l.Best >= l.Cores }

// Load is that of the time at which it is highest against what there is, among the times
// when there is anything.
func (s *Scenario) Load() Load {
	times, states := s.moments(), s.states()
	if len(times) == 0 {
		return s.LoadAt(0)
	}
	// The sums of all servers are kept up to date, which takes less than adding them up again.
	var capacity, most float64 // requests per second
	present, peak := 0, times[0].at
	for i, m := range times {
		if m.server >= 0 {
			st := &states[m.server]
			capacity -= st.capacity
			if st.capacity > 0 {
				present--
			}
			*st = s.state(m.server, st.changes, m.at)
			capacity += st.capacity
			if st.capacity > 0 {
				present++
			}
		}
		if i+1 < len(times) && times[i+1].at == m.at || present == 0 {
			continue
		}
		if full := s.Service.Arrivals.Rate(m.at) / capacity; full > most {
			most, peak = full, m.at
		}
	}
	return s.LoadAt(peak)
}

// LoadAt is that of a time, in seconds since the beginning.
func (s *Scenario) LoadAt(at float64) Load {
	l := Load{At: at, Rate: s.Service.Arrivals.Rate(at)}
	var capacity, demands float64
	states := s.states()
	present := 0
	for i := range states {
		if st := s.state(i, states[i].changes, at); st.capacity > 0 {
			present++
			capacity += st.capacity
			demands += st.demand
			l.Cores += st.capacity * st.demand
		}
	}
	if present == 0 {
		return l
	}
	each := l.Rate / float64(present)
	l.Equal, l.Best = each*demands, l.Rate/capacity*l.Cores
	for i := range states {
		if st := s.state(i, states[i].changes, at); st.capacity > 0 {
			l.Fullest = max(l.Fullest, each/st.capacity)
		}
	}
	return l
}

// state is what a server can do.
type state struct {
	// changes are all that ever happen to it.
	changes []sim.Change
	// demand is the mean, and capacity how many requests it can serve per second; 0 if it is
	// not there or refuses them.
	demand, capacity float64
}

// states are all servers', before anything is known but what will happen to them.
func (s *Scenario) states() []state {
	states := make([]state, len(s.Service.Servers))
	for _, c := range s.Service.Changes {
		states[c.Server].changes = append(states[c.Server].changes, c)
	}
	return states
}

func (s *Scenario) state(server int, changes []sim.Change, at float64) state {
	of := &s.Service.Servers[server]
	st := state{changes: changes}
	if !holds(of.From, of.Until, at) {
		return st
	}
	cores := of.Cores - of.Idle
	st.demand = of.Demand.Mean()
	for _, c := range changes {
		switch {
		case !holds(c.At, c.Until, at):
			continue
		case c.Down:
			return state{changes: changes}
		case c.Demand > 0:
			st.demand *= c.Demand
		}
		cores -= c.Stolen
	}
	st.capacity = max(0, cores) / st.demand
	return st
}

func holds(from, until, at float64) bool { return at >= from && (until == 0 || at < until) }

// moment is a time at which a server may change, or, if that is -1, the rate.
type moment struct {
	at     float64
	server int
}

// moments are all of a run, rising, and begin with all servers at 0.
func (s *Scenario) moments() []moment {
	end := s.Service.WarmUp + s.Service.Measure
	var list []moment
	add := func(at float64, server int) {
		if at < end {
			list = append(list, moment{at, server})
		}
	}
	for i, server := range s.Service.Servers {
		add(0, i)
		add(server.From, i)
		add(cmp.Or(server.Until, math.Inf(1)), i)
	}
	for _, c := range s.Service.Changes {
		add(c.At, c.Server)
		add(cmp.Or(c.Until, math.Inf(1)), c.Server)
	}
	if steps, ok := s.Service.Arrivals.(sim.Poisson); ok {
		for _, step := range steps {
			add(step.From, -1)
		}
	}
	slices.SortStableFunc(list, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	return list
}
