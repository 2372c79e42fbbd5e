package config

import (
	"bytes"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/trap"
)

func TestParseResolv(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text  string
		want  trap.Resolv
		fails string
	}{
		"a pod's": {
			"search shop.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n",
			trap.Resolv{Nameservers: []string{"10.96.0.10"}, Search: []string{"shop.svc.cluster.local", "svc.cluster.local", "cluster.local"}, Ndots: 5, Options: []string{"ndots:5"}}, "",
		},
		"the last search holds": {
			"; a comment\n# another\ndomain a.example.\nsearch b.example\nnameserver fd00::10\nnameserver 10.0.0.2",
			trap.Resolv{Nameservers: []string{"fd00::10", "10.0.0.2"}, Search: []string{"b.example"}, Ndots: 1}, "",
		},
		"options add up, ndots has a limit": {
			"options timeout:1 ndots:99\noptions single-request-reopen\nsortlist 1.2.3.4\n",
			trap.Resolv{Ndots: 15, Options: []string{"timeout:1", "ndots:99", "single-request-reopen"}}, "",
		},
		"no number":      {"nameserver 10.0.0.2\noptions ndots:many", trap.Resolv{}, "line 2 of the resolv.conf: ndots is not a number; want ndots:2"},
		"no address":     {"nameserver dns.example.com", trap.Resolv{}, "line 1 of the resolv.conf: the nameserver is not an IP address"},
		"another file":   {"127.0.0.1 localhost\n", trap.Resolv{}, "there is no nameserver, search or options in it; want a resolv.conf: kubectl exec POD -- cat /etc/resolv.conf"},
		"empty":          {"", trap.Resolv{}, "there is no nameserver"},
		"keywords alone": {"nameserver\nsearch\n", trap.Resolv{}, "there is no nameserver"},
		"much too large": {strings.Repeat("#", maxFile+1), trap.Resolv{}, "the resolv.conf has more than 2 MiB; is it the right file?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseResolv(strings.NewReader(test.text))
			check(t, got, &test.want, err, test.fails)
		})
	}
}

func TestParseCPUStat(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text  string
		want  trap.CPUStat
		fails string
	}{
		"version 2": {
			"usage_usec 5\nuser_usec 3\nsystem_usec 2\nnr_periods 1000\nnr_throttled 412\nthrottled_usec 21000000\nnr_bursts 0\nburst_usec 0\n",
			trap.CPUStat{Periods: 1000, Throttled: 412, ThrottledTime: 21 * time.Second}, "",
		},
		"version 1":     {"nr_periods 10\nnr_throttled 4\nthrottled_time 90000000", trap.CPUStat{Periods: 10, Throttled: 4, ThrottledTime: 90 * time.Millisecond}, ""},
		"no limit":      {"nr_periods 0\nnr_throttled 0\nthrottled_time 0\n", trap.CPUStat{}, ""},
		"no controller": {"usage_usec 5\nuser_usec 3\nsystem_usec 2\n", trap.CPUStat{}, "there is no nr_periods or no nr_throttled in it, which cgroups without the cpu controller lack"},
		"negative":      {"nr_periods -1\n", trap.CPUStat{}, "the cpu.stat's nr_periods: want a whole number"},
		"too long":      {"nr_periods 1\nnr_throttled 1\nthrottled_usec 18446744073709551615\n", trap.CPUStat{}, "the cpu.stat's throttled_usec: 18446744073709551615 is more than 292 years"},
		"too often":     {"nr_periods 1\nnr_throttled 2\n", trap.CPUStat{}, "the cpu.stat counts 2 periods as throttled of 1; it cannot be a kernel's"},
		"empty":         {"", trap.CPUStat{}, "there is no nr_periods"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseCPUStat(strings.NewReader(test.text))
			check(t, got, &test.want, err, test.fails)
		})
	}
}

func TestParsePod(t *testing.T) {
	t.Parallel()
	manifest, err := os.ReadFile("testdata/pod.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const head = "apiVersion: v1\nkind: Pod\nmetadata: {name: cart, namespace: shop}\nspec:\n"
	const container = "  containers: [{name: cart, image: cart}]\n"
	search := []string{"shop.svc.cluster.local", "svc.cluster.local", "cluster.local"}
	plain := trap.Pod{Name: "cart", Namespace: "shop", CPULimit: map[string]float64{}, TerminationGrace: 30 * time.Second}
	for name, test := range map[string]struct {
		text  string
		want  trap.Pod
		fails string
	}{
		"all of it": {string(manifest), trap.Pod{
			Name: "cart-7d9f8b6c5d-x2x4z", Namespace: "shop", ServiceAccount: "cart",
			CPULimit: map[string]float64{"cart": 1.5, "sidecar": 0.25}, PreStop: true, TerminationGrace: 45 * time.Second,
			DNS: &trap.Resolv{Ndots: 2, Search: append(search[:3:3], "corp.example.com"), Options: []string{"ndots:2", "edns0"}},
		}, ""},
		"what the kubelet writes by itself": {head + container, with(plain, func(p *trap.Pod) { p.DNS = &trap.Resolv{Ndots: 5, Search: search} }), ""},
		"the node's resolver":               {head + "  dnsPolicy: Default\n" + container, plain, ""},
		"the node's network":                {head + "  hostNetwork: true\n" + container, with(plain, func(p *trap.Pod) { p.HostNetwork = true }), ""},
		"JSON, with a field from the future": {
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"cart","namespace":"shop"},"spec":{"dnsPolicy":"None","hovers":true,"containers":[{"name":"cart"}]}}`, plain, "",
		},
		"after a line of dashes":        {"# from git\n---\n" + head + "  dnsPolicy: Default\n" + container + "---\n# the end\n", plain, ""},
		"a Deployment":                  {"apiVersion: apps/v1\nkind: Deployment\n", trap.Pod{}, `the pod's manifest is of kind "apps/v1/Deployment"; want one Pod: kubectl get pod NAME -o yaml`},
		"a List":                        {"apiVersion: v1\nkind: List\nitems: []\n", trap.Pod{}, `is of kind "v1/List"`},
		"no kind":                       {"a: b", trap.Pod{}, "is of kind none"},
		"two":                           {head + container + "---\n" + head + container, trap.Pod{}, "has more than one document"},
		"not an object":                 {"- a\n", trap.Pod{}, "is not an object"},
		"empty":                         {"", trap.Pod{}, "is of kind none"},
		"lost its indentation":          {"apiVersion: v1\nkind: Pod\nspec:\ncontainers: [{name: cart}]\n", trap.Pod{}, "has no spec.containers; is it indented as it was?"},
		"a wrong type":                  {head + "  containers: planted-secret\n", trap.Pod{}, "has the wrong type of value in spec.containers"},
		"a wrong quantity":              {head + "  containers: [{name: a, resources: {limits: {cpu: planted-secret}}}]\n", trap.Pod{}, "a cpu limit is not a quantity; want 500m or 1.5"},
		"a quantity that takes minutes": {head + "  containers: [{name: a, resources: {limits: {cpu: \"1e-999999999\", memory: \"1e-999999999\"}}}]\n", trap.Pod{}, "a cpu limit is not a quantity"},
		"quantities of all kinds": {
			head + "  dnsPolicy: Default\n  resources: {limits: {cpu: 4}}\n  containers: [{name: a, resources: {limits: {cpu: 0.5, memory: \"1e-999999999\"}}}, {name: b, resources: {limits: {cpu: 250m}}}, {name: c, resources: {limits: {cpu: 0}}}]\n",
			with(plain, func(p *trap.Pod) { p.CPULimit = map[string]float64{"": 4, "a": 0.5, "b": 0.25} }), "",
		},
		"a password like an anchor": {head + "  containers:\n  - {name: a, env: [{name: A, value: *planted-secret }]}\n", trap.Pod{}, "is not YAML"},
		"a wrong ndots":             {head + "  dnsConfig: {options: [{name: ndots, value: planted-secret}]}\n" + container, trap.Pod{}, "dnsConfig: ndots is not a number"},
		"a wrong grace":             {head + "  terminationGracePeriodSeconds: -1\n" + container, trap.Pod{}, "terminationGracePeriodSeconds of -1; want 0 or more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParsePod(strings.NewReader(test.text))
			check(t, got, &test.want, err, test.fails)
		})
	}
}

func with(p trap.Pod, change func(*trap.Pod)) trap.Pod {
	change(&p)
	return p
}

// check compares; errors must say what is expected, and never what a manifest hides.
func check[T any](t *testing.T, got, want *T, err error, fails string) {
	t.Helper()
	if fails != "" {
		if err == nil || !strings.Contains(err.Error(), fails) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v; want %q and no secret", err, fails)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestReadError sees that it is passed on.
func TestReadError(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk on fire")
	_, resolv := ParseResolv(iotest.ErrReader(broken))
	_, pod := ParsePod(iotest.ErrReader(broken))
	_, stat := ParseCPUStat(iotest.ErrReader(broken))
	for _, err := range []error{resolv, pod, stat} {
		if !errors.Is(err, broken) {
			t.Errorf("%v; want %v in it", err, broken)
		}
	}
}

func FuzzParseResolv(f *testing.F) {
	f.Add([]byte("search a.example b.example.\nnameserver 10.96.0.10\noptions ndots:5 edns0\n"))
	f.Add([]byte("domain a\n;x\n\nnameserver fe80::1%eth0\noptions ndots:999999999999\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		conf, err := ParseResolv(bytes.NewReader(text))
		if (conf == nil) == (err == nil) {
			t.Fatalf("%v, %v", conf, err)
		}
		if conf != nil && (conf.Ndots < 0 || conf.Ndots > maxNdots) {
			t.Errorf("ndots %d", conf.Ndots)
		}
	})
}

func FuzzParseCPUStat(f *testing.F) {
	f.Add([]byte("nr_periods 10\nnr_throttled 4\nthrottled_time 90000000"))
	f.Add([]byte("usage_usec 5\nnr_periods 1000\nnr_throttled 412\nthrottled_usec 21000000\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		stat, err := ParseCPUStat(bytes.NewReader(text))
		if (stat == nil) == (err == nil) {
			t.Fatalf("%v, %v", stat, err)
		}
		if stat != nil && (stat.Throttled > stat.Periods || stat.ThrottledTime < 0) {
			t.Errorf("%+v", stat)
		}
	})
}

func FuzzParsePod(f *testing.F) {
	manifest, err := os.ReadFile("testdata/pod.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(manifest)
	f.Add([]byte("apiVersion: v1\nkind: Pod\nspec: {containers: [{name: a, resources: {limits: {cpu: 1e9}}}]}\n"))
	f.Add([]byte("apiVersion: v1\nkind: Pod\nspec: {containers: [{name: a, resources: {limits: {cpu: \"1e-999999999\"}}}]}\n"))
	f.Add([]byte("a: &a [*a, *a]\n---\nkind: [Pod]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		pod, err := ParsePod(bytes.NewReader(text))
		if (pod == nil) == (err == nil) {
			t.Fatalf("%v, %v", pod, err)
		}
		if pod == nil {
			return
		}
		for name, cores := range pod.CPULimit {
			if !(cores > 0) || math.IsInf(cores, 0) {
				t.Errorf("a limit of %g cores for %q", cores, name)
			}
		}
		if pod.TerminationGrace < 0 {
			t.Errorf("grace %v", pod.TerminationGrace)
		}
	})
}
