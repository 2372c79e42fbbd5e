//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/test/cluster"
)

const (
	systemNamespace = "taper-system"
	// releaser is the account of the Job that runs at the end.
	releaser = "system:serviceaccount:taper-system:taper-operator-release"
	hook     = "helm.sh/hook"
)

// What is installed is what the API server takes, and enough and no more for an operator
// to work with.
func TestInstall(t *testing.T) {
	s := startStage(t, cluster.User{Name: releaser, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + systemNamespace}})
	s.warm("allowed", "released")
	must(t, s.ApplyFile(t.Context(), "../../config/namespace.yaml"))
	t.Run("manifests", func(t *testing.T) { testManifests(t, s) })

	var rights, atTheEnd []*unstructured.Unstructured
	for _, o := range render(t) {
		if !slices.Contains([]string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}, o.GetKind()) {
			continue
		}
		if o.GetAnnotations()[hook] == "" {
			rights = append(rights, o)
		} else {
			atTheEnd = append(atTheEnd, o)
		}
	}
	for _, o := range rights {
		must(t, s.Client().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("helm")))
	}
	t.Run("permissions are few", func(t *testing.T) { testPermissionsAreFew(t, s) })
	t.Run("permissions suffice", func(t *testing.T) { testPermissionsSuffice(t, s, atTheEnd) })
}

// render is the chart with values, as helm would install it.
func render(t *testing.T, values ...string) []*unstructured.Unstructured {
	t.Helper()
	need(t, "helm")
	args := []string{"template", "taper", "../../charts/taper", "--namespace", systemNamespace}
	for _, value := range values {
		args = append(args, "--set", value)
	}
	var said bytes.Buffer
	helm := exec.CommandContext(t.Context(), "helm", args...)
	helm.Stderr = &said
	text, err := helm.Output()
	if err != nil {
		t.Fatalf("helm %v: %v: %s", args, err, &said)
	}
	return decode(t, text)
}

func readManifest(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return decode(t, text)
}

func decode(t *testing.T, documents []byte) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(documents), 4096); ; {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
	if len(all) == 0 {
		t.Fatal("there are no objects")
	}
	return all
}

// testManifests has the API server say whether it would take each object, and whether the
// namespace would take the pods: it enforces the Pod Security Standard "restricted".
func testManifests(t *testing.T, s *stage) {
	privileged := cluster.Pod(systemNamespace, "privileged", "x", "", "10.9.8.7")
	if err := s.Client().Create(t.Context(), privileged, client.DryRunAll); !apierrors.IsForbidden(err) {
		t.Fatalf("the namespace takes an ordinary pod, error %v: what follows would prove nothing", err)
	}
	for name, all := range map[string][]*unstructured.Unstructured{
		"chart":               render(t),
		"chart, limited":      render(t, "namespaces={lab,default}", "rbac.secrets.access=None", "replicas=1", "crds.install=false"),
		"chart, all options":  render(t, optional...),
		"config/install.yaml": readManifest(t, "../../config/install.yaml"),
		"config/release.yaml": readManifest(t, "../../config/release.yaml"),
	} {
		t.Run(name, func(t *testing.T) {
			var foreign []string
			for _, o := range all {
				if strings.HasSuffix(o.GroupVersionKind().Group, "monitoring.coreos.com") {
					foreign = append(foreign, o.GetKind())
					continue
				}
				dryRun(t, s, o)
			}
			if want := map[string][]string{"chart, all options": {"PrometheusRule", "ServiceMonitor"}}[name]; !slices.Equal(slices.Sorted(slices.Values(foreign)), want) {
				t.Errorf("types of the Prometheus operator are %v, want %v", foreign, want)
			}
		})
	}
}

// optional turns on all that is off.
var optional = []string{
	"serviceMonitor.enabled=true", "prometheusRule.enabled=true", "dashboard.enabled=true", "dualStack=true", "network=net-1",
	"istiod.url=http://istiod.istio-system:15014", "source.type=VictoriaMetrics", "source.url=http://vmsingle.monitoring:8428",
	"rbac.secrets.access=Namespaces", "rbac.secrets.namespaces={lab}", "priorityClassName=system-cluster-critical",
}

func dryRun(t *testing.T, s *stage, o *unstructured.Unstructured) {
	t.Helper()
	what := o.GetKind() + " " + o.GetName()
	err := client.WithFieldValidation(s.Client(), metav1.FieldValidationStrict).
		Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.DryRunAll, client.ForceOwnership, client.FieldOwner("helm"))
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	template, found, err := unstructured.NestedMap(o.Object, "spec", "template")
	must(t, err)
	if !found {
		return
	}
	pod := &unstructured.Unstructured{Object: template}
	pod.SetAPIVersion("v1")
	pod.SetKind("Pod")
	pod.SetNamespace(systemNamespace)
	pod.SetName("of-" + strings.ToLower(o.GetKind()))
	if err := s.Client().Create(t.Context(), pod, client.DryRunAll); err != nil {
		t.Errorf("a pod of %s: %v", what, err)
	}
}

// argsOf are the arguments that a chart gives to a container, but for those that the
// test chooses.
func argsOf(t *testing.T, kind string) []string {
	t.Helper()
	for _, o := range render(t) {
		if o.GetKind() != kind {
			continue
		}
		text, err := json.Marshal(o.Object["spec"])
		must(t, err)
		var spec struct{ Template corev1.PodTemplateSpec }
		must(t, json.Unmarshal(text, &spec))
		return slices.DeleteFunc(spec.Template.Spec.Containers[0].Args, func(arg string) bool {
			return strings.Contains(arg, "-bind-address=") || strings.HasPrefix(arg, "--log-level=")
		})
	}
	t.Fatalf("the chart has no %s", kind)
	return nil
}

// testPermissionsSuffice runs the operator as the account of the chart, with its
// arguments: from a policy over weights, status and events to its end.
func testPermissionsSuffice(t *testing.T, s *stage, atTheEnd []*unstructured.Unstructured) {
	for _, name := range []string{"allowed", "released"} {
		s.deploy(t, s.newApp(name, 2))
	}
	must(t, s.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "store"}, StringData: map[string]string{"token": "let-me-in"},
	}))
	operator := startOperator(t, s.Cluster, "operator", cluster.Operator, argsOf(t, "Deployment")...)
	policy := s.policy("allowed", v1alpha1.Enforce)
	policy.Spec.Source.Auth = &v1alpha1.Auth{Type: "Bearer", SecretName: "store"}
	s.carryOut(t, policy)
	if got := s.store.authorization.Load(); got != "Bearer let-me-in" {
		t.Errorf("the store was shown %q", got)
	}
	s.awaitSettled(t, "allowed")
	awaitEvent(t, s, policy, "Enforcing")
	must(t, s.Client().Get(t.Context(), client.ObjectKey{Namespace: systemNamespace, Name: "taper-operator"}, &coordinationv1.Lease{}))
	testPlugin(t, s, "allowed")
	must(t, s.Client().Delete(t.Context(), policy))
	awaitGone(t, s.Cluster, releaseWithin, policy)
	if entries := s.entriesOf(t, "allowed"); len(entries) != 0 {
		t.Errorf("entries %v are left", entries)
	}

	s.carryOut(t, s.policy("released", v1alpha1.Enforce))
	operator.Stop(10 * time.Second)
	log, err := os.ReadFile(filepath.Join(s.Dir(), "operator.log"))
	must(t, err)
	if denied := linesWith(string(log), "forbidden"); len(denied) > 0 {
		t.Errorf("the operator was not allowed to: %v", denied)
	}

	// As helm uninstall does it: the operator's rights go, then the Job comes.
	must(t, s.Client().Delete(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "taper-operator"}}))
	for _, o := range atTheEnd {
		must(t, s.Client().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("helm")))
	}
	code, out := run(t, s.Cluster, releaser, "taper-operator", argsOf(t, "Job")...)
	if denied := linesWith(out, "forbidden"); code != 0 || len(denied) > 0 {
		t.Errorf("the Job ends with %d; it was not allowed to %v\n%s", code, denied, out)
	}
	if entries := s.entriesOf(t, "released"); len(entries) != 0 {
		t.Errorf("entries %v are left", entries)
	}
}

func linesWith(text, word string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.Contains(strings.ToLower(line), word) {
			lines = append(lines, line)
		}
	}
	return lines
}

func awaitEvent(t *testing.T, s *stage, policy *v1alpha1.BalancePolicy, reason string) {
	t.Helper()
	eventually(t, withinDefault, "an event tells "+reason, func(ctx context.Context) error {
		var list eventsv1.EventList
		if err := s.Client().List(ctx, &list, client.InNamespace(policy.Namespace)); err != nil {
			return err
		}
		var seen []string
		for _, e := range list.Items {
			if e.Regarding.UID == policy.UID && e.Reason == reason && e.ReportingController == "taper-operator" {
				return nil
			}
			seen = append(seen, e.Reason+" about "+e.Regarding.Name)
		}
		return fmt.Errorf("events are %v", seen)
	})
}

// testPlugin tries kubectl taper on a live policy.
func testPlugin(t *testing.T, s *stage, name string) {
	t.Helper()
	for _, test := range []struct {
		args []string
		says []string
	}{
		{[]string{"status", "--all-namespaces"}, []string{namespace, name, "Enforce"}},
		{[]string{"status", name, "--namespace=" + namespace}, []string{name + "-1", name + "-2", "taper-" + name + ".http"}},
		{[]string{"why", name + "-2", "--namespace=" + namespace}, []string{name + "-2", "%", "a request costs 15 ms of CPU"}},
		{[]string{"diff", name, "--namespace=" + namespace, "--exit-code"}, []string{name}},
	} {
		code, out := run(t, s.Cluster, cluster.Admin, "kubectl-taper", test.args...)
		if code != 0 {
			t.Errorf("kubectl taper %v ends with %d and says\n%s", test.args, code, out)
		}
		for _, text := range test.says {
			if !strings.Contains(out, text) {
				t.Errorf("kubectl taper %v does not say %q:\n%s", test.args, text, out)
			}
		}
	}
	code, out := run(t, s.Cluster, cluster.Admin, "kubectl-taper", "status", name, "--namespace="+namespace, "--json")
	var status struct {
		State     string
		Endpoints []struct {
			Pod    string
			Weight int
		}
	}
	if err := json.Unmarshal([]byte(out), &status); err != nil || code != 0 {
		t.Fatalf("status --json ends with %d: %v\n%s", code, err, out)
	}
	if status.State != "balancing" || len(status.Endpoints) != 2 || status.Endpoints[0].Weight <= status.Endpoints[1].Weight {
		t.Errorf("status --json says %+v", status)
	}
}

// testPermissionsAreFew asks the API server what the operator may do.
func testPermissionsAreFew(t *testing.T, s *stage) {
	may := func(verb, group, resource, in string) authorizationv1.ResourceAttributes {
		r, sub, _ := strings.Cut(resource, "/")
		return authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: r, Subresource: sub, Namespace: in}
	}
	for _, test := range []struct {
		what authorizationv1.ResourceAttributes
		want bool
	}{
		{may("get", "", "secrets", namespace), true}, // so that the others can fail
		{may("list", "metrics.k8s.io", "pods", namespace), true},
		{may("delete", "networking.istio.io", "serviceentries", namespace), true},
		{may("create", "coordination.k8s.io", "leases", systemNamespace), true},
		{may("list", "", "secrets", namespace), false},
		{may("watch", "", "secrets", ""), false},
		{may("delete", "", "pods", namespace), false},
		{may("create", "", "pods/exec", namespace), false},
		{may("get", "", "nodes/proxy", ""), false},
		{may("list", "metrics.k8s.io", "nodes", ""), false},
		{may("create", "taper.dev", "balancepolicies", namespace), false},
		{may("delete", "taper.dev", "balancepolicies", namespace), false},
		{may("update", "", "services", namespace), false},
		{may("create", "networking.istio.io", "destinationrules", namespace), false},
		{may("create", "coordination.k8s.io", "leases", namespace), false},
		{may("impersonate", "", "users", ""), false},
		{may("bind", "rbac.authorization.k8s.io", "clusterroles", ""), false},
	} {
		question := authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: cluster.Operator, Groups: []string{"system:authenticated", "system:serviceaccounts", "system:serviceaccounts:" + systemNamespace},
			ResourceAttributes: ptr.To(test.what),
		}}
		// What was granted just now takes a moment; it comes first.
		eventually(t, withinDefault, fmt.Sprintf("may the operator %+v: %v", test.what, test.want), func(ctx context.Context) error {
			review := question.DeepCopy()
			if err := s.Client().Create(ctx, review); err != nil {
				return cluster.Final(err)
			}
			if review.Status.Allowed == test.want {
				return nil
			}
			err := fmt.Errorf("%v: %s", review.Status.Allowed, review.Status.Reason)
			if review.Status.Allowed {
				return cluster.Final(err)
			}
			return err
		})
	}
}
