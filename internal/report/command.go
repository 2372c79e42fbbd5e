package report

import (
	"fmt"
	"strings"
)

// Command is the command line that repeats the experiment, or "" for one that
// neither the lab nor the simulator knows. A setting that was not recorded is left
// to its default.
func (e *Experiment) Command() string {
	s, command := e.Settings, "taper lab balance"
	add := func(recorded bool, flag string, value any) {
		if recorded {
			command += fmt.Sprintf(" --%s %v", flag, value)
		}
	}
	switch {
	case e.Simulation != nil && e.Simulation.Source != "":
		command = "taper sim run " + word(e.Simulation.Source)
		add(e.Simulation.Chosen, "arms", word(strings.Join(e.names(), ",")))
		add(s.Rounds > 0, "rounds", s.Rounds)
		add(true, "seed", s.Seed)
		return command
	case e.Simulation != nil || e.Scenario != "fibonacci":
		return ""
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

// word is a text as one word of a shell's command line.
func word(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./,+:@%", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
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
	add(s.Proxies > 0, "%s proxies", Count(uint64(s.Proxies)))
	if e.Simulation != nil {
		add(true, "%s %s endpoints", Count(uint64(e.Simulation.Endpoints)), s.EndpointKind)
	} else if before, _ := e.Compared(); before != nil {
		add(len(before.Endpoints) > 0, "%d %s endpoints", len(before.Endpoints), s.EndpointKind)
	}
	add(s.Rounds == 1 && measured(s.MeasureS), "one round of %s s per arm", shortest(s.MeasureS))
	add(s.Rounds > 1 && measured(s.MeasureS), "%d rounds of %s s per arm", s.Rounds, shortest(s.MeasureS))
	if e.Simulation != nil {
		add(measured(e.Simulation.WarmUp), "each after %s s of warm-up", shortest(e.Simulation.WarmUp))
	}
	add(s.ProxyVersion != "", "%s", s.ProxyVersion)
	return strings.Join(parts, ", ")
}
