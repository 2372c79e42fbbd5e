package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SourceType names a kind of source.
//
// +kubebuilder:validation:Enum=Prometheus;VictoriaMetrics;ResourceMetrics
type SourceType string

// The kinds of source.
const (
	// Prometheus is any store that speaks the Prometheus HTTP API.
	Prometheus SourceType = "Prometheus"
	// VictoriaMetrics speaks it too; an incomplete answer of a cluster is recognised
	// with either.
	VictoriaMetrics SourceType = "VictoriaMetrics"
	// ResourceMetrics is the metrics.k8s.io API, which metrics-server provides: CPU
	// only, and no store is needed.
	ResourceMetrics SourceType = "ResourceMetrics"
)

// Source says where samples come from. Policies whose sources are equal are asked
// for together.
//
// +kubebuilder:validation:XValidation:rule="self.type == 'ResourceMetrics' ? !has(self.url) : has(self.url)",message="url is needed for Prometheus and VictoriaMetrics, and not used with ResourceMetrics"
// +kubebuilder:validation:XValidation:rule="self.type != 'ResourceMetrics' || (!has(self.auth) && !has(self.tls) && !has(self.headers) && !has(self.queries) && !has(self.window))",message="auth, tls, headers, window and queries are not used with ResourceMetrics"
type Source struct {
	// Type is the kind of source.
	//
	// +required
	Type SourceType `json:"type"`

	// URL is the base of the store's API, such as http://vmsingle.monitoring:8428.
	// It holds no credentials: those go into a Secret.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != '' && !self.contains('@')",message="url must be http://HOST:PORT or https://HOST:PORT/PATH, without credentials: those belong into a Secret named by auth"
	URL string `json:"url,omitempty"`

	// Auth says how the operator authenticates.
	//
	// +optional
	Auth *Auth `json:"auth,omitempty"`

	// TLS says how the store's certificate is checked.
	//
	// +optional
	TLS *TLS `json:"tls,omitempty"`

	// Headers are sent with each request, such as X-Scope-OrgID. They are not secret.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule="self.all(name, size(name) <= 128 && name.matches('^[A-Za-z0-9][-A-Za-z0-9_]*$') && !(name.lowerAscii() in ['authorization', 'proxy-authorization', 'cookie', 'host', 'content-length', 'content-type']) && size(self[name]) <= 1024 && self[name].matches('^[ -~]*$'))",message="headers need names of letters, digits, - and _ with values of up to 1024 printable ASCII characters; credentials belong into a Secret named by auth"
	Headers map[string]string `json:"headers,omitempty"`

	// Window is what rates are taken over: at least three scrape intervals.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="window must be from 1s to 1h"
	Window *metav1.Duration `json:"window,omitempty"`

	// Queries override what is asked for.
	//
	// +optional
	Queries Queries `json:"queries,omitzero"`
}

// Auth takes credentials from a Secret in the policy's namespace. It is read anew
// when it changes.
//
// +kubebuilder:validation:XValidation:rule="self.type == 'Basic' ? !has(self.tokenKey) : !has(self.usernameKey) && !has(self.passwordKey)",message="usernameKey and passwordKey belong to Basic, tokenKey to Bearer"
type Auth struct {
	// Type is Basic or Bearer.
	//
	// +required
	// +kubebuilder:validation:Enum=Basic;Bearer
	Type string `json:"type"`

	// SecretName is the name of the Secret.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`

	// UsernameKey is the key of the user's name; username by default.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	UsernameKey string `json:"usernameKey,omitempty"`

	// PasswordKey is the key of the password; password by default.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PasswordKey string `json:"passwordKey,omitempty"`

	// TokenKey is the key of the token; token by default.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TokenKey string `json:"tokenKey,omitempty"`
}

// TLS says how the store's certificate is checked. It is always checked.
type TLS struct {
	// CASecretName is a Secret in the policy's namespace whose key ca.crt holds the
	// PEM certificates to check against; when empty, those of the operator's image.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	CASecretName string `json:"caSecretName,omitempty"`

	// ServerName is the name that the certificate must have; the URL's host by default.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServerName string `json:"serverName,omitempty"`
}

// Queries override what is asked for, for clusters whose metrics have other names
// or come from recording rules.
//
// +kubebuilder:validation:XValidation:rule="!has(self.cpu) || !self.cpu.disabled || !has(self.inFlight) || !self.inFlight.disabled",message="cpu and inFlight must not both be disabled: what a request costs is learnt from one of them"
type Queries struct {
	// CPU is the usage of CPU, in cores: cAdvisor's container_cpu_usage_seconds_total
	// by default.
	//
	// +optional
	CPU *Query `json:"cpu,omitempty"`

	// Requests is the rate of requests that a pod served: Istio's
	// istio_requests_total by default.
	//
	// +optional
	Requests *Query `json:"requests,omitempty"`

	// InFlight is the mean number of requests that a pod is busy with. By default it
	// is the rate of Istio's istio_request_duration_milliseconds_sum, in seconds per
	// second. It is what demand is learnt from where there is no CPU.
	//
	// +optional
	InFlight *Query `json:"inFlight,omitempty"`

	// PodLabel is the label that holds the name of the pod; pod by default.
	//
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-zA-Z_][a-zA-Z0-9_]*$`
	// +kubebuilder:validation:MaxLength=128
	PodLabel string `json:"podLabel,omitempty"`

	// NamespaceLabel is the label that holds its namespace; namespace by default.
	//
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-zA-Z_][a-zA-Z0-9_]*$`
	// +kubebuilder:validation:MaxLength=128
	NamespaceLabel string `json:"namespaceLabel,omitempty"`
}

// Query selects the series of one metric.
//
// +kubebuilder:validation:XValidation:rule="self.disabled ? !has(self.selector) : has(self.selector)",message="want either a selector or disabled: true"
type Query struct {
	// Selector is a PromQL series selector, such as
	// container_cpu_usage_seconds_total{container!=""}. Series of one pod are added up.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Selector string `json:"selector,omitempty"`

	// Type is Counter, of which the rate is taken, or Gauge, of which the mean is.
	//
	// +optional
	// +kubebuilder:default=Counter
	// +kubebuilder:validation:Enum=Counter;Gauge
	Type string `json:"type,omitempty"`

	// Scale is what values are multiplied by: "0.001", a string, for a sum of durations in
	// milliseconds, such as Istio's. 1 by default.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) > 0",message="scale must be above 0"
	Scale *resource.Quantity `json:"scale,omitempty"`

	// Disabled leaves the metric out.
	//
	// +optional
	// +kubebuilder:default=false
	Disabled bool `json:"disabled"`
}
