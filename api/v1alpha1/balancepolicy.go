package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BalancePolicy balances one Service by what its pods can take.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=bp,categories=taper
// +kubebuilder:printcolumn:name="Service",type=string,JSONPath=`.spec.targetRef.name`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Strategy",type=string,JSONPath=`.spec.strategy`,priority=1
// +kubebuilder:printcolumn:name="Endpoints",type=integer,JSONPath=`.status.endpointCount`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Fresh",type=string,JSONPath=`.status.conditions[?(@.type=="MetricsFresh")].status`
// +kubebuilder:printcolumn:name="Applied",type=string,JSONPath=`.status.conditions[?(@.type=="Applied")].status`
// +kubebuilder:printcolumn:name="Held",type=string,JSONPath=`.status.conditions[?(@.type=="Held")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BalancePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec BalancePolicySpec `json:"spec"`
	// +optional
	Status BalancePolicyStatus `json:"status,omitempty"`
}

// BalancePolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type BalancePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []BalancePolicy `json:"items"`
}

// Mode says whether weights are written or only shown.
//
// +kubebuilder:validation:Enum=Recommend;Enforce
type Mode string

// The modes.
const (
	// Recommend decides and shows in the status what Enforce would settle at. It
	// writes nothing else.
	Recommend Mode = "Recommend"
	// Enforce writes the weights to the mesh.
	Enforce Mode = "Enforce"
)

// Strategy names how shares are chosen.
//
// +kubebuilder:validation:Enum=LeastLatency;EqualLoad
type Strategy string

// The strategies.
const (
	// LeastLatency minimises the mean response time.
	LeastLatency Strategy = "LeastLatency"
	// EqualLoad gives every endpoint the same utilization.
	EqualLoad Strategy = "EqualLoad"
)

// BalancePolicySpec is what the owner of a service chooses. Only targetRef has to
// be given.
//
// +kubebuilder:validation:XValidation:rule="!has(self.freshness) || !has(self.freshness.maxAge) || duration(self.freshness.maxAge) >= duration(self.interval)",message="freshness.maxAge must be at least the interval"
// +kubebuilder:validation:XValidation:rule="!has(self.freshness) || !has(self.freshness.releaseAfter) || has(self.freshness.maxAge) || duration(self.freshness.releaseAfter) >= duration(self.interval) + duration(self.interval) + duration(self.interval)",message="freshness.releaseAfter must be at least freshness.maxAge, which is three intervals unless it is set"
// +kubebuilder:validation:XValidation:rule="!has(self.freshness) || has(self.freshness.releaseAfter) || !has(self.freshness.maxAge) || duration(self.freshness.maxAge).getMilliseconds() <= 10 * duration(self.interval).getMilliseconds()",message="freshness.maxAge must not exceed freshness.releaseAfter, which is ten intervals unless it is set"
// +kubebuilder:validation:XValidation:rule="!has(self.guardRail) || !has(self.source) || self.source.type != 'ResourceMetrics'",message="guardRail needs a source that answers PromQL: Prometheus or VictoriaMetrics"
type BalancePolicySpec struct {
	// TargetRef names the Service, in the policy's own namespace.
	//
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="targetRef cannot be changed: delete the policy, which gives the service back its own weights, and create another"
	TargetRef TargetRef `json:"targetRef"`

	// Ports are the names of the service's ports to balance. When empty, they are all
	// that carry HTTP or gRPC by their appProtocol or the prefix of their name.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Ports []string `json:"ports,omitempty"`

	// Mode says whether weights are written or only shown.
	//
	// +optional
	// +kubebuilder:default=Recommend
	Mode Mode `json:"mode,omitempty"`

	// Strategy says how shares are chosen.
	//
	// +optional
	// +kubebuilder:default=LeastLatency
	Strategy Strategy `json:"strategy,omitempty"`

	// Interval is the time between decisions. Membership does not wait for it.
	//
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="interval must be from 1s to 1h"
	Interval *metav1.Duration `json:"interval,omitempty"`

	// Source says where samples come from; when it is not given, the operator's default.
	//
	// +optional
	Source *Source `json:"source,omitempty"`

	// Limits bound what a decision may do.
	//
	// +optional
	// +kubebuilder:default={}
	Limits Limits `json:"limits,omitempty"`

	// Freshness says how old and how complete samples must be.
	//
	// +optional
	// +kubebuilder:default={}
	Freshness Freshness `json:"freshness,omitempty"`

	// GuardRail steps weights back to equal while a query exceeds a bound.
	//
	// +optional
	GuardRail *GuardRail `json:"guardRail,omitempty"`

	// Suspend keeps the weights as they are. Membership is still followed.
	//
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// TargetRef names what is balanced.
type TargetRef struct {
	// Kind is Service.
	//
	// +optional
	// +kubebuilder:default=Service
	// +kubebuilder:validation:Enum=Service
	Kind string `json:"kind,omitempty"`

	// Name is the name of the Service.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
}

// Limits bound what a decision may do. What is not given has a default that is
// good for a service of which nothing is known.
type Limits struct {
	// UtilizationPercent is the highest utilization of an endpoint that a decision
	// aims for.
	//
	// +optional
	// +kubebuilder:default=70
	// +kubebuilder:validation:Minimum=5
	// +kubebuilder:validation:Maximum=100
	UtilizationPercent int32 `json:"utilizationPercent,omitempty"`

	// MinSharePercent is the smallest share, in percent of the equal share. It keeps
	// a slow endpoint warm and measured.
	//
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=5
	// +kubebuilder:validation:Maximum=100
	MinSharePercent int32 `json:"minSharePercent,omitempty"`

	// MaxSharePercent is the largest share, in percent of the equal share.
	//
	// +optional
	// +kubebuilder:default=1000
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=100000
	MaxSharePercent int32 `json:"maxSharePercent,omitempty"`

	// StepPercent is by how much a share may grow in one decision, in percent of
	// what it was.
	//
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=900
	StepPercent int32 `json:"stepPercent,omitempty"`

	// DeadBandPercent is the relative change of every share below which weights are
	// left alone.
	//
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=50
	DeadBandPercent *int32 `json:"deadBandPercent,omitempty"`

	// Capacity is the CPU of a pod that has neither a limit nor a request for it.
	//
	// +optional
	// +kubebuilder:default="1"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1m')) >= 0 && quantity(string(self)).compareTo(quantity('4096')) <= 0",message="capacity must be from 1m to 4096"
	Capacity *resource.Quantity `json:"capacity,omitempty"`
}

// Freshness says how old and how complete samples must be. Weights are held while
// they are not, and given back in steps when that lasts.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxAge) || !has(self.releaseAfter) || duration(self.releaseAfter) >= duration(self.maxAge)",message="releaseAfter must be at least maxAge"
type Freshness struct {
	// MaxAge is the age beyond which a sample is stale: three intervals by default.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="maxAge must be from 1s to 24h"
	MaxAge *metav1.Duration `json:"maxAge,omitempty"`

	// ReleaseAfter is how long weights are held without fresh samples before they
	// step back to equal: ten intervals by default.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('168h')",message="releaseAfter must be from 1s to 168h"
	ReleaseAfter *metav1.Duration `json:"releaseAfter,omitempty"`

	// CoveragePercent is the part of the endpoints that must have a fresh sample.
	//
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	CoveragePercent int32 `json:"coveragePercent,omitempty"`
}

// GuardRail is a bound on something that must not get worse, such as a rate of
// errors. While it is exceeded, weights step back to equal; while it cannot be
// read, they are held.
type GuardRail struct {
	// Query is PromQL for the policy's source. Its answer must be one number.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Query string `json:"query"`

	// Max is the largest value that is fine.
	//
	// +required
	Max resource.Quantity `json:"max"`
}
