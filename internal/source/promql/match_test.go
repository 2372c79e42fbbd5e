package promql

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/model"
)

// podHalf is half of what is said of a pod.
func podHalf(namespace, pod, kind, value string) string {
	labels := fmt.Sprintf(`"taper_reading":%q`, kind)
	if namespace != "" {
		labels += fmt.Sprintf(`,"namespace":%q`, namespace)
	}
	if pod != "" {
		labels += fmt.Sprintf(`,"pod":%q`, pod)
	}
	return fmt.Sprintf(`{"metric":{%s},"value":[2000,%q]}`, labels, value)
}

func podHalves(namespace, pod, value, time string) string {
	return podHalf(namespace, pod, "value", value) + "," + podHalf(namespace, pod, "time", time)
}

// pods are of two services in two namespaces; a pod has two ports, and one endpoint
// is no pod.
var pods = []model.Endpoint{
	{Address: "10.0.0.1:8080", Name: "shop/web-1"}, {Address: "10.0.0.1:9090", Name: "shop/web-1"},
	{Address: "10.0.0.2:8080", Name: "bank/web-1"}, {Address: "10.0.0.3:8080", Name: "shop/db-0"},
	{Address: "10.0.0.4:8080", Name: "web-1"}, {Address: "10.0.0.5:8080"},
}

// TestPods goes through what a store may say of pods.
func TestPods(t *testing.T) {
	reading := func(value, seconds float64) model.Reading { return model.Reading{Value: value, At: at(seconds)} }
	web := podHalves("shop", "web-1", "1", "1990")
	webCPU := model.Snapshot{"10.0.0.1:8080": {CPU: reading(1, 1990)}, "10.0.0.1:9090": {CPU: reading(1, 1990)}}
	other := podHalves("shop", "job-7", "3", "1990")
	for name, test := range map[string]struct {
		cpu, requests string
		want          model.Snapshot
		fails         string
	}{
		"nothing at all": {"", "", model.Snapshot{}, ""},
		"told apart by namespace, ports alike": {
			web + "," + podHalves("bank", "web-1", "2", "1991") + "," + other, podHalves("bank", "web-1", "200", "1992"),
			model.Snapshot{
				"10.0.0.1:8080": {CPU: reading(1, 1990)}, "10.0.0.1:9090": {CPU: reading(1, 1990)},
				"10.0.0.2:8080": {CPU: reading(2, 1991), Requests: reading(200, 1992)},
			}, "",
		},
		"no sidecars":                         {web, "", webCPU, ""},
		"only others have sidecars":           {web, other, webCPU, ""},
		"an address is not a pod":             {web + "," + podHalves("shop", "10.0.0.3", "9", "1990"), "", webCPU, ""},
		"some series lack the pod":            {web + "," + podHalves("shop", "", "9", "1990"), "", webCPU, ""},
		"all series lack the pod":             {web, podHalves("shop", "", "9", "1990"), nil, `reading requests from http://HOST: none of its series has both labels "namespace" and "pod"`},
		"all series lack the namespace":       {podHalves("", "web-1", "9", "1990"), "", nil, "reading cpu from http://HOST: none of its series has both"},
		"the label says something else":       {podHalves("shop", "10.0.0.1:15020", "9", "1990"), "", nil, `reading cpu from http://HOST: labels "namespace" and "pod" name none of the endpoints: they say "shop/10.0.0.1:15020"; want names such as "shop/web-1"`},
		"strangers in one, none in the other": {"", other, nil, `reading requests from http://HOST: labels "namespace" and "pod" name none`},
	} {
		t.Run(name, func(t *testing.T) {
			s := &store{answers: map[string]string{
				ask("namespace,pod", "rate", `cpu{namespace=~"bank|shop"}`, "1m"):      test.cpu,
				ask("namespace,pod", "rate", `requests{namespace=~"bank|shop"}`, "1m"): test.requests,
			}}
			server := httptest.NewServer(s)
			defer server.Close()
			source, err := New(Config{
				URL: server.URL, NamespaceLabel: "namespace", Window: time.Minute,
				CPU: Metric{Selector: "cpu"}, Requests: Metric{Selector: "requests"},
			})
			if err != nil {
				t.Fatal(err)
			}
			got, err := source.Collect(t.Context(), pods)
			if diff := cmp.Diff(overAMinute(test.want), got); diff != "" {
				t.Errorf("snapshot (-want +got):\n%s", diff)
			}
			want := strings.Replace(test.fails, "http://HOST", server.URL, 1)
			if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%v; want %q", err, want)
			}
		})
	}
}

// TestNoPods sees that a store is not asked for a whole cluster on behalf of nobody.
func TestNoPods(t *testing.T) {
	s := &store{}
	server := httptest.NewServer(s)
	defer server.Close()
	source, err := New(Config{URL: server.URL, NamespaceLabel: "namespace", Window: time.Minute, CPU: ClusterCPU})
	if err != nil {
		t.Fatal(err)
	}
	for _, none := range [][]model.Endpoint{nil, pods[4:]} {
		if got, err := source.Collect(t.Context(), none); err != nil || got == nil || len(got) != 0 || len(s.asked) != 0 {
			t.Errorf("%v, %v, asked %q; want an empty snapshot and no question", got, err, s.asked)
		}
	}
}

// TestOneFails sees that a metric which is not answered fails them all, under its
// name and not under that of one that was given up because of it.
func TestOneFails(t *testing.T) {
	for _, failing := range []string{"cpu", "requests", "in-flight"} {
		t.Run(failing, func(t *testing.T) {
			s := &store{answers: map[string]string{}}
			for metric, selector := range map[string]string{"cpu": "a", "requests": "b", "in-flight": "c"} {
				if metric != failing {
					s.answers[ask("pod", "rate", selector, "1m")] = halves("fib-1", "1", "1990")
				}
			}
			server := httptest.NewServer(s)
			defer server.Close()
			got, err := collect(t, Config{URL: server.URL, CPU: Metric{Selector: "a"}, Requests: Metric{Selector: "b"}, InFlight: Metric{Selector: "c"}})
			if want := "reading " + failing + " from " + server.URL + ": the store answered 418"; got != nil || err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%v, %v; want %q", got, err, want)
			}
		})
	}
}

// TestCancelled sees that a caller who leaves is told so.
func TestCancelled(t *testing.T) {
	server := httptest.NewServer(&store{})
	defer server.Close()
	s, err := New(Config{URL: server.URL, Window: time.Minute, CPU: Metric{Selector: "up"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Collect(ctx, endpoints); err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("%v; want it cancelled", err)
	}
}
