package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/apply/serviceentry"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/internal/operator/membership"
)

// view is what the cluster says about a policy's service now.
type view struct {
	service *corev1.Service
	host    string
	members membership.Membership
	// endpoints are the members as a decision takes them, in the same order.
	endpoints []model.Endpoint
}

// observe finds out who is behind the policy's service. A *membership.Refusal says
// why the policy cannot act; other errors are worth another try.
func (r *reconciler) observe(ctx context.Context, policy *v1alpha1.BalancePolicy) (*view, error) {
	if err := r.mayAct(ctx, policy); err != nil {
		return nil, err
	}
	service, err := serviceOf(ctx, r.client, policy)
	if apierrors.IsNotFound(err) {
		return nil, &membership.Refusal{Reason: "ServiceNotFound", Message: fmt.Sprintf("there is no Service %s in namespace %s", policy.Spec.TargetRef.Name, policy.Namespace)}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the service: %w", err)
	}
	list, err := slicesOf(ctx, r.client, service.Namespace, service.Name)
	if err != nil {
		return nil, fmt.Errorf("reading the service's EndpointSlices: %w", err)
	}
	r.pods.watch(keyOf(policy), podsOf(service.Namespace, list))
	members, err := membership.Resolve(membership.Input{
		Service: service, Slices: list, Ports: policy.Spec.Ports, Locality: r.nodes.Locality,
		Pod:       func(name string) *membership.Pod { return r.podIndex.Get(service.Namespace, name) },
		DualStack: r.options.DualStack, Network: r.options.Network,
	})
	if err != nil {
		return nil, err
	}
	v := &view{
		service: service, members: members, host: serviceentry.Host(service.Name, service.Namespace, r.options.ClusterDomain),
		endpoints: make([]model.Endpoint, 0, len(members.Members)),
	}
	for i := range members.Members {
		m := &members.Members[i]
		v.endpoints = append(v.endpoints, model.Endpoint{Address: m.Address, Name: podKey(m.Pod.Namespace, m.Pod.Name), Capacity: m.Pod.Cores})
	}
	return v, nil
}

// mayAct refuses a policy whose service another one, an older one, acts on.
func (r *reconciler) mayAct(ctx context.Context, policy *v1alpha1.BalancePolicy) error {
	all, err := policiesOf(ctx, r.client, policy.Namespace, policy.Spec.TargetRef.Name)
	if err != nil {
		return fmt.Errorf("reading the policies of the service: %w", err)
	}
	for i := range all {
		if older(&all[i], policy) {
			return &membership.Refusal{Reason: reasonConflict, Message: fmt.Sprintf("policy %s, which is older, is for the same service; delete one of the two", all[i].Name)}
		}
	}
	return nil
}

// older tells whether a comes before b: the same on every replica, and after a restart.
func older(a, b *v1alpha1.BalancePolicy) bool {
	if a.UID == b.UID {
		return false
	}
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// podsOf names the pods that the slices mention, whether they are known yet or not.
func podsOf(namespace string, list []*discoveryv1.EndpointSlice) []string {
	var pods []string
	for _, s := range list {
		for i := range s.Endpoints {
			if ref := s.Endpoints[i].TargetRef; ref != nil && ref.Kind == podKind {
				pods = append(pods, podKey(namespace, ref.Name))
			}
		}
	}
	slices.Sort(pods)
	return slices.Compact(pods)
}

// sourceOf is the source that the policy names, or the operator's own, and what is
// wrong with it. One that cannot be asked counts as one that does not answer: weights
// are held, and then stepped back, rather than dropped for a typing error.
func (r *reconciler) sourceOf(policy *v1alpha1.BalancePolicy) (ref sourceRef, invalid, err error) {
	spec := policy.Spec.Source
	if spec == nil {
		spec = &r.options.Source
	}
	ref, err = refOf(policy.Namespace, spec)
	return ref, Check(spec), err
}

// refused returns the refusal in err, if there is one.
func refused(err error) *membership.Refusal {
	refusal, _ := errors.AsType[*membership.Refusal](err)
	return refusal
}
