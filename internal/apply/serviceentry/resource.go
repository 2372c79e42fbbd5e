package serviceentry

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

const (
	kind     = "ServiceEntry"
	resource = "serviceentries"
)

var groupVersion = schema.GroupVersion{Group: "networking.istio.io", Version: "v1"}

// ServiceEntry is Istio's resource in plain structs. Istio's own type is protobuf:
// for 100 endpoints it takes a millisecond to encode and three to decode, which is
// ten times as long, and this package sees every entry of the cluster.
type ServiceEntry struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec Spec `json:"spec"`
}

// Spec has all of Istio's fields, also those that are never written here: another's
// hand in an entry must show.
type Spec struct {
	Hosts            []string          `json:"hosts,omitempty"`
	Addresses        []string          `json:"addresses,omitempty"`
	Ports            []ServicePort     `json:"ports,omitempty"`
	Location         string            `json:"location,omitempty"`
	Resolution       string            `json:"resolution,omitempty"`
	Endpoints        []WorkloadEntry   `json:"endpoints,omitempty"`
	WorkloadSelector *WorkloadSelector `json:"workloadSelector,omitempty"`
	ExportTo         []string          `json:"exportTo,omitempty"`
	SubjectAltNames  []string          `json:"subjectAltNames,omitempty"`
}

// ServicePort is a port of the host.
type ServicePort struct {
	Number     uint32 `json:"number"`
	Protocol   string `json:"protocol,omitempty"`
	Name       string `json:"name"`
	TargetPort uint32 `json:"targetPort,omitempty"`
}

// WorkloadEntry is an endpoint in Istio's words.
type WorkloadEntry struct {
	Address        string            `json:"address,omitempty"`
	Ports          map[string]uint32 `json:"ports,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	Network        string            `json:"network,omitempty"`
	Locality       string            `json:"locality,omitempty"`
	Weight         uint32            `json:"weight,omitempty"`
	ServiceAccount string            `json:"serviceAccount,omitempty"`
}

// WorkloadSelector takes endpoints from WorkloadEntries and pods.
type WorkloadSelector struct {
	Labels map[string]string `json:"labels,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (s *ServiceEntry) DeepCopyObject() runtime.Object { return s.deepCopy() }

func (s *ServiceEntry) deepCopy() *ServiceEntry {
	out := &ServiceEntry{TypeMeta: s.TypeMeta, Spec: s.Spec}
	s.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	spec := &out.Spec
	spec.Hosts = slices.Clone(spec.Hosts)
	spec.Addresses = slices.Clone(spec.Addresses)
	spec.Ports = slices.Clone(spec.Ports)
	spec.ExportTo = slices.Clone(spec.ExportTo)
	spec.SubjectAltNames = slices.Clone(spec.SubjectAltNames)
	spec.Endpoints = slices.Clone(spec.Endpoints)
	for i := range spec.Endpoints {
		e := &spec.Endpoints[i]
		e.Ports, e.Labels = maps.Clone(e.Ports), maps.Clone(e.Labels)
	}
	if spec.WorkloadSelector != nil {
		spec.WorkloadSelector = &WorkloadSelector{Labels: maps.Clone(spec.WorkloadSelector.Labels)}
	}
	return out
}

// serviceEntryList is what the API server answers to a list.
type serviceEntryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ServiceEntry `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *serviceEntryList) DeepCopyObject() runtime.Object {
	out := &serviceEntryList{TypeMeta: l.TypeMeta, Items: make([]ServiceEntry, len(l.Items))}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items[i] = *l.Items[i].deepCopy()
	}
	return out
}

// NewClient makes the client that [NewIndex] and [New] take. It has no limit of its
// own on the rate of requests: a limit would delay the removal of an endpoint, and
// the API server has one that knows how busy it is.
func NewClient(config *rest.Config, transport *http.Client) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(groupVersion.WithKind(kind), &ServiceEntry{})
	scheme.AddKnownTypeWithName(groupVersion.WithKind(kind+"List"), &serviceEntryList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"}) // Status
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering the types of metadata: %w", err)
	}

	config = rest.CopyConfig(config)
	config.APIPath = "/apis"
	config.GroupVersion = &groupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.RateLimiter, config.QPS = nil, -1
	client, err := rest.RESTClientForConfigAndClient(config, transport)
	if err != nil {
		return nil, fmt.Errorf("making the client for ServiceEntries: %w", err)
	}
	return client, nil
}
