package operator

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/apply/serviceentry"
	"taper.dev/taper/internal/operator/membership"
)

const (
	// atOnce is how many policies are reconciled at the same time: most of a
	// reconciliation that writes is a wait for the API server.
	atOnce = 8
	// retryFirst and retryMost bound the back-off after an error. It ends low: an
	// endpoint that could not be removed gets requests until it is.
	retryFirst, retryMost = 20 * time.Millisecond, 5 * time.Second
	// tickPriority puts rounds of samples behind changes of membership, which hurt
	// when they wait, and statusPriority puts statuses that can wait behind both.
	tickPriority   = -1
	statusPriority = -2
)

// watchAll builds the controller: what changes in the cluster, and each round of
// samples, leads to the policies concerned.
func (r *reconciler) watchAll(mgr ctrl.Manager) error {
	queued := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		r.queue.Store(&queue)
		return nil
	})
	err := ctrl.NewControllerManagedBy(mgr).Named("balancepolicy").
		For(&v1alpha1.BalancePolicy{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, deletionStarted{}))).
		Watches(&v1alpha1.BalancePolicy{}, handler.EnqueueRequestsFromMapFunc(r.siblings), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Service{}, handler.EnqueueRequestsFromMapFunc(r.ofService), builder.WithPredicates(specChanged{})).
		Watches(&discoveryv1.EndpointSlice{}, handler.EnqueueRequestsFromMapFunc(r.ofSlice)).
		WatchesRawSource(queued).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: atOnce,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, retryMost),
			// A standby fills its queue before it leads, and starts at once when it does.
			EnableWarmup:       ptr.To(true),
			SkipNameValidation: ptr.To(true), // a new term of leadership has a new controller
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building the controller: %w", err)
	}
	r.podIndex.OnChange(func(before, after *membership.Pod) {
		pod := after
		if pod == nil {
			pod = before
		}
		for _, policy := range r.pods.of(podKey(pod.Namespace, pod.Name)) {
			r.again(policy)
		}
	})
	r.nodes.OnChange(func(string) {
		if r.nodes.Synced() { // at the start each node is new
			r.againAll("")
		}
	})
	r.entries.OnChange(func(before, after *serviceentry.Record) {
		for _, record := range []*serviceentry.Record{before, after} {
			switch {
			case record == nil:
			case record.Managed && record.Policy != "":
				r.again(types.NamespacedName{Namespace: record.Namespace, Name: record.Policy})
			default:
				r.againForHosts(record) // it may be in the way, or have been
			}
		}
	})
	return nil
}

// siblings are the other policies for the service: one may act now, or may not any more.
func (r *reconciler) siblings(ctx context.Context, o client.Object) []reconcile.Request {
	return r.requests(ctx, o.GetNamespace(), o.(*v1alpha1.BalancePolicy).Spec.TargetRef.Name)
}

func (r *reconciler) ofService(ctx context.Context, o client.Object) []reconcile.Request {
	return r.requests(ctx, o.GetNamespace(), o.GetName())
}

func (r *reconciler) ofSlice(ctx context.Context, o client.Object) []reconcile.Request {
	requests := r.requests(ctx, o.GetNamespace(), o.GetLabels()[discoveryv1.LabelServiceName])
	for _, request := range requests {
		r.arrived(request.NamespacedName, r.now())
	}
	return requests
}

func (r *reconciler) requests(ctx context.Context, namespace, service string) []reconcile.Request {
	policies, err := policiesOf(ctx, r.client, namespace, service)
	if err != nil {
		r.logger.Error("policies of a service not read from the cache", "namespace", namespace, "service", service, "error", err)
		return nil
	}
	requests := make([]reconcile.Request, len(policies))
	for i := range policies {
		requests[i].NamespacedName = keyOf(&policies[i])
	}
	return requests
}

// again has a policy looked at soon.
func (r *reconciler) again(policy types.NamespacedName) { r.enqueue(policy, 0) }

// tick has a policy looked at after those whose membership changed.
func (r *reconciler) tick(policy types.NamespacedName) { r.enqueue(policy, tickPriority) }

func (r *reconciler) enqueue(policy types.NamespacedName, priority int) {
	queue := r.queue.Load()
	if queue == nil {
		return // not started yet: every policy comes up when it does
	}
	request := reconcile.Request{NamespacedName: policy}
	if prioritized, ok := (*queue).(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		prioritized.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, request)
		return
	}
	(*queue).Add(request)
}

// againForHosts has the policies looked at whose service an entry names, and those
// whose name for an entry it may have taken.
func (r *reconciler) againForHosts(record *serviceentry.Record) {
	ctx, cancel := context.WithTimeout(context.Background(), reconcileWithin)
	defer cancel()
	if strings.HasPrefix(record.Name, serviceentry.Name("", "")) {
		r.againAll(record.Namespace)
		return
	}
	for _, host := range record.Hosts {
		service, _, _ := strings.Cut(host, ".")
		for _, request := range r.requests(ctx, record.Namespace, service) {
			r.again(request.NamespacedName)
		}
	}
}

// againAll has all policies of a namespace looked at, or all there are.
func (r *reconciler) againAll(namespace string) {
	ctx, cancel := context.WithTimeout(context.Background(), reconcileWithin)
	defer cancel()
	var list v1alpha1.BalancePolicyList
	if err := r.client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		r.logger.Error("policies not read from the cache", "error", err)
		return
	}
	for i := range list.Items {
		r.again(keyOf(&list.Items[i]))
	}
}
