package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"taper.dev/taper/test/cluster"
)

const (
	// sending is how many changes may be on their way to the API server at once.
	sending = 32
	// absorbedWithin is how long after the last change entries are waited for.
	absorbedWithin = 30 * time.Second
)

// churn changes endpoints at the plan's rate, whether the last changes have got
// through or not, and returns how many were made.
func (w *world) churn(ctx context.Context, typed *kubernetes.Clientset, f *follower) (made int, err error) {
	order := rand.New(rand.NewPCG(1, 1)).Perm(len(w.services))
	pause := time.Second / time.Duration(w.plan.changes)
	start := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(sending)
	for n := range int(w.plan.changing / pause) {
		select {
		case <-groupCtx.Done():
			return made, group.Wait()
		case <-time.After(time.Until(start.Add(time.Duration(n) * pause))):
		}
		if time.Since(start) > w.plan.changing {
			break // it does not come to its rate, which the numbers say
		}
		s := w.services[order[n%len(order)]]
		next, c := s.next()
		if !f.expect(s.key(), c) {
			continue // the one before is not written yet; it does not count as made
		}
		s.slice = next
		s.changes++
		made++
		group.Go(func() error {
			_, err := typed.DiscoveryV1().EndpointSlices(next.Namespace).Update(groupCtx, next, metav1.UpdateOptions{})
			if err != nil {
				return fmt.Errorf("changing the EndpointSlice of %s: %w", s.key(), err)
			}
			return nil
		})
	}
	return made, group.Wait()
}

// next is the service's slice with one endpoint that comes or goes: in turns one
// that is not ready, one that is removed, and both of them back.
func (s *service) next() (*discoveryv1.EndpointSlice, *change) {
	slice := s.slice.DeepCopy()
	unready, removed := s.pods[s.changes/4*2%len(s.pods)], s.pods[(s.changes/4*2+1)%len(s.pods)]
	pod, joins := unready, s.changes%4 >= 2
	switch s.changes % 4 {
	case 0, 2:
		for i := range slice.Endpoints {
			if e := &slice.Endpoints[i]; e.TargetRef.Name == pod.Name {
				e.Conditions.Ready, e.Conditions.Serving = ptr.To(joins), ptr.To(joins)
			}
		}
	case 1:
		pod = removed
		kept := slice.Endpoints[:0]
		for _, e := range slice.Endpoints {
			if e.TargetRef.Name != pod.Name {
				kept = append(kept, e)
			}
		}
		slice.Endpoints = kept
	case 3:
		pod = removed
		slice.Endpoints = append(slice.Endpoints, cluster.Endpoint(slice.AddressType, pod))
	}
	return slice, &change{address: pod.Status.PodIP, joins: joins}
}
