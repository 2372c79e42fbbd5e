package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// The types of condition.
const (
	// ConditionReady is true when the policy is being carried out.
	ConditionReady = "Ready"
	// ConditionMetricsFresh is true when enough endpoints have a fresh sample.
	ConditionMetricsFresh = "MetricsFresh"
	// ConditionApplied is true when the mesh has been given the decided weights.
	ConditionApplied = "Applied"
	// ConditionHeld is true when the weights are deliberately not moved.
	ConditionHeld = "Held"
	// ConditionProgressing is true while weights are on their way to where the
	// strategy wants them.
	ConditionProgressing = "Progressing"
)

// BalancePolicyStatus is what was decided, and why. It is written when something
// in it has changed that matters; sample ages and utilizations alone do not.
type BalancePolicyStatus struct {
	// ObservedGeneration is the generation of the spec that this status is about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Ready, MetricsFresh, Applied, Held and Progressing.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// ObservedAt is when the rest of this status was true.
	//
	// +optional
	ObservedAt *metav1.Time `json:"observedAt,omitempty"`

	// ChangedAt is when weights last changed, written or proposed.
	//
	// +optional
	ChangedAt *metav1.Time `json:"changedAt,omitempty"`

	// Evidence is what demand is learnt from: cpu, in-flight or cpu-only.
	//
	// +optional
	Evidence string `json:"evidence,omitempty"`

	// EndpointCount is the number of endpoints of the service.
	//
	// +optional
	EndpointCount int32 `json:"endpointCount"`

	// Endpoints are the service's endpoints, sorted by pod. At most 500 are listed.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Endpoints []EndpointStatus `json:"endpoints,omitempty"`

	// ServiceEntries are the names of those that hold the weights.
	//
	// +optional
	// +listType=set
	ServiceEntries []string `json:"serviceEntries,omitempty"`
}

// EndpointStatus is one endpoint, what it has and what it would get.
type EndpointStatus struct {
	// Pod is its pod's name.
	Pod string `json:"pod"`
	// Address is its IP address.
	Address string `json:"address"`
	// Weight is the weight in force; 0 where taper has given none.
	//
	// +optional
	Weight int64 `json:"weight"`
	// ProposedWeight is what was last decided: the weight in force with Enforce,
	// what Enforce would settle at with Recommend.
	//
	// +optional
	ProposedWeight int64 `json:"proposedWeight"`
	// Share is the fraction of the service's requests that the proposed weight
	// stands for, such as 0.125.
	//
	// +optional
	Share string `json:"share,omitempty"`
	// Utilization is CPU used over capacity, such as 0.42; empty when not measured.
	//
	// +optional
	Utilization string `json:"utilization,omitempty"`
	// SampleAge is how old its newest sample was at observedAt; empty when there
	// never was one.
	//
	// +optional
	SampleAge *metav1.Duration `json:"sampleAge,omitempty"`
	// Reason is why it gets what it gets.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message says the same in a sentence.
	//
	// +optional
	Message string `json:"message,omitempty"`
}
