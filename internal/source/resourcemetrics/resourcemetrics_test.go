package resourcemetrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"k8s.io/metrics/pkg/client/clientset/versioned/scheme"

	"taper.dev/taper/internal/model"
	"taper.dev/taper/internal/source"
)

var _ source.Source = (*Source)(nil)

var then = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// answers is an API server that has the metrics API, by namespace.
type answers map[string]http.HandlerFunc

var path = regexp.MustCompile(`^/apis/metrics\.k8s\.io/v1beta1/namespaces/([^/]+)/pods$`)

func (a answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m := path.FindStringSubmatch(r.URL.Path)
	if m == nil || a[m[1]] == nil {
		http.NotFound(w, r)
		return
	}
	a[m[1]](w, r)
}

func serve(t testing.TB, h http.Handler) *Source {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	s, err := New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// list answers with pods, in the first form that the client asks for.
func list(t testing.TB, items ...v1beta1.PodMetrics) http.HandlerFunc {
	t.Helper()
	forms := map[string][]byte{}
	for _, form := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
		forms[form] = encode(t, form, &v1beta1.PodMetricsList{Items: items})
	}
	return func(w http.ResponseWriter, r *http.Request) {
		form, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
		w.Header().Set("Content-Type", form)
		w.Write(forms[form])
	}
}

func encode(t testing.TB, form string, object runtime.Object) []byte {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), form)
	if !ok {
		t.Fatalf("no serializer for %s", form)
	}
	data, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, v1beta1.SchemeGroupVersion), object)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// refuse answers with an error of the API server.
func refuse(code int, reason metav1.StatusReason, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
		})
	}
}

// pod is one whose containers use the CPU given as name, quantity, name, quantity...
func pod(name string, containers ...string) v1beta1.PodMetrics {
	p := v1beta1.PodMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Timestamp:  metav1.NewTime(then), Window: metav1.Duration{Duration: 15 * time.Second},
	}
	for i := 0; i+1 < len(containers); i += 2 {
		usage := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
		if containers[i+1] != "" {
			usage[corev1.ResourceCPU] = resource.MustParse(containers[i+1])
		}
		p.Containers = append(p.Containers, v1beta1.ContainerMetrics{Name: containers[i], Usage: usage})
	}
	return p
}

func with(p v1beta1.PodMetrics, change func(*v1beta1.PodMetrics)) v1beta1.PodMetrics {
	change(&p)
	return p
}

func cpu(cores float64) model.Sample {
	return model.Sample{CPU: model.Reading{Value: cores, At: then}, Window: 15 * time.Second}
}

func TestCollect(t *testing.T) {
	t.Parallel()
	one := []model.Endpoint{{Name: "demo/fib-0", Address: "10.0.0.1:80"}}
	tests := []struct {
		name      string
		endpoints []model.Endpoint
		pods      []v1beta1.PodMetrics
		want      model.Snapshot
	}{
		{"one container", one, []v1beta1.PodMetrics{pod("fib-0", "app", "250m")}, model.Snapshot{"10.0.0.1:80": cpu(0.25)}},
		{"nanocores", one, []v1beta1.PodMetrics{pod("fib-0", "app", "123456789n")}, model.Snapshot{"10.0.0.1:80": cpu(0.123456789)}},
		{"containers are added up, the sidecar is not one", one,
			[]v1beta1.PodMetrics{pod("fib-0", "app", "250m", "istio-proxy", "3", "cache", "1")}, model.Snapshot{"10.0.0.1:80": cpu(1.25)}},
		{"zero is measured", one, []v1beta1.PodMetrics{pod("fib-0", "app", "0")}, model.Snapshot{"10.0.0.1:80": cpu(0)}},
		{"negative is for the decision to judge", one, []v1beta1.PodMetrics{pod("fib-0", "app", "-1", "cache", "5")},
			model.Snapshot{"10.0.0.1:80": cpu(-1)}},
		{"only the sidecar", one, []v1beta1.PodMetrics{pod("fib-0", "istio-proxy", "1")}, model.Snapshot{}},
		{"a container without a value", one, []v1beta1.PodMetrics{pod("fib-0", "app", "1", "cache", "")}, model.Snapshot{}},
		{"no container", one, []v1beta1.PodMetrics{pod("fib-0")}, model.Snapshot{}},
		{"other pods", one, []v1beta1.PodMetrics{pod("fib-1", "app", "1")}, model.Snapshot{}},
		{"no pods", one, nil, model.Snapshot{}},
		{"no time", one, []v1beta1.PodMetrics{with(pod("fib-0", "app", "1"), func(p *v1beta1.PodMetrics) { p.Timestamp = metav1.Time{} })}, model.Snapshot{}},
		{"no window", one, []v1beta1.PodMetrics{with(pod("fib-0", "app", "1"), func(p *v1beta1.PodMetrics) { p.Window.Duration = 0 })}, model.Snapshot{}},
		{"window backwards", one, []v1beta1.PodMetrics{with(pod("fib-0", "app", "1"), func(p *v1beta1.PodMetrics) { p.Window.Duration = -time.Second })}, model.Snapshot{}},
		{"window of a day", one, []v1beta1.PodMetrics{with(pod("fib-0", "app", "1"), func(p *v1beta1.PodMetrics) { p.Window.Duration = 24 * time.Hour })}, model.Snapshot{}},
		{"one pod behind two ports, others that are no pods",
			[]model.Endpoint{
				{Name: "demo/fib-0", Address: "10.0.0.1:80"}, {Name: "demo/fib-0", Address: "10.0.0.1:81"},
				{Name: "", Address: "10.0.0.1:82"}, {Name: "fib-0", Address: "10.0.0.1:83"},
				{Name: "/fib-0", Address: "10.0.0.1:84"}, {Name: "demo/", Address: "10.0.0.1:85"},
			},
			[]v1beta1.PodMetrics{pod("fib-0", "app", "1"), pod("", "app", "2")},
			model.Snapshot{"10.0.0.1:80": cpu(1), "10.0.0.1:81": cpu(1)}},
		{"nothing asked for", nil, nil, model.Snapshot{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, answers{"demo": list(t, tt.pods...)})
			got, err := s.Collect(t.Context(), tt.endpoints)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
				t.Errorf("snapshot (-want +got):\n%s", diff)
			}
		})
	}
}

// A server that does not have protobuf answers with JSON.
func TestCollectJSON(t *testing.T) {
	t.Parallel()
	data := encode(t, runtime.ContentTypeJSON, &v1beta1.PodMetricsList{Items: []v1beta1.PodMetrics{pod("fib-0", "app", "1500m")}})
	s := serve(t, answers{"demo": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		w.Write(data)
	}})
	got, err := s.Collect(t.Context(), []model.Endpoint{{Name: "demo/fib-0", Address: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(model.Snapshot{"a": cpu(1.5)}, got); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
}

// What fails is named once, with the cure, and leaves the others alone.
func TestCollectErrors(t *testing.T) {
	t.Parallel()
	forbidden := refuse(http.StatusForbidden, metav1.StatusReasonForbidden, `pods.metrics.k8s.io is forbidden`)
	down := refuse(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "the server is currently unable to handle the request")
	good := list(t, pod("p", "app", "1"))
	tests := []struct {
		name    string
		answers answers
		want    string // of the error
		read    []string
	}{
		{"forbidden in one", answers{"a": good, "b": forbidden},
			`reading metrics.k8s.io failed for 1 of 2 namespaces: b: not allowed: grant the verb "list" on "pods" of the API group "metrics.k8s.io"`, []string{"a"}},
		{"no such API", answers{"a": nil, "b": nil},
			"reading metrics.k8s.io failed for 2 of 2 namespaces: a, b: the API is not there: metrics-server is not installed", nil},
		{"not ready", answers{"a": down},
			"reading metrics.k8s.io failed for 1 of 1 namespaces: a: metrics-server is not ready: see kubectl get apiservice v1beta1.metrics.k8s.io", nil},
		{"credentials", answers{"a": refuse(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")},
			"reading metrics.k8s.io failed for 1 of 1 namespaces: a: the API server does not accept the credentials", nil},
		{"many", answers{"a": down, "b": good, "c": down, "d": forbidden, "e": down, "f": down},
			`reading metrics.k8s.io failed for 5 of 6 namespaces: a, c, e and 1 more: metrics-server is not ready: see kubectl get apiservice v1beta1.metrics.k8s.io; ` +
				`d: not allowed: grant the verb "list" on "pods" of the API group "metrics.k8s.io"`, []string{"b"}},
		{"too long", answers{"a": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", runtime.ContentTypeJSON)
			w.Write(make([]byte, maxAnswer+1))
		}}, "reading metrics.k8s.io failed for 1 of 1 namespaces: a: the answer is longer than 8 MiB; it is not used", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, tt.answers)
			var endpoints []model.Endpoint
			for namespace := range tt.answers {
				endpoints = append(endpoints, model.Endpoint{Name: namespace + "/p", Address: namespace})
			}
			got, err := s.Collect(t.Context(), endpoints)
			if err == nil || err.Error() != tt.want {
				t.Errorf("error %v\nwant  %s", err, tt.want)
			}
			var want model.Snapshot
			for _, namespace := range tt.read {
				if want == nil {
					want = model.Snapshot{}
				}
				want[namespace] = cpu(1)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("snapshot (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCollectBadAnswers(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"html":      "<html>\n<body>Sign in</body>",
		"empty":     "",
		"cut short": `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","items":[{"metadata":`,
		"other":     `{"kind":"PodList","apiVersion":"v1","items":[]}`,
		"quantity":  `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","items":[{"containers":[{"name":"a","usage":{"cpu":"much"}}]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, answers{"a": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", runtime.ContentTypeJSON)
				fmt.Fprint(w, body)
			}})
			got, err := s.Collect(t.Context(), []model.Endpoint{{Name: "a/p", Address: "p"}})
			if err == nil || got != nil {
				t.Fatalf("got %v, %v; want an error and no snapshot", got, err)
			}
			if text := err.Error(); strings.Contains(text, "\n") || len(text) > 400 {
				t.Errorf("error is not one short line: %q", text)
			}
		})
	}
}

// A namespace that hangs costs its own samples when the time is up, not the others'.
func TestCollectDeadline(t *testing.T) {
	t.Parallel()
	s := serve(t, answers{
		"a": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"b": list(t, pod("p", "app", "1")),
	})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	got, err := s.Collect(ctx, []model.Endpoint{{Name: "a/p", Address: "a"}, {Name: "b/p", Address: "b"}})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 of 2 namespaces: a: no answer in time") {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff(model.Snapshot{"b": cpu(1)}, got); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
}

func TestCollectCanceled(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	s := serve(t, answers{"a": func(http.ResponseWriter, *http.Request) { asked.Add(1) }})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got, err := s.Collect(ctx, []model.Endpoint{{Name: "a/p", Address: "a"}})
	if !errors.Is(err, context.Canceled) || got != nil || asked.Load() != 0 {
		t.Errorf("got %v, %v after %d questions; want context.Canceled, and none asked", got, err, asked.Load())
	}
}

func TestCollectUnreachable(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	s, err := New(&rest.Config{Host: server.URL, BearerToken: "hunter2"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Collect(t.Context(), []model.Endpoint{{Name: "a/p", Address: "a"}, {Name: "b/p", Address: "b"}})
	if err == nil || !strings.Contains(err.Error(), "2 of 2 namespaces: a, b: dial tcp") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v; want one cause for both", err)
	}
}

// There is one call per namespace, and few at once.
func TestCollectCalls(t *testing.T) {
	t.Parallel()
	const namespaces, podsEach = 40, 3
	var now, calls, tooMany atomic.Int32
	full := make(chan struct{})
	all := answers{}
	var endpoints []model.Endpoint
	for n := range namespaces {
		namespace := fmt.Sprintf("ns-%d", n)
		var items []v1beta1.PodMetrics
		for p := range podsEach {
			name := fmt.Sprintf("p-%d", p)
			items = append(items, pod(name, "app", "1"))
			endpoints = append(endpoints, model.Endpoint{Name: namespace + "/" + name, Address: namespace + name})
		}
		answer := list(t, items...)
		all[namespace] = func(w http.ResponseWriter, r *http.Request) {
			if now.Add(1) > maxAtOnce {
				tooMany.Add(1)
			}
			if calls.Add(1) == maxAtOnce {
				close(full)
			}
			<-full // the first ones wait for each other
			now.Add(-1)
			answer(w, r)
		}
	}
	got, err := serve(t, all).Collect(t.Context(), endpoints)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(endpoints) {
		t.Errorf("%d samples, want %d", len(got), len(endpoints))
	}
	if calls.Load() != namespaces || tooMany.Load() != 0 {
		t.Errorf("%d calls, %d of them beside %d others; want %d and none", calls.Load(), tooMany.Load(), maxAtOnce, namespaces)
	}
}

// A cycle over 1,000 namespaces of 100 pods. The server's part is a copy of bytes.
func BenchmarkCollect(b *testing.B) {
	var items []v1beta1.PodMetrics
	for p := range 100 {
		items = append(items, with(pod(fmt.Sprintf("shop-67f8d9c5b4-%05d", p), "app", "123456789n", "istio-proxy", "12345678n"), func(p *v1beta1.PodMetrics) {
			p.Labels = map[string]string{
				"app": "shop", "pod-template-hash": "67f8d9c5b4", "security.istio.io/tlsMode": "istio",
				"service.istio.io/canonical-name": "shop", "service.istio.io/canonical-revision": "latest",
			}
		}))
	}
	answer := list(b, items...)
	all := answers{}
	var endpoints []model.Endpoint
	for n := range 1000 {
		namespace := fmt.Sprintf("ns-%04d", n)
		all[namespace] = answer
		for p := range items {
			endpoints = append(endpoints, model.Endpoint{Name: namespace + "/" + items[p].Name, Address: fmt.Sprintf("10.%d.%d.%d:80", n>>8, n&255, p)})
		}
	}
	s := serve(b, all)
	b.ReportAllocs()
	for b.Loop() {
		got, err := s.Collect(b.Context(), endpoints)
		if err != nil || len(got) != len(endpoints) {
			b.Fatalf("%d samples, %v", len(got), err)
		}
	}
}
