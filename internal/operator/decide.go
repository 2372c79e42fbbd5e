package operator

import (
	"maps"
	"slices"
	"time"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/apply/serviceentry"
	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/model"
)

// state is what is known of a policy from one reconciliation to the next. It is
// rebuilt from the entries after a restart, but for what was learnt of demands.
type state struct {
	restored bool
	// engaged tells that the service's weights are taper's: entries exist, or a
	// decision has been made that calls for them.
	engaged bool
	// weights were decided last. With Enforce they are to be in force, with Recommend
	// they are proposed.
	weights model.Weights
	// effective are the weights that were written last, once the service is engaged: the
	// next decision steps from them, and not from what could not be written.
	effective model.Weights
	memory    balance.Memory
	decision  balance.Decision
	// sampled tells whether decision was made with samples, and when.
	sampled   bool
	decidedAt time.Time
	// collected is what became of the last round of samples; nil before the first.
	collected *collected
	moved     time.Time // when weights last changed
	moving    bool      // the last decision with samples changed weights
	steppedAt time.Time // when weights were last stepped back
	// arrived is when the oldest EndpointSlice event came that is not dealt with.
	arrived time.Time
	due     due // of the status
	// reported is the last status that was written, until the cache shows it.
	reported *reported
	members  []model.Endpoint
	mode     v1alpha1.Mode
	maxAge   time.Duration // beyond which a sample is stale, by the policy
}

// collected is what became of the last question to the source.
type collected struct {
	at       time.Time
	err      error
	failures int // in a row
}

// collect notes what became of a question to the source.
func (st *state) collect(at time.Time, err error) {
	failures := 0
	if err != nil {
		failures = 1
		if st.collected != nil {
			failures += st.collected.failures
		}
	}
	st.collected = &collected{at, err, failures}
}

// restore takes over the weights that the cluster has, once, at the start.
func (st *state) restore(records []serviceentry.Record, now time.Time) {
	if st.restored {
		return
	}
	st.restored = true
	for _, record := range records {
		if len(record.Weights) > 0 {
			st.weights, st.engaged, st.moved = maps.Clone(record.Weights), true, now
			st.effective = st.weights
			return
		}
	}
}

func (st *state) forgetDecisions() { *st = state{restored: st.restored, reported: st.reported} }

func subscriptionOf(policy *v1alpha1.BalancePolicy, ref sourceRef, seen *view) subscription {
	s := subscription{source: ref, interval: intervalOf(&policy.Spec), guardRail: policy.Spec.GuardRail}
	s.endpoints = make([]model.Endpoint, len(seen.endpoints))
	for i, e := range seen.endpoints {
		s.endpoints[i] = model.Endpoint{Address: e.Name, Name: e.Name}
	}
	return s
}

// decide settles the weights: with samples when a round has brought some, and else,
// when endpoints have come or gone, without. It keeps them when neither is so.
//
// It tells whether there was anything to decide.
func (r *reconciler) decide(policy *v1alpha1.BalancePolicy, st *state, seen *view) (bool, error) {
	p, err := settings(&policy.Spec)
	if err != nil {
		return false, err
	}
	st.maxAge = p.MaxAge
	if st.mode != policy.Spec.Mode {
		st.mode = policy.Spec.Mode
		if st.mode == v1alpha1.Enforce && !st.engaged {
			st.weights = nil // what was proposed is not in force: it is where to step to
		}
	}
	round := r.collect.take(keyOf(policy))
	if round != nil {
		defer round.decided()
		st.collect(round.at, round.err)
	}
	changed := !slices.Equal(st.members, seen.endpoints)
	if (round == nil || policy.Spec.Suspend) && !changed && !st.decidedAt.IsZero() {
		return false, nil
	}
	in := balance.Input{Now: r.now(), Endpoints: seen.endpoints, Current: st.current(), Memory: st.memory, Policy: p}
	if round != nil && !policy.Spec.Suspend {
		var mixed bool
		if in.Snapshot, mixed = st.snapshot(seen.endpoints, round, &p); mixed {
			// What was learnt before the weights moved is not stale: it has no successor yet.
			in.Policy.MaxAge += in.Now.Sub(st.moved)
		}
		in.Rail = round.rails[keyOf(policy)]
		if policy.Spec.Mode != v1alpha1.Enforce {
			in.Current = equalWeights(seen.endpoints) // which is what serves meanwhile
		}
	}
	st.accept(balance.Decide(in), in)
	r.log(policy, st)
	return true, nil
}

// current are the weights that a decision steps from.
func (st *state) current() model.Weights {
	if st.engaged {
		return st.effective
	}
	return st.weights
}

// written notes that the decided weights are in force.
func (st *state) written(now time.Time) {
	if !maps.Equal(st.effective, st.weights) {
		st.effective, st.moved = st.weights, now
	}
}

// snapshot picks a policy's own samples out of a round, but for those that are of
// several weights: they count as not measured yet. It tells whether such there were
// that are fresh.
func (st *state) snapshot(endpoints []model.Endpoint, r *round, p *balance.Policy) (snapshot model.Snapshot, mixed bool) {
	snapshot = make(model.Snapshot, len(endpoints))
	for _, e := range endpoints {
		sample, ok := r.snapshot[e.Name]
		switch {
		case !ok:
		case !st.isMixed(&sample, p.Interval):
			snapshot[e.Address] = sample
		default:
			mixed = mixed || r.at.Sub(sample.CPU.At) <= p.MaxAge
		}
	}
	return snapshot, mixed
}

// isMixed tells whether a sample says what was used under several weights. Without
// request rates, CPU is divided by the share in force: what was used under another
// share would be divided by the wrong one, and equal pods would drift apart. A sample
// that does not tell its window is taken to have one of an interval.
func (st *state) isMixed(sample *model.Sample, interval time.Duration) bool {
	blind := !sample.Requests.Known() && !sample.InFlight.Known()
	return blind && st.engaged && sample.CPU.At.Before(st.moved.Add(max(interval, sample.Window)))
}

func equalWeights(endpoints []model.Endpoint) model.Weights {
	weights := make(model.Weights, len(endpoints))
	for _, e := range endpoints {
		weights[e.Address] = equalWeight
	}
	return weights
}

// accept makes a decision the state.
func (st *state) accept(d balance.Decision, in balance.Input) {
	changed := !maps.Equal(d.Weights, st.weights)
	if changed {
		st.moved = in.Now
	}
	switch {
	case in.Snapshot == nil:
		keepReasons(&d, st.decision)
		d.Hold = st.decision.Hold
	case d.Hold.Reason == balance.NoNews:
		keepReasons(&d, st.decision)
	default:
		st.moving = changed
		if d.Hold.Reason == "" && st.mode == v1alpha1.Enforce {
			st.engaged = true
		}
	}
	st.members, st.weights, st.memory = in.Endpoints, d.Weights, d.Memory
	st.decision, st.sampled, st.decidedAt = d, in.Snapshot != nil, in.Now
}

// keepReasons leaves the endpoints that were there before their reasons: that
// another one came or went, or that nothing was measured anew, says nothing about
// them.
func keepReasons(d *balance.Decision, before balance.Decision) {
	if len(before.Verdicts) == 0 {
		return
	}
	known := make(map[string]balance.Reason, len(before.Verdicts))
	for _, v := range before.Verdicts {
		known[v.Address] = v.Reason
	}
	for i := range d.Verdicts {
		if reason, ok := known[d.Verdicts[i].Address]; ok {
			d.Verdicts[i].Reason = reason
		}
	}
}
