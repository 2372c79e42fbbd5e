package kubernetes

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"taper.dev/taper/internal/probe"
)

// cluster is a fake API server with nodes node-0, node-1, … and a controller that makes the
// pods of DaemonSets, in the state that the test says.
type cluster struct {
	*fake.Clientset
	sets []*appsv1.DaemonSet
}

func newCluster(t *testing.T, nodes int, state func(node string, path probe.Path) corev1.PodStatus) *cluster {
	t.Helper()
	c := &cluster{Clientset: fake.NewClientset()}
	for i := range nodes {
		add(t, c, node(fmt.Sprintf("node-%d", i), fmt.Sprintf("zone-%d", i%2)))
	}
	c.PrependReactor("create", "daemonsets", func(action k8stesting.Action) (bool, runtime.Object, error) {
		set := action.(k8stesting.CreateAction).GetObject().(*appsv1.DaemonSet)
		c.sets = append(c.sets, set)
		if state == nil {
			return false, nil, nil // no controller
		}
		set.Generation, set.Status.ObservedGeneration, set.Status.DesiredNumberScheduled = 1, 1, int32(nodes)
		for i := range nodes {
			name := fmt.Sprintf("node-%d", i)
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: action.GetNamespace(), Name: set.Name + "-" + name, Labels: set.Spec.Template.Labels},
				Spec:       *set.Spec.Template.Spec.DeepCopy(),
				Status:     state(name, probe.Path(set.Name)),
			}
			pod.Spec.NodeName = name
			if err := c.Tracker().Add(pod); err != nil {
				return true, nil, err
			}
		}
		return false, nil, nil
	})
	c.PrependReactor("create", "services", func(action k8stesting.Action) (bool, runtime.Object, error) {
		action.(k8stesting.CreateAction).GetObject().(*corev1.Service).Spec.ClusterIP = "10.96.0.9"
		return false, nil, nil
	})
	return c
}

func add(t *testing.T, c *cluster, o runtime.Object) {
	t.Helper()
	if err := c.Tracker().Add(o); err != nil {
		t.Fatal(err)
	}
}

func node(name, zone string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelTopologyZone: zone, corev1.LabelInstanceTypeStable: "m5.large", "rack": "r-" + name,
	}}}
}

func ready(ip string) corev1.PodStatus {
	return corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: ip,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
}

func waiting(reason, message string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
	}}}
}

// address of a pod, by its node and network.
func address(node string, path probe.Path) string {
	if path == probe.HostPath {
		return "192.168.0." + node[5:]
	}
	return "10.32.0." + node[5:]
}

func allReady(node string, path probe.Path) corev1.PodStatus { return ready(address(node, path)) }

func options() Options {
	return Options{
		Image: "taper/taper:v1", HostPort: DefaultHostPort, PodPort: DefaultPodPort,
		BlockLabel: DefaultBlockLabel, Ready: time.Minute,
	}
}

// namespaces are those of taper that there are.
func (c *cluster) namespaces(t *testing.T) []string {
	t.Helper()
	found, err := Leftovers(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range found {
		names = append(names, l.Namespace)
	}
	return names
}
