package operator

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"taper.dev/taper/api/v1alpha1"
)

const (
	// fieldManager is the name under which everything is written.
	fieldManager = "taper-operator"
	// finalizer keeps a policy until its service has its own weights back.
	finalizer = "taper.dev/release"

	// byService is the index by which policies and EndpointSlices of a service are found.
	byService = "service"
)

// index makes policies and slices findable by their service: with a thousand of
// them in one namespace, a search for each event would be most of the work.
func index(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &v1alpha1.BalancePolicy{}, byService, func(o client.Object) []string {
		return []string{o.(*v1alpha1.BalancePolicy).Spec.TargetRef.Name}
	}); err != nil {
		return fmt.Errorf("indexing policies: %w", err)
	}
	if err := indexer.IndexField(ctx, &discoveryv1.EndpointSlice{}, byService, func(o client.Object) []string {
		return []string{o.GetLabels()[discoveryv1.LabelServiceName]}
	}); err != nil {
		return fmt.Errorf("indexing EndpointSlices: %w", err)
	}
	return nil
}

func policiesOf(ctx context.Context, c client.Reader, namespace, service string) ([]v1alpha1.BalancePolicy, error) {
	var list v1alpha1.BalancePolicyList
	err := c.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{byService: service}, client.UnsafeDisableDeepCopy)
	return list.Items, err
}

func slicesOf(ctx context.Context, c client.Reader, namespace, service string) ([]*discoveryv1.EndpointSlice, error) {
	var list discoveryv1.EndpointSliceList
	err := c.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{byService: service}, client.UnsafeDisableDeepCopy)
	pointers := make([]*discoveryv1.EndpointSlice, len(list.Items))
	for i := range list.Items {
		pointers[i] = &list.Items[i]
	}
	return pointers, err
}

func serviceOf(ctx context.Context, c client.Reader, policy *v1alpha1.BalancePolicy) (*corev1.Service, error) {
	var service corev1.Service
	key := types.NamespacedName{Namespace: policy.Namespace, Name: policy.Spec.TargetRef.Name}
	if err := c.Get(ctx, key, &service); err != nil {
		return nil, err
	}
	return &service, nil
}

// podKey is what a pod is called across namespaces, by sources and in metrics.
func podKey(namespace, pod string) string { return namespace + "/" + pod }
