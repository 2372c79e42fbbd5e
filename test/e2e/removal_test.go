//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	istionetworkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/model"
	"taper.dev/taper/test/cluster"
)

const (
	finalizer = "taper.dev/release"
	// releaseWithin is how long it may take to give a service back: five steps of two
	// seconds from the most uneven weights that there are, on a busy machine.
	releaseWithin = time.Minute
)

// A policy that is deleted steps its weights back to equal before its entry goes, and no
// request fails meanwhile.
func TestRemovalUnderLoad(t *testing.T) {
	b := startBed(t, 2, members(25, 25, 27, 29))
	load := b.startLoad(200)
	startOperator(t, b.Cluster, "operator", cluster.Admin)
	policy := b.policy("fib", v1alpha1.Enforce)
	policy.Spec.Interval = &metav1.Duration{Duration: 2 * time.Second}
	must(t, b.Create(t.Context(), policy))
	b.awaitEnvoys(withinDefault, "the weights are far from equal", func(w model.Weights) error {
		if spread(w) < 8 {
			return errors.New("not yet")
		}
		return nil
	})

	steps := make(chan []model.Weights, 1)
	mesh := newSidecar(t, b.istiod, "", "")
	go func() { steps <- mesh.history(t.Context(), arm.Cluster, releaseWithin, plain) }()
	before := load.Progress()
	start := time.Now()
	must(t, b.Client().Delete(t.Context(), policy))
	awaitGone(t, b.Cluster, releaseWithin, policy)
	t.Logf("given back after %v", time.Since(start).Round(time.Millisecond))
	b.awaitEnvoys(withinDefault, "the service has its own weights", plain)
	checkSteps(t, <-steps)
	after := load.Progress()
	if after.Sent-before.Sent < 100 || after.Errors != before.Errors {
		t.Errorf("of %d requests %d failed", after.Sent-before.Sent, after.Errors-before.Errors)
	}
	if entries := serviceEntries(t, b.Cluster); len(entries) != 0 {
		t.Errorf("entries are left: %v", slices.Sorted(maps.Keys(entries)))
	}
}

// spread is how often the largest weight holds the smallest.
func spread(w model.Weights) float64 {
	weights := slices.Sorted(maps.Values(w))
	if len(weights) == 0 {
		return 0
	}
	return float64(weights[len(weights)-1]) / float64(weights[0])
}

// history is the weights that the client is told one after the other, until a check is
// satisfied or time is over.
func (s *sidecar) history(ctx context.Context, cluster string, within time.Duration, check weightsCheck) []model.Weights {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var list []model.Weights
	_ = s.follow(ctx, cluster, func(a *endpointv3.ClusterLoadAssignment) bool { // what is missing shows in the list
		weights, err := weightsOf(a)
		if err == nil && (len(list) == 0 || !maps.Equal(weights, list[len(list)-1])) {
			list = append(list, weights)
		}
		return err == nil && check(weights) == nil
	})
	return list
}

// checkSteps wants weights to come nearer to equal with each step, to none of taper's in
// the end; a share may grow to half an equal one, or else twofold. The last step and the
// removal are one to clients: equal weights are like none.
func checkSteps(t *testing.T, list []model.Weights) {
	t.Helper()
	if len(list) < 3 || plain(list[len(list)-1]) != nil {
		t.Fatalf("weights were %v: want a step between the first and the last", list)
	}
	for i, now := range list[1:] {
		was := list[i]
		if spread(now) >= spread(was) {
			t.Errorf("step %d leads from %v away from equal, to %v", i+1, was, now)
		}
		equal := 1 / float64(len(was))
		a, b := was.Shares(), now.Shares()
		for address := range a {
			if most := max(2*a[address], equal/2); b[address] > 1.1*most { // weights are coarse
				t.Errorf("step %d leads from %v to %v: the share of %s grows from %.3f to %.3f, want at most %.3f", i+1, was, now, address, a[address], b[address], most)
			}
		}
	}
}

// Whatever is down or missing when a policy goes: its service gets its own weights back.
func TestRemoval(t *testing.T) {
	s := startStage(t)
	istiod, err := s.StartIstiod(t.Context(), cluster.IstiodConfig{})
	must(t, err)
	r := &removal{s, newSidecar(t, istiod, "", "")}
	for _, name := range []string{"steady", "blind", "alone", "doomed", "leaving", "typeless"} {
		s.deploy(t, s.newApp(name, 3)) // all now, so that they were measured when they are needed
	}
	t.Run("upgrade", r.upgrade)
	t.Run("while the store is down", r.whileStoreIsDown)
	t.Run("while the operator is down", r.whileOperatorIsDown)
	t.Run("release", r.release)
	t.Run("after the definition", r.afterDefinition)
	t.Run("with its namespace", r.withNamespace)
}

// removal is a stage on which each test has an operator of its own.
type removal struct {
	*stage
	mesh *sidecar
}

// start runs an operator until the test ends, or Stop.
func (r *removal) start(t *testing.T) *operatorProcess {
	t.Helper()
	return startOperator(t, r.Cluster, fmt.Sprintf("operator-%d", r.hosts.Add(1)), cluster.Admin)
}

// serve has a service balanced, and waits until its weights stand.
func (r *removal) serve(t *testing.T, name string) *v1alpha1.BalancePolicy {
	t.Helper()
	policy := r.carryOut(t, r.policy(name, v1alpha1.Enforce))
	r.awaitSettled(t, name)
	r.mesh.awaitTold(t, withinDefault, outbound(name), "weights", uneven)
	return policy
}

// checkGone wants nothing to be left of a policy but, maybe, the policy.
func (r *removal) checkGone(t *testing.T, name string) {
	t.Helper()
	if entries := r.entriesOf(t, name); len(entries) != 0 {
		t.Errorf("entries %v are left", entries)
	}
	r.mesh.awaitTold(t, withinDefault, outbound(name), "the service's own weights", plain)
}

func (r *removal) version(t *testing.T, entry string) string {
	t.Helper()
	found, ok := serviceEntries(t, r.Cluster)[entry]
	if !ok {
		t.Fatalf("there is no ServiceEntry %s", entry)
	}
	return found.ResourceVersion
}

// An operator that is replaced finds all as it should be, decides anew and writes nothing.
func (r *removal) upgrade(t *testing.T) {
	old := r.start(t)
	policy := r.serve(t, "steady")
	version := r.version(t, "taper-steady.http")
	old.Stop(10 * time.Second)

	replaced := r.start(t)
	eventually(t, withinDefault, "the new operator has decided some times", func(ctx context.Context) error {
		text, err := fetch(ctx, replaced.URL+"/metrics")
		if err != nil {
			return err
		}
		if n := sample(text, `taper_decisions_total{hold="DeadBand",mode="Enforce",namespace="lab",policy="steady",trigger="interval"}`); n < 3 {
			return fmt.Errorf("%g times", n)
		}
		if n := sample(text, `taper_writes_total{namespace="lab",policy="steady"}`); n != 0 {
			return cluster.Final(fmt.Errorf("it has written %g times", n))
		}
		return nil
	})
	if now := r.version(t, "taper-steady.http"); now != version {
		t.Errorf("the entry was written: its version is %s, was %s", now, version)
	}
	must(t, r.Client().Delete(t.Context(), policy))
	awaitGone(t, r.Cluster, releaseWithin, policy)
	r.checkGone(t, "steady")
}

// sample is the value of a series in an exposition; 0 when there is none.
func sample(exposition, series string) float64 {
	_, rest, _ := strings.Cut(exposition, "\n"+series+" ")
	text, _, _ := strings.Cut(rest, "\n")
	value, _ := strconv.ParseFloat(text, 64) // 0 with an error
	return value
}

func (r *removal) whileStoreIsDown(t *testing.T) {
	r.start(t)
	policy := r.serve(t, "blind")
	r.store.cut.Store(true)
	defer r.store.cut.Store(false)
	awaitCondition(t, r.Cluster, "blind", v1alpha1.ConditionMetricsFresh, metav1.ConditionFalse, "")
	r.mesh.awaitTold(t, withinDefault, outbound("blind"), "weights", uneven)
	must(t, r.Client().Delete(t.Context(), policy))
	awaitGone(t, r.Cluster, releaseWithin, policy)
	r.checkGone(t, "blind")
}

func (r *removal) whileOperatorIsDown(t *testing.T) {
	r.start(t).Stop(10 * time.Second)
	running := r.start(t)
	policy := r.serve(t, "alone")
	running.Stop(10 * time.Second)
	must(t, r.Client().Delete(t.Context(), policy))
	must(t, r.Client().Get(t.Context(), client.ObjectKeyFromObject(policy), policy))
	if policy.DeletionTimestamp.IsZero() || !slices.Contains(policy.Finalizers, finalizer) {
		t.Fatalf("nobody holds the policy: deleted at %v with finalizers %v", policy.DeletionTimestamp, policy.Finalizers)
	}
	r.mesh.awaitTold(t, withinDefault, outbound("alone"), "weights", uneven)
	r.start(t)
	awaitGone(t, r.Cluster, releaseWithin, policy)
	r.checkGone(t, "alone")
}

// withNamespace deletes what is in a namespace as its controller would, entries first.
// Nothing can be created there any more, and the service is still there.
func (r *removal) withNamespace(t *testing.T) {
	r.start(t)
	policy := r.serve(t, "doomed")
	must(t, r.Client().Delete(t.Context(), cluster.Namespace(namespace)))
	must(t, r.Client().DeleteAllOf(t.Context(), &istionetworkingv1.ServiceEntry{}, client.InNamespace(namespace)))
	must(t, r.Client().Delete(t.Context(), policy))
	awaitGone(t, r.Cluster, releaseWithin, policy)
	r.checkGone(t, "doomed")
}

// release is for uninstalling: it wants the operator to be stopped, says what is left
// when it is not given the time, and leaves policies that are carried out again later.
func (r *removal) release(t *testing.T) {
	running := r.start(t)
	policy := r.serve(t, "leaving")
	// Steps are five seconds apart then, and more than one is needed.
	must(t, r.Change(t.Context(), policy, func() { policy.Spec.Interval = &metav1.Duration{Duration: fresh} }))
	version := r.version(t, "taper-leaving.http")
	if code, out := runOperator(t, r.Cluster, "release", "--within=3s"); code != 1 || !strings.Contains(out, "the lease taper-operator was not free within 3s; stop the operator first") {
		t.Errorf("beside an operator, release ends with %d and says\n%s", code, out)
	}
	if now := r.version(t, "taper-leaving.http"); now != version {
		t.Errorf("beside an operator, release has written")
	}
	running.Stop(10 * time.Second)
	if code, out := runOperator(t, r.Cluster, "release", "--within=4s"); code != 1 || !strings.Contains(out, "not released in time: 1 policies, such as [lab/leaving]") {
		t.Errorf("without the time that it takes, release ends with %d and says\n%s", code, out)
	}

	start := time.Now()
	if code, out := runOperator(t, r.Cluster, "release", "--within=50s"); code != 0 || !strings.Contains(out, "released: nothing of taper's is left in the mesh") {
		t.Errorf("release ends with %d and says\n%s", code, out)
	}
	t.Logf("released in %v", time.Since(start).Round(time.Millisecond))
	r.checkGone(t, "leaving")
	must(t, r.Client().Get(t.Context(), client.ObjectKeyFromObject(policy), policy))
	if len(policy.Finalizers) != 0 || policy.Spec.Mode != v1alpha1.Enforce || !policy.DeletionTimestamp.IsZero() {
		t.Errorf("the policy is left as %+v", policy)
	}
	if code, out := runOperator(t, r.Cluster, "release", "--within=20s"); code != 0 {
		t.Errorf("a second release ends with %d and says\n%s", code, out)
	}

	r.start(t)
	r.mesh.awaitTold(t, withinDefault, outbound("leaving"), "weights", uneven)
	must(t, r.Client().Delete(t.Context(), policy))
	awaitGone(t, r.Cluster, releaseWithin, policy)
}

// afterDefinition deletes the type of policies while one is enforced. The operator stays
// and goes on when the type is back.
func (r *removal) afterDefinition(t *testing.T) {
	running := r.start(t)
	policy := r.serve(t, "typeless")
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "balancepolicies.taper.dev"}}
	must(t, r.Client().Delete(t.Context(), definition))
	awaitGone(t, r.Cluster, releaseWithin, definition)
	r.checkGone(t, "typeless")

	start := time.Now()
	must(t, r.InstallTaperCRDs(t.Context()))
	policy = r.policy("typeless", policy.Spec.Mode)
	must(t, r.Create(t.Context(), policy))
	eventually(t, 2*time.Minute, "a policy of the type that is back is carried out", func(ctx context.Context) error {
		if err := running.Err(); err != nil {
			return cluster.Final(err)
		}
		if err := r.Client().Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		if len(policy.Status.ServiceEntries) == 0 {
			return fmt.Errorf("its status is %+v", policy.Status)
		}
		return nil
	})
	t.Logf("carried out %v after the type was back", time.Since(start).Round(time.Millisecond))
	r.mesh.awaitTold(t, withinDefault, outbound("typeless"), "weights", uneven)
}
