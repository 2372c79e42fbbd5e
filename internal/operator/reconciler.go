package operator

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/apply/serviceentry"
	"taper.dev/taper/internal/operator/journal"
	"taper.dev/taper/internal/operator/membership"
	"taper.dev/taper/internal/operator/metrics"
)

// reconciler carries out policies, in four verbs: observe, decide, apply, report.
// It is called for one policy at a time, and for several policies at once.
type reconciler struct {
	options  Options
	client   client.Client // reads come from the cache
	podIndex *membership.PodIndex
	nodes    *membership.NodeIndex
	entries  *serviceentry.Index
	applier  *serviceentry.Applier
	pods     *mentions
	collect  *collector
	served   *served
	journal  *journal.Journal
	metrics  *metrics.Metrics
	events   events.EventRecorder
	logger   *slog.Logger
	leading  func() bool
	pace     *pace
	// givingBack is for uninstalling: every policy is treated as if it were deleted,
	// but stays.
	givingBack bool
	now        func() time.Time

	// queue is the controller's, once it has started.
	queue atomic.Pointer[workqueue.TypedRateLimitingInterface[reconcile.Request]]

	mu     sync.Mutex
	states map[types.NamespacedName]*state
	// arrivals hold when the oldest EndpointSlice event came that was not looked at.
	arrivals map[types.NamespacedName]time.Time
}

func keyOf(policy *v1alpha1.BalancePolicy) types.NamespacedName {
	return types.NamespacedName{Namespace: policy.Namespace, Name: policy.Name}
}

// Reconcile implements reconcile.Reconciler. An error is tried again with back-off;
// what only a person can change is reported in the status instead.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, reconcileWithin)
	defer cancel()
	arrived := r.takeArrival(request.NamespacedName)
	var policy v1alpha1.BalancePolicy
	if err := r.client.Get(ctx, request.NamespacedName, &policy); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(request.NamespacedName)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("reading the policy: %w", err)
	}
	st := r.state(request.NamespacedName)
	if st.arrived.IsZero() {
		st.arrived = arrived
	}
	result, err := r.carryOut(ctx, &policy, st)
	if err == nil {
		st.arrived = time.Time{}
	}
	return result, err
}

// reconcileWithin ends a reconciliation whose API server hangs.
const reconcileWithin = 20 * time.Second

// settleAgain is the pause before another look at entries and pods that are still
// being read.
const settleAgain = 100 * time.Millisecond

func (r *reconciler) carryOut(ctx context.Context, policy *v1alpha1.BalancePolicy, st *state) (reconcile.Result, error) {
	if !policy.DeletionTimestamp.IsZero() || r.givingBack {
		return r.giveBack(ctx, policy, st)
	}
	if !r.settled() {
		return reconcile.Result{RequeueAfter: settleAgain}, nil // what is in force is not known yet
	}
	seen, err := r.observe(ctx, policy)
	if refusal := refused(err); refusal != nil {
		return reconcile.Result{}, r.refuse(ctx, policy, st, refusal)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	ref, invalid, err := r.sourceOf(policy)
	if err != nil {
		return reconcile.Result{}, err
	}
	st.restore(r.records(seen.host, policy), r.now())
	if policy.Spec.Mode != v1alpha1.Enforce && st.engaged {
		return r.stepBack(ctx, policy, st, seen)
	}
	if policy.Spec.Mode == v1alpha1.Enforce {
		if err := r.addFinalizer(ctx, policy); err != nil {
			return reconcile.Result{}, err
		}
	}
	r.collect.subscribe(keyOf(policy), subscriptionOf(policy, ref, seen))
	decided, err := r.decide(policy, st, seen)
	if err != nil {
		return reconcile.Result{}, r.refuse(ctx, policy, st, &membership.Refusal{Reason: "InvalidSpec", Message: err.Error()})
	}
	applied, failure := r.apply(ctx, policy, st, seen)
	if err := r.report(ctx, policy, st, outcome{seen: seen, invalidSource: invalid, applied: applied, decided: decided}); err != nil {
		return reconcile.Result{}, err
	}
	if failure != nil {
		return reconcile.Result{}, failure
	}
	return reconcile.Result{RequeueAfter: r.untilDue(st), Priority: new(statusPriority)}, nil
}

// refuse stops what was going on for the policy and says why. Weights that were
// given are taken away: nobody would look after them.
func (r *reconciler) refuse(ctx context.Context, policy *v1alpha1.BalancePolicy, st *state, refusal *membership.Refusal) error {
	r.collect.unsubscribe(keyOf(policy))
	st.forgetDecisions()
	if err := r.removeEntries(ctx, policy); err != nil {
		return err
	}
	if err := r.dropFinalizer(ctx, policy); err != nil {
		return err
	}
	return r.report(ctx, policy, st, outcome{refusal: refusal})
}

// addFinalizer comes before the first entry: a policy whose entries exist must not
// vanish without giving its service back.
func (r *reconciler) addFinalizer(ctx context.Context, policy *v1alpha1.BalancePolicy) error {
	before := policy.DeepCopy()
	if !controllerutil.AddFinalizer(policy, finalizer) {
		return nil
	}
	if err := r.client.Patch(ctx, policy, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("adding the finalizer: %w", err)
	}
	return nil
}

func (r *reconciler) dropFinalizer(ctx context.Context, policy *v1alpha1.BalancePolicy) error {
	before := policy.DeepCopy()
	if !controllerutil.RemoveFinalizer(policy, finalizer) {
		return nil
	}
	err := r.client.Patch(ctx, policy, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	return nil
}

// settled tells whether the cluster was read: pods without their nodes would be written
// with wrong localities. There are no entries when the cluster does not have the kind.
func (r *reconciler) settled() bool {
	return (r.entries.Synced() || r.entries.Absent()) && r.podIndex.Synced() && r.nodes.Synced()
}

func (r *reconciler) state(policy types.NamespacedName) *state {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.states[policy]
	if st == nil {
		st = &state{}
		r.states[policy] = st
	}
	return st
}

func (r *reconciler) forget(policy types.NamespacedName) {
	r.collect.unsubscribe(policy)
	r.served.forget(policy)
	r.pods.watch(policy, nil)
	r.journal.Forget(policy)
	r.metrics.Forget(policy)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.states, policy)
	delete(r.arrivals, policy)
}

// arrived notes that an EndpointSlice of the policy's service has changed. A replica
// that stands by leaves the counting to the one that acts.
func (r *reconciler) arrived(policy types.NamespacedName, at time.Time) {
	if !r.leading() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, waiting := r.arrivals[policy]; !waiting {
		r.arrivals[policy] = at
	}
}

func (r *reconciler) takeArrival(policy types.NamespacedName) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.arrivals[policy]
	delete(r.arrivals, policy)
	return at
}
