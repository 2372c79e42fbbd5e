package kubernetes

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"

	"taper.dev/taper/internal/matrix"
	"taper.dev/taper/internal/probe"
)

// pod carries app=net.
func pod(name, node string, onHost bool, status corev1.PodStatus, ports ...corev1.ContainerPort) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name, Labels: map[string]string{"app": "net"}},
		Spec:       corev1.PodSpec{NodeName: node, HostNetwork: onHost, Containers: []corev1.Container{{Ports: ports}}},
		Status:     status,
	}
}

func TestPods(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	ended := ready("10.32.0.77")
	ended.Phase = corev1.PodSucceeded
	going := pod("going", "node-0", false, ready("10.32.0.78"))
	going.DeletionTimestamp, going.Finalizers = &metav1.Time{Time: time.Now()}, []string{"x/y"}
	pending := pod("pending", "", false, waiting("", ""))
	pending.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"node-2"}}}}},
	}}}
	other := pod("other", "node-0", false, ready("10.32.0.79"))
	other.Labels["app"] = "web"
	for _, p := range []*corev1.Pod{
		pod("host-0", "node-0", true, ready("192.168.0.1"), corev1.ContainerPort{Name: "net", ContainerPort: 4444}),
		pod("pod-0", "node-0", false, ready("fd00::1")),
		pod("a", "node-1", false, ready("10.32.0.1")), pod("b", "node-1", false, ready("10.32.0.2")),
		pending, pod("ended", "node-0", false, ended), going, other,
	} {
		add(t, c, p)
	}
	got, notes, err := Pods(t.Context(), c, Selection{Namespace: "demo", Selector: "app=net", Port: 4000, BlockLabel: "rack"})
	if err != nil || len(notes) != 0 {
		t.Fatal(err, notes)
	}
	want := []matrix.Agent{
		{Name: "node-0", Block: "r-node-0", Type: "m5.large", Addresses: map[probe.Path]string{probe.HostPath: "192.168.0.1:4444", probe.PodPath: "[fd00::1]:4000"}},
		{Name: "a", Block: "r-node-1", Type: "m5.large", Addresses: map[probe.Path]string{probe.PodPath: "10.32.0.1:4000"}},
		{Name: "b", Block: "r-node-1", Type: "m5.large", Addresses: map[probe.Path]string{probe.PodPath: "10.32.0.2:4000"}},
		{Name: "node-2", Block: "r-node-2", Type: "m5.large", Problem: "pod pending on the pod network: it is not ready, its phase is Pending"},
	}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i, a := range got {
		if a.Name != want[i].Name || a.Block != want[i].Block || a.Type != want[i].Type || a.Problem != want[i].Problem || !maps.Equal(a.Addresses, want[i].Addresses) {
			t.Errorf("%+v, want %+v", a, want[i])
		}
	}

	for selector, want := range map[string]string{"": "the selector is empty", "a in": "is not one", "app=none": "no pod in namespace demo carries app=none"} {
		if _, _, err := Pods(t.Context(), c, Selection{Namespace: "demo", Selector: selector}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", selector, err, want)
		}
	}
	c.PrependReactor("list", "nodes", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(groupResource, "x", errors.New("no"))
	})
	got, notes, err = Pods(t.Context(), c, Selection{Namespace: "demo", Selector: "app=net"})
	if err != nil || len(got) != 4 || got[0].Block != "" || len(notes) != 1 || !strings.Contains(notes[0], "the verb list on nodes") {
		t.Errorf("%v, %+v, %q", err, got, notes)
	}
	c.PrependReactor("list", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewUnauthorized("expired")
	})
	if _, _, err = Pods(t.Context(), c, Selection{Namespace: "demo", Selector: "app=net"}); err == nil || !strings.Contains(err.Error(), "does not accept the credentials") {
		t.Error(err)
	}
}
