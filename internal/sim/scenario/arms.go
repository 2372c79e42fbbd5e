package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/sim"
	"taper.dev/taper/internal/sim/policy"
	"taper.dev/taper/internal/sim/published"
)

// publishedRule is the strategy that is not taper's.
const publishedRule = "published"

// arms are the ways to balance.
func (r *reader) arms(s *sim.Service) ([]Arm, error) {
	// The defaults are checked even if no arm takes them.
	if _, err := r.loop("control", balance.LeastLatency, r.Control); err != nil {
		return nil, err
	}
	if len(r.Arms) == 0 || len(r.Arms) > maxArms {
		return nil, r.Errorf("arms", "has %d: it takes 1 to %d, such as {name: least-request, policy: least-request}", len(r.Arms), maxArms)
	}
	arms := make([]Arm, len(r.Arms))
	for i, text := range r.Arms {
		path := fmt.Sprintf("arms[%d]", i)
		if err := r.named(path+".name", text.Name); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(arms[:i], func(a Arm) bool { return a.Name == text.Name }) {
			return nil, r.Errorf(path+".name", "is %q, as another is: each arm has its own", text.Name)
		}
		chooses, err := policy.Find(text.Policy)
		if err != nil {
			return nil, r.Errorf(path+".policy", "cannot be: %w", err)
		}
		arms[i] = Arm{Name: text.Name, Policy: chooses.Name, Bound: chooses.Bound, NewPolicy: chooses.New}
		if text.Weights == nil {
			continue
		}
		if arms[i].Weigher, err = r.weigher(path+".weights", text.Weights, s); err != nil {
			return nil, err
		}
	}
	return arms, nil
}

// weigher is how an arm's weights come about.
func (r *reader) weigher(path string, w *weightsText, s *sim.Service) (*sim.Weigher, error) {
	strategy, err := r.strategy(path, w.Strategy)
	if err != nil {
		return nil, err
	}
	loop := w.loopText
	switch {
	case strategy != publishedRule:
		loop.limitsText = or(loop.limitsText, r.Control.limitsText)
	case loop.Evidence != "":
		return nil, r.Errorf(path+".evidence", "does not matter: the published rule reads CPU alone, so leave it out")
	default:
		if err := r.lacks(path, loop.limitsText, "the published rule has its own"); err != nil {
			return nil, err
		}
	}
	if w.Static {
		return r.static(path, strategy, loop, s)
	}
	loop.viewText = or(loop.viewText, r.Control.viewText)
	return r.loop(path, strategy, loop)
}

// static are weights that are set once.
func (r *reader) static(path string, strategy balance.Strategy, l loopText, s *sim.Service) (*sim.Weigher, error) {
	if err := r.lacks(path, l.viewText, "static weights are set once, from the true demands"); err != nil {
		return nil, err
	}
	w, err := r.loop(path, strategy, l)
	if err != nil {
		return nil, err
	}
	path += ".static"
	if s.Arrivals.Rate(0) <= 0 {
		return nil, r.Errorf(path, "takes a load at the beginning, which is what weights are set for")
	}
	if r.settled += len(s.Servers); r.settled > maxStatic {
		return nil, r.Errorf(path, "would be of %d endpoints, all such arms together: the most are %d, so take the loop", r.settled, maxStatic)
	}
	if w.Fixed, err = settle(s, w); err != nil {
		return nil, r.Errorf(path, "cannot be: %w", err)
	}
	return w, nil
}

func (r *reader) strategy(path, name string) (balance.Strategy, error) {
	if name == publishedRule {
		return publishedRule, nil
	}
	strategy, err := balance.ParseStrategy(name)
	if err == nil {
		return strategy, nil
	}
	if r.Lines[path+".strategy"] != 0 {
		path += ".strategy"
	}
	known := make([]string, len(balance.Strategies))
	for i, s := range balance.Strategies {
		known[i] = string(s)
	}
	return "", r.Errorf(path, "is %q: it is one of %s, %s", name, strings.Join(known, ", "), publishedRule)
}

// lacks reports the first setting of a section that an arm has none of.
func (r *reader) lacks(path string, section any, because string) error {
	for _, key := range said(section) {
		return r.Errorf(path+"."+key, "does not matter: %s, so leave it out", because)
	}
	return nil
}

// loop is a control loop. Its policy is the default one but for what is said.
func (r *reader) loop(path string, strategy balance.Strategy, l loopText) (*sim.Weigher, error) {
	if err := r.view(path, l.viewText); err != nil {
		return nil, err
	}
	w := &sim.Weigher{
		Decide: balance.Decide, Evidence: balance.Evidence(cmp.Or(l.Evidence, kinds[0])),
		Delay: float64(value(l.Delay, 0)), Propagation: float64(value(l.Propagation, 0)),
		Noise: value(l.Noise, 0), Missing: value(l.Missing, 0),
	}
	for _, o := range l.Outages {
		w.Outages = append(w.Outages, sim.Span{From: float64(o.From), Until: float64(o.Until)})
	}
	interval := defaultInterval
	if l.Interval != nil {
		interval = l.Interval.duration()
	}
	w.Policy = balance.DefaultPolicy(interval)
	if strategy == publishedRule {
		w.Decide, w.Evidence = published.Decide, balance.FromCPUOnly
		return w, nil
	}
	w.Policy.Strategy = strategy
	l.limitsText.apply(&w.Policy)
	if err := w.Policy.Validate(); err != nil {
		return nil, r.Errorf(path, "cannot be: %w", err)
	}
	return w, nil
}

// kinds are those of evidence; the first is meant where none is said.
var kinds = []string{string(balance.FromCPU), string(balance.FromInFlight), string(balance.FromCPUOnly)}

// view checks how a loop sees the service.
func (r *reader) view(path string, v viewText) error {
	if _, err := r.choice(path+".evidence", v.Evidence, kinds...); err != nil {
		return err
	}
	if err := r.spans([]span{
		{path + ".interval", value(v.Interval, seconds(defaultInterval.Seconds())), leastInterval, maxInterval},
		{path + ".delay", value(v.Delay, 0), 0, maxSeconds},
		{path + ".propagation", value(v.Propagation, 0), 0, maxSeconds},
	}); err != nil {
		return err
	}
	if err := r.within([]limit{
		{path + ".noise", value(v.Noise, 0), 0, 1},
		{path + ".missing", value(v.Missing, 0), 0, 1},
		{path + ".outages", float64(len(v.Outages)), 0, maxOutages},
	}); err != nil {
		return err
	}
	for i, o := range v.Outages {
		if err := r.lasts(fmt.Sprintf("%s.outages[%d]", path, i), "from", o.From, o.Until); err != nil {
			return err
		}
	}
	return nil
}

// apply sets what is said.
func (l *limitsText) apply(p *balance.Policy) {
	set(&p.UtilizationLimit, l.UtilizationLimit)
	set(&p.MinShare, l.MinShare)
	set(&p.MaxShare, l.MaxShare)
	set(&p.MaxStep, l.MaxStep)
	set(&p.DeadBand, l.DeadBand)
	set(&p.EqualWeight, l.EqualWeight)
	set(&p.Coverage, l.Coverage)
	setDuration(&p.Ramp, l.Ramp)
	setDuration(&p.MaxAge, l.MaxAge)
	setDuration(&p.ReleaseAfter, l.ReleaseAfter)
}

func set[T any](setting, said *T) {
	if said != nil {
		*setting = *said
	}
}

func setDuration(setting *time.Duration, said *seconds) {
	if said != nil {
		*setting = said.duration()
	}
}
