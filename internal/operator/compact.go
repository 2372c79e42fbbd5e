package operator

import (
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"

	"taper.dev/taper/api/v1alpha1"
)

// podKind is the kind of a reference to a pod.
const podKind = "Pod"

var isReady, isNotReady = true, false

// compactSlice keeps of an EndpointSlice what membership looks at. A cluster has as
// many endpoints as pods, and what they have in common is shared.
func compactSlice(o any) (any, error) {
	slice, ok := o.(*discoveryv1.EndpointSlice)
	if !ok {
		return o, nil
	}
	slice.ManagedFields, slice.Annotations, slice.OwnerReferences = nil, nil, nil
	slice.Endpoints = slices.Clone(slice.Endpoints) // without room to grow
	for i := range slice.Endpoints {
		e := &slice.Endpoints[i]
		kept := discoveryv1.Endpoint{Addresses: e.Addresses, TargetRef: e.TargetRef}
		if ready := e.Conditions.Ready; ready != nil {
			kept.Conditions.Ready = &isNotReady
			if *ready {
				kept.Conditions.Ready = &isReady
			}
		}
		if ref := kept.TargetRef; ref != nil {
			ref.UID, ref.ResourceVersion, ref.APIVersion, ref.FieldPath = "", "", "", ""
			if ref.Kind == podKind {
				ref.Kind = podKind
			}
			if ref.Namespace == slice.Namespace {
				ref.Namespace = slice.Namespace
			}
		}
		*e = kept
	}
	return slice, nil
}

// compactPolicy drops the sentences about endpoints, which are the larger part of a
// policy and only ever written: a status that differs replaces the whole list.
func compactPolicy(o any) (any, error) {
	policy, ok := o.(*v1alpha1.BalancePolicy)
	if !ok {
		return o, nil
	}
	policy.ManagedFields = nil
	policy.Status.Endpoints = slices.Clone(policy.Status.Endpoints)
	for i := range policy.Status.Endpoints {
		policy.Status.Endpoints[i].Message, policy.Status.Endpoints[i].SampleAge = "", nil
	}
	return policy, nil
}
