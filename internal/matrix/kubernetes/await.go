package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"taper.dev/taper/internal/probe"
)

// rollout is how far the agents are.
type rollout struct {
	sets []appsv1.DaemonSet
	pods []corev1.Pod
}

// wanted is how many agents there should be; false if that is not known yet.
func (r rollout) wanted() (int, bool) {
	n := 0
	for _, s := range r.sets {
		if s.Status.ObservedGeneration < s.Generation || s.Status.DesiredNumberScheduled == 0 {
			return 0, false
		}
		n += int(s.Status.DesiredNumberScheduled)
	}
	return n, len(r.sets) > 0
}

// ready is how many agents can be asked.
func (r rollout) ready() int {
	n := 0
	for i := range r.pods {
		if problemOf(&r.pods[i]) == "" {
			n++
		}
	}
	return n
}

// stuck are reasons for which a container waits that do not pass by themselves.
var stuck = []string{"ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CrashLoopBackOff", "CreateContainerConfigError"}

// hopeless tells whether all agents wait for such a reason.
func (r rollout) hopeless() bool {
	wanted, known := r.wanted()
	if !known || len(r.pods) < wanted {
		return false
	}
	return !slices.ContainsFunc(r.pods, func(p corev1.Pod) bool {
		reason, _, _ := strings.Cut(problemOf(&p), ":")
		return !slices.Contains(stuck, reason)
	})
}

// await waits until all agents are ready, or the time is over: it then goes on with those
// that are.
func (d *Deployment) await(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, d.o.Ready)
	defer cancel()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	var last rollout
	var lastErr error
	d.o.Progress("waiting for agents in namespace " + d.Namespace)
	for done := false; !done; {
		now, err := d.look(limited)
		switch wanted, known := now.wanted(); {
		case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
			return explain("waiting for the agents", err)
		case err != nil:
			lastErr = err // it may pass
		case known && now.ready() >= wanted, now.hopeless():
			last, lastErr, done = now, nil, true
			continue
		default:
			last, lastErr = now, nil
			if known {
				d.o.Progress(fmt.Sprintf("%d of %d agents are ready in namespace %s", now.ready(), wanted, d.Namespace))
			}
		}
		select {
		case <-ticker.C:
		case <-limited.Done():
			done = true
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if lastErr != nil && last.sets == nil {
		return explain("waiting for the agents", lastErr)
	}
	return d.take(ctx, last)
}

// look asks how far the agents are.
func (d *Deployment) look(ctx context.Context) (rollout, error) {
	sets, err := d.client.AppsV1().DaemonSets(d.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return rollout{}, err
	}
	pods, err := listPods(ctx, d.client, d.Namespace, ofTaper)
	return rollout{sets.Items, pods}, err
}

// take makes the matrix' agents of those that are ready.
func (d *Deployment) take(ctx context.Context, r rollout) error {
	nodes, notes, err := listNodes(ctx, d.client)
	if err != nil {
		return err
	}
	agents, more := agentsOf(r.pods, nodes, d.o.PodPort, d.o.BlockLabel)
	d.Agents, d.Notes = agents, append(notes, more...)
	here, missing := 0, []string{}
	for _, a := range agents {
		if a.Problem == "" {
			here++
		} else {
			missing = append(missing, fmt.Sprintf("%s: %s", a.Name, a.Problem))
		}
	}
	wanted, _ := r.wanted()
	refused := ""
	if len(r.pods) < wanted || wanted == 0 {
		refused = d.refused(ctx)
	}
	if here >= 2 {
		if n := wanted - len(r.pods); n > 0 {
			d.Notes = append(d.Notes, fmt.Sprintf("%d agents have no pod%s.", n, refused))
		}
		return nil
	}
	return errors.New(d.notReady(here, missing, refused))
}

// maxNamed bounds how many nodes an error names.
const maxNamed = 6

// notReady says which agents are missing, and why.
func (d *Deployment) notReady(here int, missing []string, refused string) string {
	text := fmt.Sprintf("%d agents are ready after %v at most, and a matrix takes 2", here, d.o.Ready)
	if more := len(missing) - maxNamed; more > 0 {
		missing = append(missing[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	switch {
	case len(missing) > 0:
		text += ": " + strings.Join(missing, "; ")
	case refused == "" && here == 0:
		text += ": there is no pod: does any node run Linux and have the labels that were asked for, and does the DaemonSet controller run?"
	}
	return text + refused
}

// refused is why pods are not made, by the last event of a DaemonSet, such as a quota or an
// admission policy; empty if there is none.
func (d *Deployment) refused(ctx context.Context) string {
	events, err := d.client.CoreV1().Events(d.Namespace).List(ctx, metav1.ListOptions{Limit: pageSize})
	if err != nil {
		return "" // it would only have said more
	}
	said := ""
	for _, e := range events.Items {
		if e.Type == corev1.EventTypeWarning && e.InvolvedObject.Kind == "DaemonSet" && (e.InvolvedObject.Name == string(probe.HostPath) || e.InvolvedObject.Name == string(probe.PodPath)) {
			said = fmt.Sprintf(" (%s: %s)", e.Reason, e.Message)
		}
	}
	return said
}
