// Package standalone is the control loop of `taper balance`: for a team that has
// Envoy and a metrics store, and no Kubernetes.
//
// [Load] reads its configuration, [Run] wires and runs the whole. The loop itself
// is [Controller]: every interval it finds out who is there, collects samples,
// asks balance.Decide and applies the weights. The lab runs the same Controller.
package standalone

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"taper.dev/taper/internal/apply"
	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/internal/source"
)

// Service is one service under control.
type Service struct {
	// Name is what Envoy asks the endpoints by.
	Name    string
	Members Members
	Policy  balance.Policy
	// Source is where its samples come from. Services with the same source are
	// asked for at once.
	Source source.Source
}

// Members says which endpoints a service has now.
type Members interface {
	// List returns the endpoints. After an error the last list stays in force.
	List(ctx context.Context) ([]model.Endpoint, error)
}

// Static is a list of members that does not change.
type Static []model.Endpoint

// List implements [Members].
func (s Static) List(context.Context) ([]model.Endpoint, error) { return s, nil }

// State is what the loop knows of a service between decisions. Stored, it lets a
// restarted loop go on where it was.
type State struct {
	Weights model.Weights  `json:"weights"`
	Memory  balance.Memory `json:"memory"`
}

// Event is one decision about one service, as it was applied.
type Event struct {
	Service string
	At      time.Time
	// Sampled tells a control interval's decision from one that only followed
	// membership.
	Sampled  bool
	Decision balance.Decision
}

// collectWithin bounds the wait for a source that hangs: membership waits with it.
const collectWithin = 5 * time.Second

// Controller runs the loop for services that share an interval and an applier.
type Controller struct {
	Services []Service
	Interval time.Duration
	// MembersEvery is how often membership is looked at between decisions.
	MembersEvery time.Duration
	Applier      apply.Applier
	Logger       *slog.Logger
	// OnDecision, where set, is called after each decision, from the loop.
	OnDecision func(Event)
	// Store, where set, is given the state of all services after each cycle.
	Store func(map[string]State) error

	states  map[string]State
	members map[string][]model.Endpoint
}

// Restore sets where the loop starts from. Without it, weights start equal.
func (c *Controller) Restore(states map[string]State) { c.states = maps.Clone(states) }

// Run applies the weights in force at once, so that no Envoy waits for its
// endpoints, then decides every interval until the context ends. It returns nil
// then: the weights in force stay with Envoy. What fails within the loop is
// logged and does not end it.
func (c *Controller) Run(ctx context.Context) error {
	if c.states == nil {
		c.states = map[string]State{}
	}
	if c.members == nil {
		c.members = map[string][]model.Endpoint{}
	}
	for name, s := range c.states {
		// Time in which the loop did not run is not time unseen: weights are held
		// anew before they are released.
		s.Memory.CoveredAt = time.Time{}
		c.states[name] = s
	}
	c.refreshMembers(ctx)
	for _, s := range c.Services {
		if len(c.members[s.Name]) == 0 {
			c.Logger.Warn("no endpoints yet", "service", s.Name)
		}
		c.decide(ctx, s, nil, time.Now())
	}
	decide := time.NewTicker(c.Interval)
	defer decide.Stop()
	look := time.NewTicker(min(c.MembersEvery, c.Interval))
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
			for _, s := range c.refreshMembers(ctx) {
				c.decide(ctx, s, nil, time.Now())
			}
		case <-decide.C:
			c.cycle(ctx)
		}
	}
}

// cycle is one control interval: observe, decide, apply, report.
func (c *Controller) cycle(ctx context.Context) {
	c.refreshMembers(ctx)
	snapshots := c.collect(ctx)
	if ctx.Err() != nil {
		return // stopping: an interrupted collection is not a missing one
	}
	now := time.Now()
	for _, s := range c.Services {
		c.decide(ctx, s, snapshots[s.Source], now)
	}
	if c.Store == nil {
		return
	}
	if err := c.Store(c.states); err != nil {
		c.Logger.Warn("state not stored: a restart would begin with equal weights", "error", err)
	}
}

// collect asks each source once, all of them at the same time, so that one that
// hangs does not hold up the others' services. A source that does not answer
// leaves its part missing, and the guards do the rest.
func (c *Controller) collect(ctx context.Context) map[source.Source]model.Snapshot {
	ctx, cancel := context.WithTimeout(ctx, min(c.Interval/2, collectWithin))
	defer cancel()
	endpoints := map[source.Source][]model.Endpoint{}
	for _, s := range c.Services {
		if members := c.members[s.Name]; len(members) > 0 {
			endpoints[s.Source] = append(endpoints[s.Source], members...)
		}
	}
	var (
		wait      sync.WaitGroup
		mu        sync.Mutex
		snapshots = make(map[source.Source]model.Snapshot, len(endpoints))
	)
	for src, list := range endpoints {
		wait.Go(func() {
			snapshot, err := src.Collect(ctx, list)
			if err != nil && !errors.Is(ctx.Err(), context.Canceled) {
				c.Logger.Warn("no samples", "error", err)
			}
			if snapshot == nil {
				snapshot = model.Snapshot{}
			}
			mu.Lock()
			defer mu.Unlock()
			snapshots[src] = snapshot
		})
	}
	wait.Wait()
	return snapshots
}

// refreshMembers looks up who is there and returns the services that changed.
func (c *Controller) refreshMembers(ctx context.Context) []Service {
	var changed []Service
	for _, s := range c.Services {
		list, err := c.lookUp(ctx, s)
		if err != nil {
			if ctx.Err() == nil {
				c.Logger.Warn("membership unknown, the last one stays", "service", s.Name, "error", err)
			}
			continue
		}
		if !slices.Equal(list, c.members[s.Name]) {
			c.members[s.Name] = list
			changed = append(changed, s)
		}
	}
	return changed
}

func (c *Controller) lookUp(ctx context.Context, s Service) ([]model.Endpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	list, err := s.Members.List(ctx)
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("the list of endpoints is empty")
	}
	return list, err
}

// decide settles one service's weights and applies them. Without a snapshot it
// only follows membership.
func (c *Controller) decide(ctx context.Context, s Service, snapshot model.Snapshot, now time.Time) {
	members := c.members[s.Name]
	if len(members) == 0 {
		return // nothing is known, so nothing is said: Envoy keeps what it has
	}
	before := c.states[s.Name]
	d := balance.Decide(balance.Input{
		Now: now, Endpoints: members, Snapshot: snapshot,
		Current: before.Weights, Memory: before.Memory, Policy: s.Policy,
	})
	if err := c.Applier.Apply(ctx, apply.Assignment{Service: s.Name, Endpoints: members, Weights: d.Weights}); err != nil {
		c.Logger.Error("weights not applied", "service", s.Name, "error", err)
		return
	}
	c.states[s.Name] = State{Weights: d.Weights, Memory: d.Memory}
	c.report(s, d, snapshot != nil)
	if c.OnDecision != nil {
		c.OnDecision(Event{Service: s.Name, At: now, Sampled: snapshot != nil, Decision: d})
	}
}

func (c *Controller) report(s Service, d balance.Decision, sampled bool) {
	switch {
	case d.Hold.Reason == balance.Released:
		c.Logger.Warn("weights released", "service", s.Name, "why", d.Hold.Message)
	case d.Hold.Reason == "":
		c.Logger.Info("weights decided", "service", s.Name, "endpoints", len(d.Verdicts), "evidence", d.Memory.Evidence)
	case sampled:
		c.Logger.Info("weights held", "service", s.Name, "reason", d.Hold.Reason, "why", d.Hold.Message)
	default:
		c.Logger.Info("membership applied", "service", s.Name, "endpoints", len(d.Verdicts))
	}
	for _, v := range d.Verdicts {
		c.Logger.Debug("endpoint", "service", s.Name, "address", v.Address, "weight", v.Weight, "reason", v.Reason, "why", v.Why())
	}
}
