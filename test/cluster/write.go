package cluster

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	istionetworkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	taperv1alpha1 "taper.dev/taper/api/v1alpha1"
)

// Scheme has the types of Kubernetes, Istio's networking and taper.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme,
		apiextensionsv1.AddToScheme,
		istionetworkingv1.AddToScheme,
		taperv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err) // two types of one name: a defect of this program
		}
	}
	return scheme
}

// describe names an object in errors: its kind, if it says so, and name.
func describe(o client.Object) string {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = reflect.TypeOf(o).Elem().Name()
	}
	return kind + " " + client.ObjectKeyFromObject(o).String()
}

// Create creates objects in their order. The status of nodes and pods is written
// too, which the API server leaves out of a creation.
func (c *Cluster) Create(ctx context.Context, objects ...client.Object) error {
	for _, o := range objects {
		if err := c.create(ctx, o); err != nil {
			return fmt.Errorf("creating %s: %w", describe(o), err)
		}
	}
	return nil
}

func (c *Cluster) create(ctx context.Context, o client.Object) error {
	switch o := o.(type) {
	case *corev1.Pod:
		status := o.Status.DeepCopy()
		if err := c.client.Create(ctx, o); err != nil {
			return err
		}
		return c.ChangeStatus(ctx, o, func() { o.Status = *status })
	case *corev1.Node:
		status := o.Status.DeepCopy()
		if err := c.client.Create(ctx, o); err != nil {
			return err
		}
		return c.ChangeStatus(ctx, o, func() { o.Status = *status })
	default:
		return c.client.Create(ctx, o)
	}
}

func (c *Cluster) ensureNamespace(ctx context.Context, name string) error {
	if err := c.Create(ctx, Namespace(name)); !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// Change reads the object anew, lets change edit it and writes it back; once more
// if somebody else was faster.
func (c *Cluster) Change(ctx context.Context, o client.Object, change func()) error {
	return c.change(ctx, o, change, func() error { return c.client.Update(ctx, o) })
}

// ChangeStatus is Change of an object's status.
func (c *Cluster) ChangeStatus(ctx context.Context, o client.Object, change func()) error {
	return c.change(ctx, o, change, func() error { return c.client.Status().Update(ctx, o) })
}

func (c *Cluster) change(ctx context.Context, o client.Object, change func(), write func() error) error {
	key, what := client.ObjectKeyFromObject(o), describe(o)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		reflect.ValueOf(o).Elem().SetZero() // reading leaves what is not mentioned as it is
		if err := c.client.Get(ctx, key, o); err != nil {
			return err
		}
		change()
		return write()
	})
	if err != nil {
		return fmt.Errorf("changing %s: %w", what, err)
	}
	return nil
}

// AddEndpoint adds a ready pod to a slice.
func (c *Cluster) AddEndpoint(ctx context.Context, slice *discoveryv1.EndpointSlice, pod *corev1.Pod) error {
	return c.Change(ctx, slice, func() {
		slice.Endpoints = append(slice.Endpoints, Endpoint(slice.AddressType, pod))
	})
}

// RemoveEndpoint takes a pod out of a slice.
func (c *Cluster) RemoveEndpoint(ctx context.Context, slice *discoveryv1.EndpointSlice, pod *corev1.Pod) error {
	return c.Change(ctx, slice, func() {
		slice.Endpoints = slices.DeleteFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool { return isFor(e, pod) })
	})
}

// SetReady changes what a slice says of a pod's readiness.
func (c *Cluster) SetReady(ctx context.Context, slice *discoveryv1.EndpointSlice, pod *corev1.Pod, ready bool) error {
	return c.Change(ctx, slice, func() {
		for i, e := range slice.Endpoints {
			if isFor(e, pod) {
				slice.Endpoints[i].Conditions = conditions(ready)
			}
		}
	})
}

func isFor(e discoveryv1.Endpoint, pod *corev1.Pod) bool {
	return e.TargetRef != nil && e.TargetRef.Name == pod.Name
}

// DeletePod removes a pod at once, as a kubelet does once its containers are gone.
func (c *Cluster) DeletePod(ctx context.Context, pod *corev1.Pod) error {
	if err := c.client.Delete(ctx, pod, client.GracePeriodSeconds(0)); err != nil {
		return fmt.Errorf("deleting %s: %w", describe(pod), err)
	}
	return nil
}
