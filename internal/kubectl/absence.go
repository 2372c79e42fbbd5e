package kubectl

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"taper.dev/taper/api/v1alpha1"
)

// absence finds out why no policy of a namespace lists a pod.
type absence struct {
	pod, namespace string
	// policies are those of the namespace by the service that they balance.
	policies map[string][]string
	// names are theirs; cut and silent those whose list is incomplete or not there.
	names, cut, silent []string
}

func (a *absence) add(p *v1alpha1.BalancePolicy) {
	if a.policies == nil {
		a.policies = map[string][]string{}
	}
	service := p.Spec.TargetRef.Name
	a.policies[service] = append(a.policies[service], p.Name)
	a.names = append(a.names, fmt.Sprintf("%s (service %s)", p.Name, service))
	switch {
	case standingOf(p).state == noStatus:
		a.silent = append(a.silent, p.Name)
	case int(p.Status.EndpointCount) > len(p.Status.Endpoints):
		a.cut = append(a.cut, fmt.Sprintf("%s lists %d of %d endpoints", p.Name, len(p.Status.Endpoints), p.Status.EndpointCount))
	}
}

// explain returns one reason a line, the surest first. What the user may not read
// is left out: the rest is still right.
func (a *absence) explain(ctx context.Context, from *cluster) []string {
	var reasons []string
	if len(a.names) == 0 {
		reasons = append(reasons, fmt.Sprintf("namespace %s has no policy: -n NAMESPACE chooses another namespace", a.namespace))
	} else {
		reasons = append(reasons, fmt.Sprintf("namespace %s has %s: %s", a.namespace, count(len(a.names), "policy", "policies"), few(a.names)))
	}
	var pod corev1.Pod
	err := from.Get(ctx, types.NamespacedName{Namespace: a.namespace, Name: a.pod}, &pod)
	switch {
	case apierrors.IsNotFound(err):
		return append(reasons, "there is no such pod in that namespace")
	case err != nil:
		reasons = append(reasons, "it cannot be read, so it may not be ready, or behind no service that has a policy")
	default:
		reasons = append(reasons, podReasons(&pod)...)
		reasons = append(reasons, a.serviceReasons(ctx, from, &pod)...)
	}
	if len(a.cut) > 0 {
		reasons = append(reasons, "a status lists at most 500 endpoints: "+few(a.cut))
	}
	if len(a.silent) > 0 {
		reasons = append(reasons, "no status yet: "+few(a.silent)+": is taper-operator running?")
	}
	return reasons
}

// podReasons are those for which a pod is no endpoint of any service.
func podReasons(pod *corev1.Pod) []string {
	switch {
	case pod.DeletionTimestamp != nil:
		return []string{"the pod is being deleted"}
	case pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed:
		return []string{fmt.Sprintf("the pod has ended: its phase is %s", pod.Status.Phase)}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodReady || c.Status == corev1.ConditionTrue {
			continue
		}
		reason := "the pod is not ready, so its service sends it nothing"
		if c.Message != "" {
			reason += ": " + c.Message
		}
		return []string{reason}
	}
	return nil
}

// serviceReasons say which services select the pod and whether they have a policy.
func (a *absence) serviceReasons(ctx context.Context, from *cluster, pod *corev1.Pod) []string {
	var services corev1.ServiceList
	if err := from.List(ctx, &services, client.InNamespace(a.namespace)); err != nil {
		return []string{"services cannot be listed, so it may be behind none that has a policy"}
	}
	var selecting, balanced []string
	for i := range services.Items {
		s := &services.Items[i]
		if len(s.Spec.Selector) == 0 || !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(pod.Labels)) {
			continue
		}
		selecting = append(selecting, s.Name)
		balanced = append(balanced, a.policies[s.Name]...)
	}
	switch {
	case len(selecting) == 0:
		return []string{"no service selects it by its labels"}
	case len(balanced) == 0:
		return []string{"no policy is about its service: " + few(selecting)}
	}
	return []string{fmt.Sprintf("its service has a policy, %s: see kubectl taper status %s -n %s", few(balanced), balanced[0], a.namespace)}
}
