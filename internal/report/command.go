package report

import (
	"fmt"
	"strings"
)

// Command is the command line that repeats the experiment, or "" for a
// scenario that the lab does not know. A setting that was not recorded is left
// to its default.
func (e *Experiment) Command() string {
	if e.Scenario != "fibonacci" {
		return ""
	}
	s, command := e.Settings, "taper lab balance"
	add := func(recorded bool, flag string, value any) {
		if recorded {
			command += fmt.Sprintf(" --%s %v", flag, value)
		}
	}
	add(s.EndpointKind != "", "endpoints", s.EndpointKind)
	add(s.Store != "", "store", s.Store)
	add(len(e.Arms) > 0, "arms", strings.Join(e.names(), ","))
	add(s.Proxies > 0, "proxies", s.Proxies)
	add(measured(s.RatePerS), "rate", shortest(s.RatePerS))
	add(s.Rounds > 0, "rounds", s.Rounds)
	add(measured(s.MeasureS), "measure", shortest(s.MeasureS)+"s")
	add(measured(s.IntervalS), "interval", shortest(s.IntervalS)+"s")
	add(true, "seed", s.Seed)
	if e.Disturbance != nil {
		command += " --disturb"
	}
	return command
}

func (e *Experiment) names() []string {
	var names []string
	for _, arm := range e.Arms {
		names = append(names, arm.Name)
	}
	return names
}

// Conditions says in one line what was run.
func (e *Experiment) Conditions() string {
	s := e.Settings
	var parts []string
	add := func(recorded bool, format string, values ...any) {
		if recorded {
			parts = append(parts, fmt.Sprintf(format, values...))
		}
	}
	add(measured(s.RatePerS), "%s requests/s", Number(s.RatePerS))
	add(s.Proxies > 0, "%d proxies", s.Proxies)
	if before, _ := e.Compared(); before != nil {
		add(len(before.Endpoints) > 0, "%d %s endpoints", len(before.Endpoints), s.EndpointKind)
	}
	add(s.Rounds == 1 && measured(s.MeasureS), "one round of %s s per arm", shortest(s.MeasureS))
	add(s.Rounds > 1 && measured(s.MeasureS), "%d rounds of %s s per arm", s.Rounds, shortest(s.MeasureS))
	add(s.ProxyVersion != "", "%s", s.ProxyVersion)
	return strings.Join(parts, ", ")
}
