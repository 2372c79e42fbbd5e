package operator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"taper.dev/taper/api/v1alpha1"
)

func TestCompactSlice(t *testing.T) {
	t.Parallel()
	pod := func(name string) *corev1.ObjectReference {
		return &corev1.ObjectReference{Kind: "Pod", Namespace: "demo", Name: name, UID: "u", ResourceVersion: "1"}
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "demo", Name: "s", Labels: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{{}}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Port: ptr.To[int32](80)}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.0.0.1"}, TargetRef: pod("a"), NodeName: ptr.To("n"), Zone: ptr.To("z"), Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true)}},
			{Addresses: []string{"10.0.0.2"}, TargetRef: pod("b"), Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false)}},
			{Addresses: []string{"10.0.0.3"}, Conditions: discoveryv1.EndpointConditions{}},
		},
	}
	got, err := compactSlice(slice)
	if err != nil {
		t.Fatal(err)
	}
	ref := func(name string) *corev1.ObjectReference {
		return &corev1.ObjectReference{Kind: "Pod", Namespace: "demo", Name: name}
	}
	want := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "demo", Name: "s", Labels: map[string]string{"a": "b"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Port: ptr.To[int32](80)}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.0.0.1"}, TargetRef: ref("a"), Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}},
			{Addresses: []string{"10.0.0.2"}, TargetRef: ref("b"), Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false)}},
			{Addresses: []string{"10.0.0.3"}},
		},
	}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What a compact policy lacks must not be taken for a change, nor be lost.
func TestCompactPolicyHasTheSameStatus(t *testing.T) {
	t.Parallel()
	policy := &v1alpha1.BalancePolicy{Status: v1alpha1.BalancePolicyStatus{Endpoints: []v1alpha1.EndpointStatus{
		{Pod: "a", Address: "10.0.0.1", Weight: 3, Message: "why", SampleAge: &metav1.Duration{}, Reason: "Balanced"},
	}}}
	full := policy.DeepCopy()
	got, err := compactPolicy(policy)
	if err != nil {
		t.Fatal(err)
	}
	compact := got.(*v1alpha1.BalancePolicy)
	if !sameStatus(&compact.Status, &full.Status) {
		t.Error("the status would be written again")
	}
	if e := compact.Status.Endpoints[0]; e.Message != "" || e.SampleAge != nil || e.Weight != 3 {
		t.Errorf("kept %+v", e)
	}
}
