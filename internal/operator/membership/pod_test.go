package membership

import (
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// cpu makes requirements of a request and a limit; empty for none.
func cpu(request, limit string) corev1.ResourceRequirements {
	var r corev1.ResourceRequirements
	if request != "" {
		r.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(request)}
	}
	if limit != "" {
		r.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limit)}
	}
	return r
}

func container(name string, r corev1.ResourceRequirements) corev1.Container {
	return corev1.Container{Name: name, Resources: r}
}

func sidecar(name string, r corev1.ResourceRequirements) corev1.Container {
	return corev1.Container{Name: name, Resources: r, RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}
}

func TestCores(t *testing.T) {
	t.Parallel()
	app := container("app", cpu("250m", "2"))
	memoryOnly := corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}
	tests := map[string]struct {
		spec   corev1.PodSpec
		status corev1.PodStatus
		want   float64
	}{
		"limit":                     {spec: corev1.PodSpec{Containers: []corev1.Container{app}}, want: 2},
		"request":                   {spec: corev1.PodSpec{Containers: []corev1.Container{container("app", cpu("250m", ""))}}, want: 0.25},
		"neither":                   {spec: corev1.PodSpec{Containers: []corev1.Container{container("app", memoryOnly)}}},
		"a limit of 0 is none":      {spec: corev1.PodSpec{Containers: []corev1.Container{container("app", cpu("500m", "0"))}}, want: 0.5},
		"no containers":             {},
		"sum":                       {spec: corev1.PodSpec{Containers: []corev1.Container{app, container("log", cpu("100m", ""))}}, want: 2.1},
		"one has neither":           {spec: corev1.PodSpec{Containers: []corev1.Container{app, container("log", cpu("", ""))}}},
		"istio-proxy":               {spec: corev1.PodSpec{Containers: []corev1.Container{app, container("istio-proxy", cpu("100m", "2"))}}, want: 2},
		"istio-proxy with neither":  {spec: corev1.PodSpec{Containers: []corev1.Container{app, container("istio-proxy", cpu("", ""))}}, want: 2},
		"istio-proxy as a sidecar":  {spec: corev1.PodSpec{Containers: []corev1.Container{app}, InitContainers: []corev1.Container{sidecar("istio-proxy", cpu("1", "2"))}}, want: 2},
		"sidecar":                   {spec: corev1.PodSpec{Containers: []corev1.Container{app}, InitContainers: []corev1.Container{sidecar("log", cpu("", "500m"))}}, want: 2.5},
		"sidecar with neither":      {spec: corev1.PodSpec{Containers: []corev1.Container{app}, InitContainers: []corev1.Container{sidecar("log", cpu("", ""))}}},
		"init container":            {spec: corev1.PodSpec{Containers: []corev1.Container{app}, InitContainers: []corev1.Container{container("setup", cpu("", "8"))}}, want: 2},
		"pod's limit":               {spec: corev1.PodSpec{Resources: ptr.To(cpu("1", "3")), Containers: []corev1.Container{app}}, want: 3},
		"pod's request":             {spec: corev1.PodSpec{Resources: ptr.To(cpu("1", "")), Containers: []corev1.Container{container("app", cpu("", ""))}}, want: 1},
		"pod's memory says nothing": {spec: corev1.PodSpec{Resources: &memoryOnly, Containers: []corev1.Container{app}}, want: 2},
		"resize not in force yet": {
			spec: corev1.PodSpec{Containers: []corev1.Container{container("app", cpu("1", "8"))}},
			status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
				{Name: "other", Resources: ptr.To(cpu("", "1"))}, {Name: "app", Resources: ptr.To(cpu("1", "2"))},
			}},
			want: 2,
		},
		"status without CPU": {
			spec:   corev1.PodSpec{Containers: []corev1.Container{app}},
			status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "app", Resources: &memoryOnly}, {Name: "app"}}},
			want:   2,
		},
		"sidecar's resize": {
			spec:   corev1.PodSpec{Containers: []corev1.Container{app}, InitContainers: []corev1.Container{sidecar("log", cpu("", "4"))}},
			status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{Name: "log", Resources: ptr.To(cpu("", "1"))}}},
			want:   3,
		},
		"far too much": {spec: corev1.PodSpec{Containers: []corev1.Container{
			container("a", cpu("", "9e18")), container("b", cpu("", "9e18")),
		}}, want: 1.8e19},
	}
	for name, test := range tests {
		if got := cores(&corev1.Pod{Spec: test.spec, Status: test.status}); got != test.want {
			t.Errorf("%s: %v cores, want %v", name, got, test.want)
		}
	}
}

// fullPod is a pod as an API server sends it.
func fullPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: strings.Clone("demo"), Name: name, ResourceVersion: fmt.Sprint(123456, len(name)), UID: "u",
			Labels: map[string]string{
				"app": strings.Clone("fib"), "pod-template-hash": strings.Clone("7d4b9c5f6d"),
				"service.istio.io/canonical-name": "fib", "service.istio.io/canonical-revision": "v1",
				"security.istio.io/tlsMode": "istio", "version": "v1",
			},
			Annotations: map[string]string{"a": strings.Repeat("x", 1000)},
		},
		Spec: corev1.PodSpec{
			NodeName: "ip-10-0-12-34.eu-central-1.compute.internal", ServiceAccountName: strings.Clone("fib"),
			Containers: []corev1.Container{container("app", cpu("1", "2"))},
		},
		Status: corev1.PodStatus{PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}},
	}
}

func TestCompactPod(t *testing.T) {
	t.Parallel()
	full := fullPod("fib-1")
	want := &Pod{
		Namespace: "demo", Name: "fib-1", ResourceVersion: full.ResourceVersion, Labels: maps.Clone(full.Labels),
		Node: "ip-10-0-12-34.eu-central-1.compute.internal", ServiceAccount: "fib",
		IPs: []string{"10.0.0.1", "fd00::1"}, Cores: 2,
	}
	got, err := CompactPod(full)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Pod{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if again, err := CompactPod(got); again != got || err != nil {
		t.Errorf("a compact pod became %v, error %v", again, err)
	}
	if key, err := cache.MetaNamespaceKeyFunc(got); key != "demo/fib-1" || err != nil {
		t.Errorf("key %q, error %v", key, err)
	}

	single := fullPod("fib-2")
	single.Status.PodIPs = nil
	if ips := compact(single).IPs; len(ips) != 1 || ips[0] != "10.0.0.1" {
		t.Errorf("addresses %q, want podIP", ips)
	}
	single.Status.PodIP = ""
	if ips := compact(single).IPs; ips != nil {
		t.Errorf("addresses %q, want none", ips)
	}
}

func TestCompactPodOfTheGone(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]any{"full": fullPod("fib-1"), "compact": compact(fullPod("fib-1"))} {
		got, err := CompactPod(cache.DeletedFinalStateUnknown{Key: "demo/fib-1", Obj: last})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if pod := toPod(got); pod == nil || pod.Name != "fib-1" {
			t.Errorf("%s: %#v", name, got)
		}
	}
	got, err := CompactPod(cache.DeletedFinalStateUnknown{Key: "demo/fib-1"})
	if err != nil || toPod(got) != nil {
		t.Errorf("without a last state: %#v, error %v", got, err)
	}
	for _, other := range []any{nil, &corev1.Node{}, cache.DeletedFinalStateUnknown{Obj: "x"}} {
		if got, err := CompactPod(other); err == nil {
			t.Errorf("%T became %v", other, got)
		}
	}
}

func TestTemplatesAreShared(t *testing.T) {
	t.Parallel()
	a, b := compact(fullPod("fib-1")), compact(fullPod("fib-2"))
	if a.template != b.template {
		t.Error("two pods of one template have two copies of their labels")
	}
	changes := map[string]func(*corev1.Pod){
		"label":           func(p *corev1.Pod) { p.Labels["version"] = "v2" },
		"swapped values":  func(p *corev1.Pod) { p.Labels["version"], p.Labels["app"] = p.Labels["app"], p.Labels["version"] },
		"no label":        func(p *corev1.Pod) { delete(p.Labels, "version") },
		"service account": func(p *corev1.Pod) { p.Spec.ServiceAccountName = "other" },
		"namespace":       func(p *corev1.Pod) { p.Namespace = "other" },
	}
	for name, change := range changes {
		full := fullPod("fib-3")
		change(full)
		c := compact(full)
		if c.template == a.template {
			t.Errorf("%s: shared", name)
		}
		if !maps.Equal(c.Labels, full.Labels) || c.ServiceAccount != full.Spec.ServiceAccountName || c.Namespace != full.Namespace {
			t.Errorf("%s: got %+v", name, c)
		}
	}
	runtime.KeepAlive(a)
}

func TestTemplatesOfOneHash(t *testing.T) {
	t.Parallel()
	table, first := newTemplateTable(), fullPod("fib-1")
	made := &template{labels: map[string]string{"app": "other"}}
	table.byHash[table.hash(first)] = weak.Make(made)
	got := table.of(first)
	if got == made || !maps.Equal(got.labels, first.Labels) {
		t.Errorf("got the labels of another pod: %v", got.labels)
	}
	runtime.KeepAlive(made)
}

func TestTemplatesAreForgotten(t *testing.T) {
	t.Parallel()
	table := newTemplateTable()
	known := func() int {
		table.mu.Lock()
		defer table.mu.Unlock()
		return len(table.byHash)
	}
	kept := table.of(fullPod("kept"))
	for i := range 100 {
		pod := fullPod("gone")
		pod.Labels["version"] = fmt.Sprint(i)
		table.of(pod)
	}
	for deadline := time.Now().Add(patience); known() != 1; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d templates are known, want the one in use", known())
		}
		runtime.GC()
	}
	if table.of(fullPod("kept")) != kept {
		t.Error("the template in use was forgotten")
	}
}

// heapPerPod stores pods as an informer does, and returns what each of them takes.
func heapPerPod(tb testing.TB, pods, perTemplate int) float64 {
	tb.Helper()
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before := heap()
	store := cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, cache.Indexers{})
	for i := range pods {
		full := fullPod(fmt.Sprintf("fib-frontend-7d4b9c5f6d-%05d", i))
		full.Labels["pod-template-hash"] = fmt.Sprint(i / perTemplate)
		full.Status.PodIPs = []corev1.PodIP{{IP: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)}}
		full.Spec.NodeName = fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", i>>8&255, i&255)
		full.ResourceVersion = fmt.Sprint(100_000_000 + i)
		c, err := CompactPod(full)
		if err != nil {
			tb.Fatal(err)
		}
		if err := store.Add(c); err != nil {
			tb.Fatal(err)
		}
	}
	after := heap()
	runtime.KeepAlive(store)
	return (after - before) / float64(pods)
}

func TestMemory(t *testing.T) { // not parallel: it measures the heap
	if got := heapPerPod(t, 20_000, 10); got > 600 {
		t.Errorf("%.0f bytes per pod, want at most 600", got)
	}
}

func BenchmarkMemory(b *testing.B) {
	for _, perTemplate := range []int{100, 10, 1} {
		b.Run(fmt.Sprintf("podsPerTemplate=%d", perTemplate), func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(heapPerPod(b, 100_000, perTemplate), "B/pod")
			}
		})
	}
}
