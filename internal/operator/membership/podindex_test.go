package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// patience is how long a test waits for what should happen at once.
const patience = 20 * time.Second

var errForbidden = apierrors.NewForbidden(corev1.Resource("x"), "", errors.New("no leave"))

// runnable is what PodIndex and NodeIndex have in common.
type runnable interface {
	Start(context.Context) error
	WaitForSync(context.Context) error
	Synced() bool
}

// start runs an index until the test ends, and checks that it ends then.
func start(t *testing.T, index runnable) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- index.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Start returned %v", err)
			}
		case <-time.After(patience):
			t.Error("Start does not return when its context ends")
		}
	})
}

func startAndSync(t *testing.T, index runnable) {
	t.Helper()
	start(t, index)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := index.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
	if !index.Synced() {
		t.Error("WaitForSync has returned, and yet it is not synced")
	}
}

// receive returns the next value of a channel.
func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("nothing was told in time")
		panic("unreachable")
	}
}

// podEvents has an index tell its changes as old>new, with resource versions.
func podEvents(index *PodIndex) <-chan string {
	events := make(chan string, 100)
	version := func(p *Pod) string {
		if p == nil {
			return ""
		}
		return p.Namespace + "/" + p.Name + "@" + p.ResourceVersion
	}
	index.OnChange(func(old, changed *Pod) { events <- version(old) + ">" + version(changed) })
	return events
}

// pod is a pod of a namespace, as the API server sends it.
func pod(namespace, name, version string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := fullPod(name)
	p.Namespace, p.ResourceVersion = namespace, version
	for _, f := range change {
		f(p)
	}
	return p
}

// fakeCluster is a client whose pods change as the test says.
func fakeCluster(pods ...runtime.Object) (*fake.Clientset, *kwatch.RaceFreeFakeWatcher) {
	client := fake.NewClientset(pods...)
	stream := kwatch.NewRaceFreeFake()
	client.PrependWatchReactor("pods", clienttesting.DefaultWatchReactor(stream, nil))
	return client, stream
}

func newPodIndex(t *testing.T, client *fake.Clientset, namespaces ...string) *PodIndex {
	t.Helper()
	index, err := NewPodIndex(client, slog.New(slog.DiscardHandler), namespaces...)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func TestPodIndex(t *testing.T) {
	t.Parallel()
	client, stream := fakeCluster(pod("demo", "a", "1"), pod("other", "a", "2"))
	index := newPodIndex(t, client)
	events := podEvents(index)
	if index.Synced() {
		t.Error("synced before the start")
	}
	startAndSync(t, index)

	first := []string{receive(t, events), receive(t, events)}
	slices.Sort(first)
	if want := []string{">demo/a@1", ">other/a@2"}; !slices.Equal(first, want) {
		t.Errorf("told of %q, want %q", first, want)
	}
	for _, namespace := range []string{"demo", "other"} {
		if p := index.Get(namespace, "a"); p == nil || p.Namespace != namespace || p.Cores != 2 {
			t.Errorf("pod a of %s: %+v", namespace, p)
		}
	}
	if p := index.Get("demo", "b"); p != nil {
		t.Errorf("there is no such pod: %+v", p)
	}

	changes := []struct {
		what   string
		change func(*corev1.Pod)
	}{
		{"label", func(p *corev1.Pod) { p.Labels["version"] = "v2" }},
		{"address", func(p *corev1.Pod) { p.Status.PodIPs[0].IP = "10.0.0.2" }},
		{"node", func(p *corev1.Pod) { p.Spec.NodeName = "node-2" }},
		{"service account", func(p *corev1.Pod) { p.Spec.ServiceAccountName = "other" }},
		{"cores", func(p *corev1.Pod) { p.Spec.Containers[0].Resources = cpu("1", "3") }},
	}
	var so []func(*corev1.Pod)
	for i, c := range changes {
		beat, next := fmt.Sprint(10*i+10), fmt.Sprint(10*i+15)
		heartbeat := func(p *corev1.Pod) { p.Status.Message, p.Annotations = beat, nil }
		stream.Modify(pod("demo", "a", beat, append(slices.Clone(so), heartbeat)...))
		so = append(so, c.change)
		stream.Modify(pod("demo", "a", next, so...))
		want := fmt.Sprintf("demo/a@%s>demo/a@%s", beat, next)
		if got := receive(t, events); got != want {
			t.Errorf("%s: told %q, want %q and nothing of the heartbeat", c.what, got, want)
		}
	}
	stream.Delete(pod("demo", "a", "90", so...))
	if got := receive(t, events); !strings.HasSuffix(got, ">") || !strings.HasPrefix(got, "demo/a@") {
		t.Errorf("told %q, want that demo/a is gone", got)
	}
	if p := index.Get("demo", "a"); p != nil {
		t.Errorf("still known: %+v", p)
	}
	if err := index.Err(); err != nil {
		t.Error(err)
	}
}

func TestPodIndexOfNamespaces(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(pod("demo", "a", "1"), pod("shop", "a", "2"), pod("other", "a", "3"))
	index := newPodIndex(t, client, "demo", "shop", "demo")
	startAndSync(t, index)
	for namespace, want := range map[string]bool{"demo": true, "shop": true, "other": false} {
		if got := index.Get(namespace, "a") != nil; got != want {
			t.Errorf("pod of %s known: %v, want %v", namespace, got, want)
		}
	}
	for _, action := range client.Actions() {
		if action.GetNamespace() == "" {
			t.Errorf("asked for the pods of all namespaces: %v", action)
		}
	}
}

// The field selector is what keeps the pods of old jobs out of memory.
func TestPodIndexAsksForPodsThatHaveNotEnded(t *testing.T) {
	t.Parallel()
	client, _ := fakeCluster()
	watched := make(chan string, 10)
	client.PrependWatchReactor("pods", func(action clienttesting.Action) (bool, kwatch.Interface, error) {
		watched <- action.(clienttesting.WatchAction).GetWatchRestrictions().Fields.String()
		return false, nil, nil
	})
	startAndSync(t, newPodIndex(t, client))
	if got := receive(t, watched); got != notEnded {
		t.Errorf("watched with selector %q, want %q", got, notEnded)
	}
	for _, action := range client.Actions() {
		if list, ok := action.(clienttesting.ListAction); ok && list.GetListRestrictions().Fields.String() != notEnded {
			t.Errorf("listed with selector %q, want %q", list.GetListRestrictions().Fields, notEnded)
		}
	}
}

func TestPodIndexForbidden(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errForbidden
	})
	index := newPodIndex(t, client, "demo")
	start(t, index)
	until(t, func() bool { return index.Err() != nil })
	if index.Synced() {
		t.Error("synced without having seen a pod")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("given up"))
	for _, err := range []error{index.WaitForSync(ctx), index.Err()} {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "namespace demo") || !strings.Contains(err.Error(), "Role") {
			t.Errorf("error %q does not say which pods, and what must be allowed", err)
		}
	}
	if err := index.WaitForSync(ctx); !strings.Contains(err.Error(), "given up") {
		t.Errorf("error %q does not say why the wait ended", err)
	}
}

// until yields until something is so.
func until(t *testing.T, so func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !so() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("did not come true in time")
		}
	}
}

// What the informer of a deleted pod hands out may be unknown.
func TestPodHandlerOfTheUnknown(t *testing.T) {
	t.Parallel()
	index := &PodIndex{}
	index.OnChange(func(old, changed *Pod) { t.Errorf("told of %v > %v", old, changed) })
	podHandler{index}.OnDelete(cache.DeletedFinalStateUnknown{Key: "demo/a"})
}

func TestSameEndpoint(t *testing.T) {
	t.Parallel()
	a := &Pod{Name: "a", Labels: map[string]string{"app": "fib"}, IPs: []string{"10.0.0.1"}}
	b := *a
	b.Labels, b.ResourceVersion = maps.Clone(a.Labels), "2"
	if !a.sameEndpoint(&b) {
		t.Error("equal labels in two maps are taken for a change")
	}
	b.Labels["app"] = "x"
	if a.sameEndpoint(&b) {
		t.Error("a changed label is not noticed")
	}
	if pod := (&b).GetObjectMeta(); pod.GetResourceVersion() != "2" || pod.(*metav1.ObjectMeta).Labels["app"] != "x" {
		t.Errorf("metadata %+v", pod)
	}
}
