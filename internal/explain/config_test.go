package explain

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/trap"
)

const podManifest = `
apiVersion: v1
kind: Pod
metadata: {name: shop-7d, namespace: prod}
spec:
  serviceAccountName: shop
  terminationGracePeriodSeconds: 5
  dnsConfig: {searches: [a.example], options: [{name: ndots, value: "2"}, {name: edns0}]}
  containers:
  - name: shop
    env: [{name: DB_PASSWORD, value: hunter2}]
    resources: {limits: {cpu: 500m, memory: 1Gi}}
    lifecycle: {preStop: {exec: {command: [sleep, "5"]}}}
  - name: sidecar
    resources: {limits: {cpu: 2}}
`

func TestLoadConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	got, err := LoadConfig(ConfigFiles{
		Resolv:  file("resolv.conf", "# by the kubelet\nsearch prod.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\nnameserver fd00::a\noptions ndots:5 single-request-reopen\nsortlist x\n"),
		Pod:     file("pod.yaml", podManifest),
		CPUStat: file("cpu.stat", "usage_usec 123\nnr_periods 100\nnr_throttled 40\nthrottled_usec 2500000\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := trap.Config{
		Resolv: &trap.Resolv{
			Nameservers: []string{"10.96.0.10", "fd00::a"}, Search: []string{"prod.svc.cluster.local", "svc.cluster.local", "cluster.local"},
			Ndots: 5, Options: []string{"ndots:5", "single-request-reopen"},
		},
		Pod: &trap.Pod{
			Name: "shop-7d", Namespace: "prod", CPULimit: map[string]float64{"shop": .5, "sidecar": 2}, PreStop: false,
			TerminationGrace: 5 * time.Second, ServiceAccount: "shop",
			DNS: &trap.Resolv{Search: []string{"prod.svc.cluster.local", "svc.cluster.local", "cluster.local", "a.example"}, Ndots: 2, Options: []string{"ndots:2", "edns0"}},
		},
		CPU: &trap.CPUStat{Periods: 100, Throttled: 40, ThrottledTime: 2500 * time.Millisecond},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	if none, err := LoadConfig(ConfigFiles{}); err != nil || none != (trap.Config{}) {
		t.Errorf("no files give %+v, %v", none, err)
	}
}

func TestBadConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tests := []struct {
		flag, text string
		want       string
	}{
		{"resolv", "hello\n", "kubectl exec POD -- cat /etc/resolv.conf"},
		{"pod", "a: [", "kubectl get pod POD -o yaml"},
		{"pod", "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: a, env: hunter2, lifecycle: 3}]}", "wrong type"},
		{"cpu", "", "kubectl exec POD -- cat /sys/fs/cgroup/cpu.stat"},
	}
	for i, test := range tests {
		path := filepath.Join(dir, "file"+string(rune('a'+i)))
		if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		files := map[string]ConfigFiles{"resolv": {Resolv: path}, "pod": {Pod: path}, "cpu": {CPUStat: path}}[test.flag]
		_, err := LoadConfig(files)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s %q: %v, want the file and %q", test.flag, test.text, err, test.want)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error tells a secret: %v", err)
		}
	}
	if _, err := LoadConfig(ConfigFiles{Pod: filepath.Join(dir, "none")}); err == nil {
		t.Error("a file that is not there is no error")
	}
}
