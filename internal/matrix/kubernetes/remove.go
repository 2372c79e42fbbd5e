package kubernetes

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
)

// Remove takes everything away and waits until it is gone, for a minute at most; the
// context's end does not wait any longer. If it cannot, the error says how to do it by hand.
func (d *Deployment) Remove(ctx context.Context) error {
	d.o.Progress("removing namespace " + d.Namespace)
	return remove(ctx, d.client, d.Namespace, d.uid)
}

// remove deletes a namespace. What fails is tried again: a rollout may have made the API
// server slow, and agents that are left cost everybody.
func remove(ctx context.Context, client clientset.Interface, namespace string, only *metav1.Preconditions) error {
	ctx, cancel := context.WithTimeoutCause(ctx, removal, fmt.Errorf("it is not gone after %v", removal))
	defer cancel()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	var last error
	for deleted := false; ; {
		var err error
		if deleted {
			_, err = client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		} else {
			err = client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{Preconditions: only})
			if err == nil {
				deleted = true
				continue
			}
		}
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case apierrors.IsForbidden(err) && deleted:
			return nil // it goes, and we may not watch
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), apierrors.IsConflict(err) && !deleted:
			return byHand(namespace, err)
		case err != nil && ctx.Err() == nil:
			last = err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			if last == nil {
				last = context.Cause(ctx)
			}
			return byHand(namespace, last)
		}
	}
}

func byHand(namespace string, err error) error {
	return fmt.Errorf("removing namespace %s: %w: `kubectl delete namespace %s` removes it, with all agents", namespace, err, namespace)
}

// Leftover is what an earlier run has not removed, or another one still uses.
type Leftover struct {
	Namespace string
	Made      time.Time
	// Going is set if it is being deleted.
	Going bool
}

// Leftovers are the namespaces that runs have made and not removed.
func Leftovers(ctx context.Context, client clientset.Interface) ([]Leftover, error) {
	list, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: ofTaper})
	if err != nil {
		return nil, explain("looking for what earlier runs left", err)
	}
	var found []Leftover
	for _, n := range list.Items {
		found = append(found, Leftover{n.Name, n.CreationTimestamp.Time, n.DeletionTimestamp != nil})
	}
	return found, nil
}

// RemoveLeftover removes one of them.
func RemoveLeftover(ctx context.Context, client clientset.Interface, l Leftover) error {
	return remove(ctx, client, l.Namespace, nil)
}
