package balance

import (
	"fmt"
	"math"
	"time"
)

// Reason names why a decision, or one endpoint's share, is what it is.
type Reason string

// Reasons for which a whole decision keeps its weights, in the order in which
// the guards look for them.
const (
	NoEndpoints    Reason = "NoEndpoints"
	SingleEndpoint Reason = "SingleEndpoint"
	MembershipOnly Reason = "MembershipOnly"
	Stale          Reason = "Stale"
	LowCoverage    Reason = "LowCoverage"
	RailUnknown    Reason = "GuardRailUnknown"
	NoNews         Reason = "NoNews"
	Idle           Reason = "Idle"
	DeadBand       Reason = "DeadBand"
	// Released and RailBreached move weights: step by step back to equal.
	Released     Reason = "Released"
	RailBreached Reason = "GuardRailBreached"
)

// Reasons for one endpoint's share.
const (
	Balanced         Reason = "Balanced"
	AtUtilization    Reason = "UtilizationLimit"
	AtMinShare       Reason = "MinShare"
	AtMaxShare       Reason = "MaxShare"
	StepLimit        Reason = "StepLimit"
	Warming          Reason = "Warming"
	Missing          Reason = "Missing"
	Invalid          Reason = "Invalid"
	StaleSample      Reason = "StaleSample"
	Overloaded       Reason = "Overloaded"
	HeldWithDecision Reason = "Held"
)

// idleUtilization is the utilization of the whole service below which measured
// demands are mostly noise and shares do not matter.
const idleUtilization = 0.001

// Hold is a reason not to act, and a sentence about it.
type Hold struct {
	Reason  Reason
	Message string
}

// Moves tells whether weights may move all the same: freely when nothing holds
// them, towards equal when they are released.
func (h Hold) Moves() bool {
	return h.Reason == "" || h.Reason == Released || h.Reason == RailBreached
}

// RailState is where something outside of balancing stands against its bound.
type RailState int

// The states of a rail.
const (
	// RailFine is also that of a service without a rail.
	RailFine RailState = iota
	// RailNotRead means that nobody knows: weights are held.
	RailNotRead
	// RailExceeded means that weights step back to equal.
	RailExceeded
)

// Rail is the verdict of a bound on something that balancing must not make worse,
// such as a rate of errors.
type Rail struct {
	State RailState
	// Message says what was read, or why it was not.
	Message string
}

// guard asks the guards in order; the first that objects decides.
func (s *state) guard() Hold {
	for _, g := range []func(*state) Hold{single, membershipOnly, stale, coverage, rail, news, idle} {
		if h := g(s); h.Reason != "" {
			return h
		}
	}
	return Hold{}
}

func single(s *state) Hold {
	if len(s.members) > 1 {
		return Hold{}
	}
	return Hold{SingleEndpoint, "there is one endpoint: it gets every request"}
}

// membershipOnly keeps what is decided once per interval from being decided, or
// released, with every endpoint that comes or goes.
func membershipOnly(s *state) Hold {
	if s.in.Snapshot != nil {
		return Hold{}
	}
	return Hold{MembershipOnly, "endpoints came or went; shares are decided with the next samples"}
}

// stale holds when nothing at all is fresh, and coverage when too little is.
// Both give way to a release when that has lasted.
func stale(s *state) Hold {
	for i := range s.members {
		if s.members[i].fresh {
			return Hold{}
		}
	}
	return s.blind(Stale, fmt.Sprintf("no endpoint has a sample younger than %s", s.in.Policy.MaxAge))
}

func coverage(s *state) Hold {
	fresh := 0
	for i := range s.members {
		if s.members[i].fresh {
			fresh++
		}
	}
	need := int(math.Ceil(s.in.Policy.Coverage * float64(len(s.members))))
	if fresh >= need {
		s.memory.CoveredAt = s.in.Now
		return Hold{}
	}
	return s.blind(LowCoverage, fmt.Sprintf("%d of %d endpoints have a fresh sample: %d are needed", fresh, len(s.members), need))
}

// blind holds at first and releases when the service was not seen for too long.
// The clock of a service that was never seen starts with its first decision.
func (s *state) blind(r Reason, message string) Hold {
	if s.memory.CoveredAt.IsZero() {
		s.memory.CoveredAt = s.in.Now
	}
	unseen := s.in.Now.Sub(s.memory.CoveredAt)
	if unseen < s.in.Policy.ReleaseAfter || len(s.in.Current) == 0 {
		return Hold{r, message}
	}
	return Hold{Released, fmt.Sprintf("%s, for %s: stepping back to equal weights", message, unseen.Round(time.Second))}
}

func rail(s *state) Hold {
	switch s.in.Rail.State {
	case RailNotRead:
		return Hold{RailUnknown, s.in.Rail.Message}
	case RailExceeded:
		return Hold{RailBreached, s.in.Rail.Message + ": stepping back to equal weights"}
	}
	return Hold{}
}

func news(s *state) Hold {
	if s.news {
		return Hold{}
	}
	return Hold{NoNews, "no sample is newer than those of the last decision"}
}

func idle(s *state) Hold {
	var used, capacity float64
	for i := range s.members {
		m := &s.members[i]
		used += m.current * s.load * m.demand
		capacity += m.free
	}
	if used >= idleUtilization*capacity {
		return Hold{}
	}
	return Hold{Idle, fmt.Sprintf("requests use %.2g of %.4g cores: too little to learn from", used, capacity)}
}

// alike is within how many dead bands of the equal share all shares are taken for equal.
// Between endpoints that are alike, noise decides about shares; and a proxy that knows of no
// difference sends to the one of two that has fewer requests, which serves them better.
const alike = 2

// level makes shares equal that are nearly so.
func (s *state) level() {
	equal := 1 / float64(len(s.members))
	for i := range s.members {
		if m := &s.members[i]; math.Abs(m.next-equal) > alike*s.in.Policy.DeadBand*equal {
			return
		}
	}
	for i := range s.members {
		s.members[i].next = equal
	}
}

// deadBand keeps the weights when no share would change enough to matter. It
// looks at each endpoint, not at the sum: one bad node in a thousand matters.
func (s *state) deadBand() Hold {
	if s.joined {
		return Hold{}
	}
	band := s.in.Policy.DeadBand
	var most float64
	for i := range s.members {
		m := &s.members[i]
		most = max(most, math.Abs(m.next-m.current)/max(m.next, m.current))
	}
	if most > band {
		return Hold{}
	}
	return Hold{DeadBand, fmt.Sprintf("no share would change by more than %.0f %%", 100*band)}
}
