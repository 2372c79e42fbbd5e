package chart

import (
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"taper.dev/taper/internal/operator"
)

// everything turns all options on.
var everything = []string{
	"istiod.url=http://istiod.istio-system:15014", "network=east", "dualStack=true", "profiling=true", "namespaces={shop,demo}",
	"source.type=Prometheus", "source.url=https://prometheus.monitoring:9443/api",
	"serviceMonitor.enabled=true", "prometheusRule.enabled=true", "dashboard.enabled=true",
	"imagePullSecrets[0].name=pull", "priorityClassName=system-cluster-critical",
	"image.digest=sha256:" + strings.Repeat("0", 64), "podLabels.team=mesh", "podAnnotations.a=b",
	"serviceAccount.annotations.a=b", "nodeSelector.a=b", "tolerations[0].key=a", "replicas=3",
	"affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey=a",
}

// pods returns the pod templates of a rendered chart: the operator's and the Job's.
func pods(t *testing.T, all objects) map[string]corev1.PodTemplateSpec {
	t.Helper()
	return map[string]corev1.PodTemplateSpec{
		"operator": find[*appsv1.Deployment](t, all, name).Spec.Template,
		"release":  find[*batchv1.Job](t, all, name+"-release").Spec.Template,
	}
}

// TestRestricted holds every pod to the Pod Security Standard "restricted", and to a
// file system that cannot be written.
func TestRestricted(t *testing.T) {
	t.Parallel()
	for which, template := range pods(t, render(t, everything...)) {
		pod := template.Spec
		if pod.HostNetwork || pod.HostPID || pod.HostIPC || len(pod.InitContainers) != 0 {
			t.Errorf("%s shares namespaces of the host, or has init containers: %+v", which, pod)
		}
		s := pod.SecurityContext
		if s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser == 0 ||
			s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: security context of the pod: %+v", which, s)
		}
		for _, volume := range pod.Volumes {
			if volume.Projected == nil {
				t.Errorf("%s has volume %s, which is not projected", which, volume.Name)
			}
		}
		for _, container := range pod.Containers {
			c := container.SecurityContext
			if c == nil || c.AllowPrivilegeEscalation == nil || *c.AllowPrivilegeEscalation || c.Privileged != nil ||
				c.ReadOnlyRootFilesystem == nil || !*c.ReadOnlyRootFilesystem ||
				c.Capabilities == nil || len(c.Capabilities.Drop) != 1 || c.Capabilities.Drop[0] != "ALL" || len(c.Capabilities.Add) != 0 {
				t.Errorf("%s: security context of container %s: %+v", which, container.Name, c)
			}
			if container.Resources.Requests.Memory().IsZero() || container.Resources.Limits.Memory().IsZero() {
				t.Errorf("%s: container %s has resources %+v", which, container.Name, container.Resources)
			}
		}
		if template.Labels["sidecar.istio.io/inject"] != "false" {
			t.Errorf("%s may get a sidecar: labels %v", which, template.Labels)
		}
	}
}

// TestArguments has the operator itself parse the arguments of its containers.
func TestArguments(t *testing.T) {
	t.Parallel()
	// Help comes after the flags were parsed.
	parse := func(args ...string) int { return operator.Main(append(args, "--help"), io.Discard, io.Discard) }
	if parse("--no-such-flag") == 0 || parse("--leader-elect=maybe") == 0 {
		t.Fatal("the operator takes arguments that are wrong")
	}
	for _, values := range [][]string{nil, everything} {
		for which, template := range pods(t, render(t, values...)) {
			args := template.Spec.Containers[0].Args
			if code := parse(args...); code != 0 || len(args) == 0 {
				t.Errorf("%s: exit code %d with %q", which, code, args)
			}
		}
	}
}

// TestFlagsHaveValues sees that the chart knows every flag of the operator.
func TestFlagsHaveValues(t *testing.T) {
	t.Parallel()
	reference, err := os.ReadFile(root + "/docs/taper-operator.md")
	if err != nil {
		t.Fatal(err)
	}
	options, _, _ := strings.Cut(string(reference), "### SEE ALSO")
	args := strings.Join(pods(t, render(t, everything...))["operator"].Spec.Containers[0].Args, " ") + " "
	flags := regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[a-z-]+) `).FindAllStringSubmatch(options, -1)
	if len(flags) < 10 {
		t.Fatalf("only %q are found", flags)
	}
	for _, flag := range flags {
		if flag[1] != "--help" && flag[1] != "--version" && !regexp.MustCompile(flag[1]+"[= ]").MatchString(args) {
			t.Errorf("the operator has %s, and the chart no value for it: %s", flag[1], args)
		}
	}
}

// TestArgumentsFollowValues looks for each value in what the operator is told.
func TestArgumentsFollowValues(t *testing.T) {
	t.Parallel()
	templates := pods(t, render(t, append([]string{"clusterDomain=corp.example", "endpointMetrics=false", "log.level=debug", "log.format=text"}, everything...)...))
	for which, want := range map[string][]string{
		"operator": {
			"--source-type=Prometheus", "--source-url=https://prometheus.monitoring:9443/api", "--network=east", "--dual-stack", "--endpoint-metrics=false",
			"--istiod-url=http://istiod.istio-system:15014", "--istiod-token-file=/var/run/secrets/istiod/token", "--leader-elect=true", "--pprof-bind-address=localhost:6060",
			"--namespaces=shop,demo", "--cluster-domain=corp.example", "--leader-election-namespace=taper-system", "--log-level=debug", "--log-format=text",
		},
		"release": {"release", "--within=240s", "--namespaces=shop,demo", "--cluster-domain=corp.example", "--leader-election-namespace=taper-system"},
	} {
		args := " " + strings.Join(templates[which].Spec.Containers[0].Args, " ") + " "
		for _, arg := range want {
			if !strings.Contains(args, " "+arg+" ") {
				t.Errorf("%s is started with %s; want %s among it", which, args, arg)
			}
		}
	}
	operator := templates["operator"].Spec
	if mount := operator.Containers[0].VolumeMounts[0]; mount.MountPath != "/var/run/secrets/istiod" || mount.Name != operator.Volumes[0].Name {
		t.Errorf("the token for istiod is mounted as %+v", mount)
	}
	if token := operator.Volumes[0].Projected.Sources[0].ServiceAccountToken; token.Audience != "istio-ca" || token.Path != "token" {
		t.Errorf("the token for istiod is %+v", token)
	}
}

// TestMemoryLimit sees that the Go runtime stays below what the kernel kills for.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	for limit, want := range map[string]int64{"768Mi": 691, "1Gi": 921, "100Mi": 90} {
		container := pods(t, render(t, "resources.limits.memory="+limit))["operator"].Spec.Containers[0]
		m := regexp.MustCompile(`^([0-9]+)MiB$`).FindStringSubmatch(container.Env[0].Value)
		if container.Env[0].Name != "GOMEMLIMIT" || m == nil {
			t.Fatalf("environment %+v, want GOMEMLIMIT in MiB", container.Env)
		}
		if got, _ := strconv.ParseInt(m[1], 10, 64); got != want || got<<20 >= container.Resources.Limits.Memory().Value() {
			t.Errorf("GOMEMLIMIT=%s with a limit of %s, want %d MiB", m[0], limit, want)
		}
	}
}

// TestSelectors sees that what selects the operator's pods selects them, and not the
// Job's where that would be wrong.
func TestSelectors(t *testing.T) {
	t.Parallel()
	// A label of the user's must not take a pod away from its Deployment.
	all := render(t, append([]string{`podLabels.app\.kubernetes\.io/component=other`}, everything...)...)
	templates := pods(t, all)
	selects := func(what string, selector *metav1.LabelSelector, which string, want bool) {
		t.Helper()
		parsed, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		if got := parsed.Matches(labels.Set(templates[which].Labels)); got != want {
			t.Errorf("%s %v selects %s %v: %v, want %v", what, selector, which, templates[which].Labels, got, want)
		}
	}
	deployment := find[*appsv1.Deployment](t, all, name)
	service := find[*corev1.Service](t, all, name)
	for what, selector := range map[string]*metav1.LabelSelector{
		"the Deployment": deployment.Spec.Selector,
		"the budget":     find[*policyv1.PodDisruptionBudget](t, all, name).Spec.Selector,
		"the Service":    {MatchLabels: service.Spec.Selector},
	} {
		selects(what, selector, "operator", true)
		selects(what, selector, "release", false)
	}
	network := find[*networkingv1.NetworkPolicy](t, all, name).Spec.PodSelector
	selects("the NetworkPolicy", &network, "operator", true)
	selects("the NetworkPolicy", &network, "release", true)
	for _, constraint := range deployment.Spec.Template.Spec.TopologySpreadConstraints {
		selects("the constraint", constraint.LabelSelector, "operator", true)
	}

	ports := map[string]bool{}
	for _, port := range templates["operator"].Spec.Containers[0].Ports {
		ports[port.Name] = true
	}
	monitor := others(all, "ServiceMonitor")[0]
	endpoint := monitor.Object["spec"].(map[string]any)["endpoints"].([]any)[0].(map[string]any)
	if !ports[service.Spec.Ports[0].TargetPort.StrVal] || endpoint["port"] != service.Spec.Ports[0].Name || endpoint["honorLabels"] != true {
		t.Errorf("the Service's port is %+v and the monitor's %v; the container has %v", service.Spec.Ports[0], endpoint, ports)
	}
	if got := monitor.Object["spec"].(map[string]any)["selector"].(map[string]any)["matchLabels"].(map[string]any); service.Labels["app.kubernetes.io/component"] != got["app.kubernetes.io/component"] {
		t.Errorf("the monitor selects %v, the Service has %v", got, service.Labels)
	}
}

// TestEgress lists the ports that the operator may connect to: none would mean all.
func TestEgress(t *testing.T) {
	t.Parallel()
	egress := find[*networkingv1.NetworkPolicy](t, render(t, append([]string{"networkPolicy.storePorts={9090}", "networkPolicy.apiServerPorts={6443}"}, everything...)...), name).Spec.Egress
	var got []string
	for _, rule := range egress {
		if len(rule.Ports) == 0 || len(rule.To) != 0 {
			t.Errorf("rule %+v opens more than ports", rule)
		}
		for _, port := range rule.Ports {
			got = append(got, string(*port.Protocol)+port.Port.String())
		}
	}
	if want := "UDP53 TCP53 TCP6443 TCP9090 TCP9443 TCP15014"; strings.Join(got, " ") != want {
		t.Errorf("egress to %v, want %s", got, want)
	}
}

// TestUninstall holds the chart to the order that a clean removal needs: the Job runs
// when the operator is gone, with an account that still exists, and the definition of
// BalancePolicy stays.
func TestUninstall(t *testing.T) {
	t.Parallel()
	for _, values := range [][]string{nil, {"rbac.create=false"}, {"serviceAccount.create=false", "serviceAccount.name=mine"}} {
		all := render(t, values...)
		job := find[*batchv1.Job](t, all, name+"-release")
		hooks := map[string]bool{}
		for _, object := range all {
			hook, isHook := object.GetAnnotations()["helm.sh/hook"]
			if isHook && (hook != "post-delete" || !strings.Contains(object.GetAnnotations()["helm.sh/hook-delete-policy"], "hook-succeeded")) {
				t.Errorf("%T %s has annotations %v", object, object.GetName(), object.GetAnnotations())
			}
			if account, ok := object.(*corev1.ServiceAccount); ok && isHook {
				hooks[account.Name] = true
			}
		}
		account := job.Spec.Template.Spec.ServiceAccountName
		if values != nil && values[0] == "serviceAccount.create=false" && account == "mine" {
			hooks["mine"] = true // it is not of the release, and stays
		}
		if job.Annotations["helm.sh/hook"] == "" || !hooks[account] {
			t.Errorf("%v: the Job runs as %s; accounts by then are %v", values, account, hooks)
		}
		if operator := find[*appsv1.Deployment](t, all, name); operator.Annotations["helm.sh/hook"] != "" {
			t.Error("the operator is a hook: it is not uninstalled")
		}
		if crd := find[metav1.Object](t, all, "balancepolicies.taper.dev"); crd.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
			t.Errorf("the definition goes with the release, and every policy with it: %v", crd.GetAnnotations())
		}
	}
}

// TestOff sees that what may lack its definition, or is not wanted, is left out.
func TestOff(t *testing.T) {
	t.Parallel()
	all := render(t, "release.enabled=false", "networkPolicy.enabled=false", "podDisruptionBudget.enabled=false", "rbac.create=false",
		"rbac.aggregate=false", "serviceAccount.create=false", "serviceAccount.name=mine", "crds.install=false")
	if len(all) != 2 {
		for _, object := range all {
			t.Logf("%T %s", object, object.GetName())
		}
		t.Errorf("%d objects, want the Deployment and the Service", len(all))
	}
	for _, kind := range []string{"ServiceMonitor", "PrometheusRule"} {
		if on := others(render(t), kind); len(on) != 0 {
			t.Errorf("%s is there without being asked for, and its definition may be missing", kind)
		}
		if on := others(render(t, everything...), kind); len(on) != 1 {
			t.Errorf("%d of %s, want one", len(on), kind)
		}
	}
}
