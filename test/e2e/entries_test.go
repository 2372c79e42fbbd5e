//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1alpha3 "istio.io/api/networking/v1alpha3"
	istionetworkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"taper.dev/taper/api/v1alpha1"
)

// repairWithin is how long an entry may stay as somebody else has left it.
const repairWithin = 2 * time.Second

// foreign is somebody's own ServiceEntry.
func foreign(name, host, address string) *istionetworkingv1.ServiceEntry {
	return &istionetworkingv1.ServiceEntry{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: networkingv1alpha3.ServiceEntry{
			Hosts: []string{host}, Location: networkingv1alpha3.ServiceEntry_MESH_INTERNAL, Resolution: networkingv1alpha3.ServiceEntry_STATIC,
			Ports:     []*networkingv1alpha3.ServicePort{{Name: "http", Number: 8080, Protocol: "HTTP"}},
			Endpoints: []*networkingv1alpha3.WorkloadEntry{{Address: address, Weight: 7}},
		},
	}
}

func testForeignHost(t *testing.T, s *stage, mesh *sidecar) {
	theirs := foreign("theirs", "shared.lab.svc.cluster.local", s.address(true))
	must(t, s.Create(t.Context(), theirs))
	testForeign(t, s, mesh, "shared", theirs)
}

func testForeignName(t *testing.T, s *stage, mesh *sidecar) {
	theirs := foreign("taper-named.http", "elsewhere.example.com", s.address(true))
	must(t, s.Create(t.Context(), theirs))
	testForeign(t, s, mesh, "named", theirs)
}

// testForeign wants a foreign entry to be named and left alone, and work to go on when
// it is gone.
func testForeign(t *testing.T, s *stage, mesh *sidecar, service string, theirs *istionetworkingv1.ServiceEntry) {
	s.deploy(t, s.newApp(service, 2))
	must(t, s.Create(t.Context(), s.policy(service, v1alpha1.Enforce)))
	got := awaitCondition(t, s.Cluster, service, v1alpha1.ConditionApplied, metav1.ConditionFalse, "ForeignServiceEntry")
	if c := apimeta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionApplied); !strings.Contains(c.Message, namespace+"/"+theirs.Name) {
		t.Errorf("the message %q does not name %s", c.Message, theirs.Name)
	}
	if entries := s.entriesOf(t, service); len(entries) != 0 {
		t.Errorf("there are entries %v", entries)
	}
	now := serviceEntries(t, s.Cluster)[theirs.Name]
	ours := slices.ContainsFunc(now.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == "taper-operator" })
	if now.UID != theirs.UID || now.Generation != theirs.Generation || ours || len(now.OwnerReferences) != 0 {
		t.Errorf("their entry is now %+v", now)
	}
	must(t, s.Client().Delete(t.Context(), theirs))
	awaitCondition(t, s.Cluster, service, v1alpha1.ConditionApplied, metav1.ConditionTrue, "Written")
	mesh.awaitTold(t, withinDefault, outbound(service), "weights", uneven)
}

// A foreign entry that comes later makes ours go: nothing would follow the endpoints in
// it any more.
func testForeignLater(t *testing.T, s *stage, mesh *sidecar) {
	a := s.newApp("later", 3)
	s.enforce(t, a)
	mesh.awaitTold(t, withinDefault, outbound("later"), "weights", uneven)
	theirs := foreign("theirs-later", "later.lab.svc.cluster.local", s.address(true))
	must(t, s.Create(t.Context(), theirs))
	awaitCondition(t, s.Cluster, "later", v1alpha1.ConditionApplied, metav1.ConditionFalse, "ForeignServiceEntry")
	must(t, s.RemoveEndpoint(t.Context(), a.slices[0], a.pods[2]))
	their := hostPort(theirs.Spec.Endpoints[0].Address, 8080)
	mesh.awaitTold(t, withinDefault, outbound("later"), "the pods that are left, and theirs", endpointsAre(a.addresses()[0], a.addresses()[1], their))
	if entries := s.entriesOf(t, "later"); len(entries) != 0 {
		t.Errorf("entries %v are left, and nobody follows the pods in them", entries)
	}
	must(t, s.Client().Delete(t.Context(), theirs))
	awaitCondition(t, s.Cluster, "later", v1alpha1.ConditionApplied, metav1.ConditionTrue, "Written")
	mesh.awaitTold(t, withinDefault, outbound("later"), "weights", uneven)
}

// What others do to an entry is undone.
func testDrift(t *testing.T, s *stage, mesh *sidecar) {
	a := s.newApp("drift", 2)
	policy := s.enforce(t, a)
	s.awaitSettled(t, "drift")
	// What is put back is put back for the change, not with the next decision.
	must(t, s.Change(t.Context(), policy, func() {
		policy.Spec.Interval, policy.Spec.Freshness = &metav1.Duration{Duration: time.Hour}, v1alpha1.Freshness{}
	}))
	eventually(t, withinDefault, "the policy's interval is followed", func(ctx context.Context) error {
		if err := s.Client().Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		if policy.Status.ObservedGeneration != policy.Generation {
			return fmt.Errorf("generation %d of %d was seen", policy.Status.ObservedGeneration, policy.Generation)
		}
		return nil
	})
	entry := &istionetworkingv1.ServiceEntry{}
	key := client.ObjectKey{Namespace: namespace, Name: "taper-drift.http"}
	must(t, s.Client().Get(t.Context(), key, entry))
	want := entry.DeepCopy()
	mend := func(t *testing.T, what string) {
		t.Helper()
		start := time.Now()
		eventually(t, repairWithin, what+" is undone", func(ctx context.Context) error {
			now := &istionetworkingv1.ServiceEntry{}
			if err := s.Client().Get(ctx, key, now); err != nil {
				return err
			}
			return sameEntry(now, want)
		})
		t.Logf("%s: undone after %v", what, time.Since(start).Round(time.Millisecond))
	}
	for what, change := range map[string]func(){
		"a weight":    func() { entry.Spec.Endpoints[0].Weight = 1000 },
		"an endpoint": func() { entry.Spec.Endpoints = entry.Spec.Endpoints[:1] },
		"a stranger":  func() { entry.Spec.Endpoints[1].Address = "10.9.9.9" },
		"another port": func() {
			entry.Spec.Ports = append(entry.Spec.Ports, &networkingv1alpha3.ServicePort{Name: "x", Number: 1, Protocol: "TCP"})
		},
		"the exports":    func() { entry.Spec.ExportTo = []string{"*"} },
		"another host":   func() { entry.Spec.Hosts = []string{"drift.lab.svc.cluster.local", "x.example.com"} },
		"the label":      func() { delete(entry.Labels, "app.kubernetes.io/managed-by") },
		"the owner":      func() { entry.OwnerReferences = nil },
		"its resolution": func() { entry.Spec.Resolution = networkingv1alpha3.ServiceEntry_NONE; entry.Spec.Endpoints = nil },
	} {
		entry.Namespace, entry.Name = key.Namespace, key.Name
		must(t, s.Change(t.Context(), entry, change))
		mend(t, what)
	}
	must(t, s.Client().Delete(t.Context(), entry))
	mend(t, "a deletion")
	mesh.awaitTold(t, withinDefault, outbound("drift"), "weights", both(endpointsAre(a.addresses()...), uneven))
}

// sameEntry compares what matters in two states of an entry.
func sameEntry(now, want *istionetworkingv1.ServiceEntry) error {
	if now.Spec.String() != want.Spec.String() {
		return fmt.Errorf("it says %v, want %v", now.Spec.String(), want.Spec.String())
	}
	if !maps.Equal(now.Labels, want.Labels) || len(now.OwnerReferences) != 1 || now.OwnerReferences[0].UID != want.OwnerReferences[0].UID {
		return fmt.Errorf("it has labels %v and owners %v", now.Labels, now.OwnerReferences)
	}
	return nil
}
