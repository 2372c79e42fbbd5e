//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/test/cluster"
)

const (
	// operatorNamespace is where the operator's own role is.
	operatorNamespace = "taper-system"
	// sourceInterval is that of the policies of this test, the shortest that there is.
	sourceInterval = time.Second
)

// sourceTest is a cluster with a store, and an operator that may do what its role says
// and nothing else.
type sourceTest struct {
	*stage
	database *database
	feed     *feed
	ledger   *ledger
	mesh     *sidecar
	operator *operatorProcess
	// standard is the way to the store of policies that name none.
	standard *front
	// pods are those of each app, measured from the start.
	pods map[string][]*corev1.Pod
	// secrets must be seen nowhere.
	secrets []string
}

// The ways to a store: who may ask it, what is asked, and who else must not hear of it.
func TestSources(t *testing.T) {
	s := startSources(t)
	t.Run("Basic", s.basic)
	t.Run("Bearer", s.bearer)
	t.Run("CA", s.authority)
	t.Run("MissingSecret", s.missingSecret)
	t.Run("Queries", s.queries)
	t.Run("GuardRail", s.guardRail)
	t.Run("Default", s.standardSource)
	t.Run("NoSecretIsSeen", s.noSecretIsSeen)
}

func startSources(t *testing.T) *sourceTest {
	s := &sourceTest{stage: &stage{Cluster: startCluster(t)}}
	must(t, s.Create(t.Context(), cluster.Namespace(namespace), cluster.Namespace("other"), cluster.Node("node-0", "eu-1", "a")))
	grantOperator(t, s.Cluster, cluster.Operator)
	s.database = startDatabase(t, s.Cluster, "store")
	s.feed = startFeed(t, s.database)
	s.pods = map[string][]*corev1.Pod{}
	for _, app := range []string{"basic", "bearer", "ca", "missing", "rules", "rail", "default-a", "default-b", "default-c"} {
		s.newPods(namespace, app)
	}
	s.newPods("other", "default-d")
	s.recordRules()
	s.feed.awaitSamples(withinDefault)
	istiod, err := s.StartIstiod(t.Context(), cluster.IstiodConfig{})
	must(t, err)
	s.mesh, s.ledger, s.standard = newSidecar(t, istiod, "", ""), startLedger(t, s.Cluster), newFront(t, s.database.URL)
	s.operator = startOperator(t, s.Cluster, "operator", cluster.Operator, "--leader-election-namespace="+operatorNamespace,
		"--source-type=VictoriaMetrics", "--source-url="+s.standard.URL)
	return s
}

// grantOperator lets a user do what the operator's role allows.
func grantOperator(t *testing.T, c *cluster.Cluster, user string) {
	t.Helper()
	must(t, c.Create(t.Context(), cluster.Namespace(operatorNamespace)))
	must(t, c.ApplyFile(t.Context(), "../../config/rbac/role.yaml"))
	subjects := []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}}
	meta := metav1.ObjectMeta{Name: "taper-operator", Namespace: operatorNamespace}
	must(t, c.Create(t.Context(),
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: meta.Name}, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name}},
		&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}},
	))
}

// newPods are those of an app, of which the last costs five times as much as the first.
// The store is told of them, the cluster is not yet.
func (s *sourceTest) newPods(namespace, app string) {
	for i := range 3 {
		pod := cluster.Pod(namespace, fmt.Sprintf("%s-%d", app, i+1), app, "node-0", s.address(true))
		s.feed.use(pod, rate{cores: 0.1 * float64(1+2*i), requests: 20})
		s.pods[app] = append(s.pods[app], pod)
	}
}

// deploy creates an app.
func (s *sourceTest) deploy(t *testing.T, app string) []*corev1.Pod {
	t.Helper()
	pods := s.pods[app]
	service := cluster.Service(pods[0].Namespace, app, 8080)
	must(t, s.Create(t.Context(), service))
	for _, pod := range pods {
		must(t, s.Create(t.Context(), pod))
	}
	must(t, s.Create(t.Context(), cluster.EndpointSlice(service, discoveryv1.AddressTypeIPv4, pods...)))
	return pods
}

// policyFor is one for an app, with a source at a URL.
func policyFor(app, url string, mode v1alpha1.Mode) *v1alpha1.BalancePolicy {
	return &v1alpha1.BalancePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app},
		Spec: v1alpha1.BalancePolicySpec{
			TargetRef: v1alpha1.TargetRef{Name: app}, Mode: mode, Interval: &metav1.Duration{Duration: sourceInterval},
			Freshness: v1alpha1.Freshness{MaxAge: &metav1.Duration{Duration: 6 * sourceInterval}},
			Source:    &v1alpha1.Source{Type: v1alpha1.VictoriaMetrics, URL: url, Window: &metav1.Duration{Duration: window}},
		},
	}
}

// newSecret is a value that must be seen nowhere.
func (s *sourceTest) newSecret() string {
	text := rand.Text()
	s.secrets = append(s.secrets, text)
	return text
}

func secretOf(name string, data map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, StringData: data}
}

// change puts other data into a Secret.
func (s *sourceTest) change(t *testing.T, secret *corev1.Secret, data map[string]string) {
	t.Helper()
	must(t, s.Change(t.Context(), secret, func() { secret.Data, secret.StringData = nil, data }))
}

// fresh waits until a policy is measured, in a status written after a time.
func (s *sourceTest) fresh(t *testing.T, since time.Time, policy string) {
	t.Helper()
	s.ledger.await(t, withinDefault, since, policy, v1alpha1.ConditionMetricsFresh, metav1.ConditionTrue, "Fresh", "")
	s.ledger.await(t, withinDefault, since, policy, v1alpha1.ConditionHeld, metav1.ConditionFalse, "Free", "")
}

// failed waits until a policy says that its source has failed, and why.
func (s *sourceTest) failed(t *testing.T, since time.Time, policy, says string) {
	t.Helper()
	s.ledger.await(t, withinDefault, since, policy, v1alpha1.ConditionMetricsFresh, metav1.ConditionFalse, "", says)
}

// only lets requests to a store with this header.
func only(header string) disturbance {
	return func(w http.ResponseWriter, r *http.Request, store http.Handler) {
		if r.Header.Get("Authorization") != header {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		store.ServeHTTP(w, r)
	}
}

func (s *sourceTest) basic(t *testing.T) {
	header := func(user, password string) string {
		text := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
		s.secrets = append(s.secrets, text)
		return "Basic " + text
	}
	first, second := s.newSecret(), s.newSecret()
	secret := secretOf("basic", map[string]string{"username": "taper", "password": first})
	s.rotate(t, "basic", secret, &v1alpha1.Auth{Type: "Basic"}, []string{header("taper", first), header("taper", second)},
		map[string]string{"username": "taper", "password": second})
}

func (s *sourceTest) bearer(t *testing.T) {
	first, second := s.newSecret(), s.newSecret()
	secret := secretOf("bearer", map[string]string{"api": first})
	s.rotate(t, "bearer", secret, &v1alpha1.Auth{Type: "Bearer", TokenKey: "api"}, []string{"Bearer " + first, "Bearer " + second},
		map[string]string{"api": second})
}

// rotate has a store that wants one header and then another: what is in the Secret is
// used with the next cycle, by the same process.
func (s *sourceTest) rotate(t *testing.T, app string, secret *corev1.Secret, auth *v1alpha1.Auth, headers []string, rotated map[string]string) {
	way, begun := newFront(t, s.database.URL), time.Now()
	way.set(only(headers[0]))
	s.deploy(t, app)
	policy := policyFor(app, way.URL, v1alpha1.Recommend)
	policy.Spec.Source.Auth = auth
	auth.SecretName = secret.Name
	must(t, s.Create(t.Context(), secret, policy))
	s.fresh(t, begun, app)

	changed := time.Now()
	way.set(only(headers[1]))
	s.failed(t, changed, app, "401 Unauthorized")
	s.change(t, secret, rotated)
	changed = time.Now()
	s.fresh(t, changed, app)
	t.Logf("what was rotated was used %s later", time.Since(changed).Round(10*time.Millisecond))
}

// authority checks the store's certificate by a Secret, and finds another one by
// itself when that has changed.
func (s *sourceTest) authority(t *testing.T) {
	way, begun := newTLSFront(t, s.database.URL), time.Now()
	right := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: way.Certificate().Raw}))
	wrong, err := os.ReadFile(filepath.Join(s.Dir(), "pki", "ca.crt"))
	must(t, err)
	s.deploy(t, "ca")
	secret := secretOf("ca", map[string]string{"ca.crt": string(wrong)})
	policy := policyFor("ca", way.URL, v1alpha1.Recommend)
	policy.Spec.Source.TLS = &v1alpha1.TLS{CASecretName: "ca"}
	must(t, s.Create(t.Context(), secret, policy))
	s.failed(t, begun, "ca", "certificate signed by unknown authority")
	changed := time.Now()
	s.change(t, secret, map[string]string{"ca.crt": right})
	s.fresh(t, changed, "ca")
	changed = time.Now()
	must(t, s.Change(t.Context(), policy, func() { policy.Spec.Source.TLS.ServerName = "another.test" }))
	s.failed(t, changed, "ca", "another.test")
	changed = time.Now()
	s.change(t, secret, map[string]string{"ca.crt": "nothing of the kind"})
	must(t, s.Change(t.Context(), policy, func() { policy.Spec.Source.TLS.ServerName = "" }))
	s.failed(t, changed, "ca", "the CA has no certificate; want PEM")
}

func (s *sourceTest) missingSecret(t *testing.T) {
	way, begun := newFront(t, s.database.URL), time.Now()
	s.deploy(t, "missing")
	policy := policyFor("missing", way.URL, v1alpha1.Recommend)
	policy.Spec.Source.Auth = &v1alpha1.Auth{Type: "Basic", SecretName: "nobody", PasswordKey: "pass"}
	must(t, s.Create(t.Context(), policy))
	s.failed(t, begun, "missing", `reading Secret lab/nobody: secrets "nobody" not found`)
	changed := time.Now()
	secret := secretOf("nobody", map[string]string{"username": s.newSecret(), "password": s.newSecret()})
	must(t, s.Create(t.Context(), secret))
	s.failed(t, changed, "missing", `the Secret lab/nobody has no key "pass"`)
	if asked := way.questions(begun); len(asked) > 0 {
		t.Errorf("the store was asked %d times without credentials", len(asked))
	}
	changed = time.Now()
	s.change(t, secret, map[string]string{"username": "taper", "pass": s.newSecret()})
	s.fresh(t, changed, "missing")
}

// recordRules has the pods of one app measured under other names and labels, as by
// recording rules, and in thousandths of cores; the first of them is the dearest.
func (s *sourceTest) recordRules() {
	for i, pod := range s.pods["rules"] {
		labels := fmt.Sprintf("{k8s_ns=%q,k8s_pod=%q}", pod.Namespace, pod.Name)
		s.feed.gauge("pod:cpu:mean"+labels, 1000*0.1*float64(5-2*i))
		s.feed.gauge("pod:requests:rate"+labels, 20)
	}
	s.feed.silence(true, s.pods["rules"]...)
}

// queries has a policy that asks for what rules record.
func (s *sourceTest) queries(t *testing.T) {
	begun := time.Now()
	pods := s.deploy(t, "rules")
	policy := policyFor("rules", s.database.URL, v1alpha1.Enforce)
	thousandth := resource.MustParse("0.001")
	policy.Spec.Source.Queries = v1alpha1.Queries{
		CPU:      &v1alpha1.Query{Selector: "pod:cpu:mean", Type: "Gauge", Scale: &thousandth},
		Requests: &v1alpha1.Query{Selector: "pod:requests:rate", Type: "Gauge"},
		InFlight: &v1alpha1.Query{Disabled: true},
		PodLabel: "k8s_pod", NamespaceLabel: "k8s_ns",
	}
	must(t, s.Create(t.Context(), policy))
	s.mesh.track(t, outbound("rules")).await(t, withinDefault, "weights follow the recording rules", moreTo(pods[2], pods[0]))
	n := s.ledger.await(t, withinDefault, begun, "rules", v1alpha1.ConditionMetricsFresh, metav1.ConditionTrue, "Fresh", "")
	if n.policy.Status.Evidence != "cpu" {
		t.Errorf("the evidence is %s, want cpu", n.policy.Status.Evidence)
	}
	settled := s.awaitSettled(t, "rules")
	for i, e := range settled.Status.Endpoints {
		want := fmt.Sprintf("a request costs %.3g ms of CPU", float64(5*(5-2*i)))
		if !strings.Contains(e.Message, want) {
			t.Errorf("%s: %q, want %q", e.Pod, e.Message, want)
		}
	}
}

// moreTo wants one pod to get at least twice what another one gets.
func moreTo(cheap, dear *corev1.Pod) weightsCheck {
	return func(w model.Weights) error {
		more, less := w[address(cheap)], w[address(dear)]
		if less == 0 || more < 2*less {
			return fmt.Errorf("%s has %d and %s has %d", cheap.Name, more, dear.Name, less)
		}
		return nil
	}
}

// guardRail has one that is fine, cannot be read, is broken and is fine again.
func (s *sourceTest) guardRail(t *testing.T) {
	const errors = `lab_errors{app="rail"}`
	s.feed.gauge(errors, 0.01)
	pods := s.deploy(t, "rail")
	way := newFront(t, s.database.URL)
	policy := policyFor("rail", way.URL, v1alpha1.Enforce)
	policy.Spec.GuardRail = &v1alpha1.GuardRail{Query: `max(max_over_time(lab_errors{app="rail"}[3s]))`, Max: resource.MustParse("0.05")}
	must(t, s.Create(t.Context(), policy))
	rail := s.mesh.track(t, outbound("rail"))
	rail.await(t, withinDefault, "weights follow what pods use", moreTo(pods[0], pods[2]))
	s.awaitSettled(t, "rail")

	unreadable := time.Now()
	s.feed.forget(errors)
	held := s.ledger.await(t, withinDefault, unreadable, "rail", v1alpha1.ConditionHeld, metav1.ConditionTrue, "GuardRailUnknown", "the guard rail cannot be read")
	// What pods use changes now, and weights would follow.
	s.feed.use(pods[0], rate{cores: 0.5, requests: 20})
	s.feed.use(pods[2], rate{cores: 0.1, requests: 20})
	s.feed.use(pods[1], rate{cores: 0.2, requests: 20})
	way.awaitCycles(t, 3, "lab_errors")
	if moved := rail.during(held.at, time.Now()); len(moved) != 1 {
		t.Errorf("weights moved while the guard rail could not be read: %v", moved)
	}

	broken := time.Now()
	s.feed.gauge(errors, 0.2)
	s.ledger.await(t, withinDefault, broken, "rail", v1alpha1.ConditionHeld, metav1.ConditionTrue, "GuardRailBreached", "the guard rail reads 0.2, more than 50m: stepping back to equal weights")
	rail.await(t, withinDefault, "weights step back", func(w model.Weights) error {
		if uneven(w) == nil {
			return fmt.Errorf("they are not equal")
		}
		return nil
	})
	steps := rail.during(broken, time.Now())
	for i := range steps[1:] {
		checkGrowth(t, steps[i], steps[i+1])
		if spread(steps[i+1].weights) >= spread(steps[i].weights) {
			t.Errorf("step %d leads away from equal: %v", i+1, steps)
		}
	}
	equal := time.Now()
	way.awaitCycles(t, 3, "lab_errors")
	if moved := rail.during(equal, time.Now()); len(moved) != 1 {
		t.Errorf("weights moved while the guard rail was broken: %v", moved)
	}

	s.feed.gauge(errors, 0.01)
	rail.await(t, withinDefault, "weights follow what pods use now", moreTo(pods[2], pods[0]))
	if got, want := s.ledger.reasons("rail", v1alpha1.ConditionHeld, unreadable), []string{"Free", "GuardRailUnknown", "GuardRailBreached", "Free"}; !slices.Equal(got, want) {
		t.Errorf("weights were held for the reasons %v, want %v", got, want)
	}
}

// awaitCycles waits until a store was asked anew that often for something, and returns
// what it was asked meanwhile.
func (f *front) awaitCycles(t *testing.T, n int, something string) []question {
	t.Helper()
	from := time.Now()
	eventually(t, withinDefault, fmt.Sprintf("the store is asked %d times for %s", n, something), func(context.Context) error {
		asked := 0
		for _, q := range f.questions(from) {
			if strings.Contains(q.query, something) {
				asked++
			}
		}
		if asked < n {
			return fmt.Errorf("it was asked %d times", asked)
		}
		return nil
	})
	return f.questions(from)
}

// standardSource has policies that name no source, and one that names the same: all of
// them are asked for together.
func (s *sourceTest) standardSource(t *testing.T) {
	begun := time.Now()
	for _, name := range []string{"default-a", "default-b", "default-c"} {
		s.deploy(t, name)
		policy := policyFor(name, s.standard.URL, v1alpha1.Recommend)
		if policy.Spec.Source.Window = nil; name != "default-c" {
			policy.Spec.Source = nil
		}
		must(t, s.Create(t.Context(), policy))
	}
	s.deploy(t, "default-d")
	policy := policyFor("default-d", "", v1alpha1.Recommend)
	policy.Namespace, policy.Spec.Source = "other", nil
	must(t, s.Create(t.Context(), policy))
	for _, name := range []string{"default-a", "default-b", "default-c"} {
		s.fresh(t, begun, name)
	}
	awaitConditionOf(t, s.Cluster, "other", "default-d", v1alpha1.ConditionMetricsFresh, metav1.ConditionTrue, "Fresh")

	const cycles = 4
	start := time.Now()
	questions := s.standard.awaitCycles(t, cycles, "container_cpu_usage_seconds_total")
	most := int(time.Since(start)/sourceInterval) + 1 // one per interval
	for _, metric := range []string{"container_cpu_usage_seconds_total", "istio_requests_total", "istio_request_duration_milliseconds_sum"} {
		asked := 0
		for _, q := range questions {
			if strings.Contains(q.query, metric) {
				asked++
			}
		}
		if asked < cycles-1 || asked > most {
			t.Errorf("%s was asked for %d times in %s, for four policies", metric, asked, time.Since(start))
		}
	}
	for _, q := range questions {
		if !strings.Contains(q.query, `namespace=~"lab|other"`) {
			t.Errorf("%s does not ask for all of the policies", q.query)
		}
	}
	t.Logf("%d queries in %s for four policies", len(questions), time.Since(start).Round(10*time.Millisecond))
}

// noSecretIsSeen looks wherever the operator writes or shows something.
func (s *sourceTest) noSecretIsSeen(t *testing.T) {
	ctx := t.Context()
	texts := map[string]string{}
	log, err := os.ReadFile(filepath.Join(s.Dir(), "operator.log"))
	must(t, err)
	texts["the log"] = string(log)
	paths := []string{"/metrics", "/", "/text", "/api/policies"}
	for _, name := range []string{"basic", "bearer", "ca", "missing"} {
		paths = append(paths, "/text/lab/"+name, "/api/policies/lab/"+name, "/api/policies/lab/"+name+"/history")
	}
	for _, path := range paths {
		texts[path], err = fetch(ctx, s.operator.URL+path)
		must(t, err)
	}
	texts["the policies"] = s.list(ctx, t, &v1alpha1.BalancePolicyList{})
	texts["the events"] = s.list(ctx, t, &corev1.EventList{})
	texts["the ServiceEntries"] = fmt.Sprint(serviceEntries(t, s.Cluster))
	for _, want := range []string{"SourceFailed", "401 Unauthorized", "unknown authority"} { // or else this is the wrong place to look
		if !strings.Contains(texts["the events"], want) {
			t.Errorf("no event says %q", want)
		}
	}
	for place, text := range texts {
		for _, secret := range s.secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows a secret", place)
			}
		}
	}
}

// list is all objects of a kind, as JSON.
func (s *sourceTest) list(ctx context.Context, t *testing.T, list client.ObjectList) string {
	t.Helper()
	must(t, s.Client().List(ctx, list))
	text, err := json.Marshal(list)
	must(t, err)
	return string(text)
}
