package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clientset "k8s.io/client-go/kubernetes"

	"taper.dev/taper/internal/matrix"
	"taper.dev/taper/internal/probe"
)

// Selection says which pods are agents.
type Selection struct {
	Namespace string
	// Selector is a label selector, as kubectl takes it. It may not be empty: no pod is
	// asked that was not meant.
	Selector string
	// Port is where agents listen whose pods do not name a container port "net".
	Port int32
	// BlockLabel is the node label that makes blocks.
	BlockLabel string
}

const (
	// portName is that of an agent's port among those of its container.
	portName = "net"
	// pageSize is how many objects are read at once.
	pageSize = 500
	// DefaultBlockLabel is the node's zone.
	DefaultBlockLabel = corev1.LabelTopologyZone
)

// Pods are the agents that run in pods with a label, by node: one on the host network and
// one on the pod network make one agent with two addresses. What a reader must know of them
// is in notes.
func Pods(ctx context.Context, client clientset.Interface, s Selection) (agents []matrix.Agent, notes []string, err error) {
	selector, err := labels.Parse(s.Selector)
	if err != nil {
		return nil, nil, fmt.Errorf("the selector %q is not one: %w", s.Selector, err)
	}
	if selector.Empty() {
		return nil, nil, errors.New("the selector is empty: give the label of the agents' pods, such as app=taper-net")
	}
	pods, err := listPods(ctx, client, s.Namespace, s.Selector)
	if err != nil {
		return nil, nil, explain("listing pods in namespace "+s.Namespace, err)
	}
	if len(pods) == 0 {
		return nil, nil, fmt.Errorf("no pod in namespace %s carries %s", s.Namespace, s.Selector)
	}
	nodes, notes, err := listNodes(ctx, client)
	if err != nil {
		return nil, nil, err
	}
	agents, more := agentsOf(pods, nodes, s.Port, s.BlockLabel)
	return agents, append(notes, more...), nil
}

// listPods are those that have not ended and are not about to.
func listPods(ctx context.Context, client clientset.Interface, namespace, selector string) ([]corev1.Pod, error) {
	var pods []corev1.Pod
	options := metav1.ListOptions{LabelSelector: selector, Limit: pageSize}
	for {
		list, err := client.CoreV1().Pods(namespace).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for _, p := range list.Items {
			if p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
				pods = append(pods, p)
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return pods, nil
		}
	}
}

// listNodes are the labels of nodes by name. Where they may not be read, a note says so.
func listNodes(ctx context.Context, client clientset.Interface) (map[string]map[string]string, []string, error) {
	nodes := map[string]map[string]string{}
	options := metav1.ListOptions{Limit: pageSize}
	for {
		list, err := client.CoreV1().Nodes().List(ctx, options)
		if apierrors.IsForbidden(err) {
			return nil, []string{"Nodes may not be listed, so that zones and types of machines are not known: it takes the verb list on nodes."}, nil
		}
		if err != nil {
			return nil, nil, explain("listing nodes", err)
		}
		for i := range list.Items {
			nodes[list.Items[i].Name] = list.Items[i].Labels
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return nodes, nil, nil
		}
	}
}

// agentsOf makes one agent of the pods of each node, unless it has several on one path:
// those are agents of their own, by the names of their pods.
func agentsOf(pods []corev1.Pod, nodes map[string]map[string]string, port int32, blockLabel string) (agents []matrix.Agent, notes []string) {
	byNode := map[string][]corev1.Pod{}
	for _, p := range pods {
		byNode[nodeOf(&p)] = append(byNode[nodeOf(&p)], p)
	}
	for _, node := range slices.Sorted(maps.Keys(byNode)) {
		group := byNode[node]
		slices.SortFunc(group, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
		agent := matrix.Agent{Name: node, Block: nodes[node][blockLabel], Type: nodes[node][corev1.LabelInstanceTypeStable]}
		if node != "" && onDifferentPaths(group) {
			agent, more := agentOf(agent, group, port)
			agents, notes = append(agents, agent), append(notes, more...)
			continue
		}
		for _, p := range group {
			agent.Name = p.Name
			one, more := agentOf(agent, []corev1.Pod{p}, port)
			agents, notes = append(agents, one), append(notes, more...)
		}
	}
	return agents, notes
}

// agentOf gives an agent the addresses of pods on different paths. If none of them is
// ready it has a problem; if only one is not, a note tells.
func agentOf(agent matrix.Agent, pods []corev1.Pod, port int32) (matrix.Agent, []string) {
	agent.Addresses = map[probe.Path]string{}
	var problems []string
	for _, p := range pods {
		if problem := problemOf(&p); problem != "" {
			problems = append(problems, fmt.Sprintf("pod %s on the %s network: %s", p.Name, pathOf(&p), problem))
			continue
		}
		agent.Addresses[pathOf(&p)] = net.JoinHostPort(p.Status.PodIP, strconv.Itoa(int(portOf(&p, port))))
	}
	if len(agent.Addresses) == 0 {
		agent.Problem = strings.Join(problems, "; ")
		return agent, nil
	}
	for i, problem := range problems {
		problems[i] = fmt.Sprintf("%s: %s.", agent.Name, problem)
	}
	return agent, problems
}

func onDifferentPaths(pods []corev1.Pod) bool {
	seen := map[probe.Path]bool{}
	for _, p := range pods {
		if seen[pathOf(&p)] {
			return false
		}
		seen[pathOf(&p)] = true
	}
	return true
}

func pathOf(p *corev1.Pod) probe.Path {
	if p.Spec.HostNetwork {
		return probe.HostPath
	}
	return probe.PodPath
}

func portOf(p *corev1.Pod, otherwise int32) int32 {
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			if port.Name == portName {
				return port.ContainerPort
			}
		}
	}
	return otherwise
}

// nodeOf is the node that a pod is on, or that it is meant for: the DaemonSet controller
// says so by an affinity. Empty if nobody knows.
func nodeOf(p *corev1.Pod) string {
	if p.Spec.NodeName != "" {
		return p.Spec.NodeName
	}
	if p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil || p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

// problemOf is why a pod cannot be asked; empty if it can.
func problemOf(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && p.Status.PodIP != "" {
			return ""
		}
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && w.Reason != "" {
			return withMessage(w.Reason, w.Message)
		}
		if e := c.State.Terminated; e != nil {
			return withMessage(fmt.Sprintf("it ended with exit code %d, %s", e.ExitCode, e.Reason), e.Message)
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return withMessage(c.Reason, c.Message)
		}
	}
	return fmt.Sprintf("it is not ready, its phase is %s", cmp.Or(p.Status.Phase, corev1.PodPending))
}

func withMessage(reason, message string) string {
	if message == "" {
		return reason
	}
	return reason + ": " + message
}
