package operator

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/apply/serviceentry"
	"taper.dev/taper/internal/balance"
)

// giveBackEvery is the time between two steps towards equal weights, or the interval
// where that is shorter: somebody is waiting for the policy to be gone.
const giveBackEvery = 5 * time.Second

// giveBack returns a service to its own weights and lets the policy go: in steps as
// long as endpoints are known, and at once when they are not.
func (r *reconciler) giveBack(ctx context.Context, policy *v1alpha1.BalancePolicy, st *state) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(policy, finalizer) {
		return reconcile.Result{}, nil // it has never written, or is done
	}
	if !r.settled() {
		return reconcile.Result{RequeueAfter: settleAgain}, nil
	}
	r.collect.unsubscribe(keyOf(policy))
	seen, err := r.observe(ctx, policy)
	if err != nil && refused(err) == nil {
		return reconcile.Result{}, err
	}
	if seen != nil {
		st.restore(r.records(seen.host, policy), r.now())
		equal, err := r.step(ctx, policy, st, seen)
		if err != nil {
			return reconcile.Result{}, err
		}
		if !equal {
			return reconcile.Result{RequeueAfter: giveBackPause(policy)}, nil
		}
	}
	if err := r.removeEntries(ctx, policy); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, r.dropFinalizer(ctx, policy)
}

// stepBack is the way from Enforce to Recommend.
func (r *reconciler) stepBack(ctx context.Context, policy *v1alpha1.BalancePolicy, st *state, seen *view) (reconcile.Result, error) {
	r.collect.unsubscribe(keyOf(policy))
	equal, err := r.step(ctx, policy, st, seen)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !equal {
		a := applied{metav1.ConditionTrue, "SteppingBack", "mode is Recommend: weights step back to equal, then the entries are removed", nil}
		return reconcile.Result{RequeueAfter: giveBackPause(policy)}, r.report(ctx, policy, st, outcome{seen: seen, applied: a})
	}
	if err := r.removeEntries(ctx, policy); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.dropFinalizer(ctx, policy); err != nil {
		return reconcile.Result{}, err // and once more, as long as weights count as engaged
	}
	st.forgetDecisions()
	return reconcile.Result{RequeueAfter: time.Millisecond}, nil // to recommend from now on
}

func giveBackPause(policy *v1alpha1.BalancePolicy) time.Duration {
	return min(giveBackEvery, intervalOf(&policy.Spec))
}

// step moves the weights in force one step nearer to equal, and tells whether they
// are equal already. Steps keep their distance, however often this is called.
func (r *reconciler) step(ctx context.Context, policy *v1alpha1.BalancePolicy, st *state, seen *view) (equal bool, err error) {
	if !st.engaged {
		return true, nil
	}
	p, err := settings(&policy.Spec)
	if err != nil {
		return true, nil // nothing in such a spec says how: it is taken away at once
	}
	p.MaxStep = balance.DefaultPolicy(p.Interval).MaxStep
	// Steps go on when they cannot be written, unlike decisions: where the namespace or
	// Istio goes too, nothing will ever be, and the policy must not stay for that.
	in := balance.Input{Now: r.now(), Endpoints: seen.endpoints, Current: st.weights, Memory: st.memory, Policy: p}
	if isEqual(in) {
		return true, nil
	}
	if due := r.now().Sub(st.steppedAt) >= giveBackPause(policy); due {
		st.weights, _ = balance.Release(in)
		st.steppedAt = in.Now
	} else {
		st.weights = balance.Decide(in).Weights // endpoints come and go all the same
	}
	st.members = seen.endpoints
	for _, entry := range r.desired(policy, st, seen) {
		written, err := r.applier.Apply(ctx, entry)
		if foreign, ok := errors.AsType[*serviceentry.ForeignError](err); ok {
			r.logger.Warn("not stepped back", "policy", keyOf(policy).String(), "error", foreign)
			return true, nil // somebody else's entry serves: ours can go at once
		}
		if err != nil {
			return false, err
		}
		if written {
			r.wrote(policy, st)
		}
	}
	st.written(r.now())
	return false, nil
}

// isEqual tells whether every endpoint has the same weight, and none is missing.
func isEqual(in balance.Input) bool {
	if len(in.Endpoints) == 0 {
		return true
	}
	first := in.Current[in.Endpoints[0].Address]
	for _, e := range in.Endpoints {
		if w := in.Current[e.Address]; w == 0 || w != first {
			return false
		}
	}
	return true
}
