package serviceentry

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// FieldManager is the name under which entries are written.
const FieldManager = "taper-operator"

const (
	labelManagedBy = "app.kubernetes.io/managed-by"
	labelService   = "taper.dev/service"
	labelPolicy    = "taper.dev/policy"
	// labelAllocate, when "false", keeps istiod from giving the entry addresses of
	// its own and writing them to its status: the service has an address.
	labelAllocate = "networking.istio.io/enable-autoallocate-ip"

	// labelTLSMode says whether an endpoint takes mutual TLS. Without it istiod takes
	// a pod to be plain, but an endpoint with a service account not to be: a pod
	// without a sidecar would be sent TLS. It has to be said.
	labelTLSMode    = "security.istio.io/tlsMode"
	tlsModeDisabled = "disabled"
	// labelHostname is the node, as istiod labels the endpoints that it knows itself.
	labelHostname = "kubernetes.io/hostname"

	// exportToNobody hides the entry as a service: clients see the Kubernetes
	// service, its ports and its own networking.istio.io/exportTo, and only the
	// endpoints come from the entry. Visible, it would be seen by namespaces that the
	// service is hidden from, and outlive it.
	exportToNobody = "~"
)

// Render turns an entry into the resource. What istiod makes of an endpoint then
// differs from what it makes of the pod in the weight, and in the workload's name.
// Everything but endpoints stays the same as long as the service does: another
// change would make istiod push whole configurations rather than endpoints.
func Render(e Entry) *ServiceEntry {
	owner, controller := e.Owner, true
	owner.Controller = &controller
	owner.BlockOwnerDeletion = nil // the policy's finalizer waits already
	return &ServiceEntry{
		TypeMeta: metav1.TypeMeta{APIVersion: groupVersion.String(), Kind: kind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       e.Namespace,
			Name:            Name(e.Service, e.Port.Name),
			Labels:          labelsOf(&e),
			OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: Spec{
			Hosts:      []string{e.Host},
			Ports:      []ServicePort{{Number: e.Port.Number, Name: e.Port.Name, Protocol: e.Port.Protocol}},
			Location:   "MESH_INTERNAL",
			Resolution: "STATIC",
			ExportTo:   []string{exportToNobody},
			Endpoints:  workloadEntries(&e),
		},
	}
}

func labelsOf(e *Entry) map[string]string {
	labels := map[string]string{
		labelManagedBy: FieldManager,
		labelService:   e.Service,
		labelAllocate:  "false",
	}
	if isLabelValue(e.Owner.Name) {
		labels[labelPolicy] = e.Owner.Name
	}
	return labels
}

// isLabelValue tells whether a policy's name is short enough for a label. The owner
// reference has it in any case.
func isLabelValue(policy string) bool { return len(policy) <= validation.LabelValueMaxLength }

func workloadEntries(e *Entry) []WorkloadEntry {
	out := make([]WorkloadEntry, len(e.Endpoints))
	for i := range e.Endpoints {
		ep := &e.Endpoints[i]
		out[i] = WorkloadEntry{
			Address: ep.Address, Weight: ep.Weight, Labels: endpointLabels(ep),
			Locality: ep.Locality, Network: ep.Network, ServiceAccount: ep.ServiceAccount,
		}
		// Not in spec.ports: were the service's target port to change, istiod would
		// push whole configurations.
		if ep.TargetPort != e.Port.Number {
			out[i].Ports = map[string]uint32{e.Port.Name: ep.TargetPort}
		}
	}
	return out
}

func endpointLabels(ep *Endpoint) map[string]string {
	_, known := ep.Labels[labelTLSMode]
	if known && ep.Node == "" {
		return ep.Labels
	}
	labels := make(map[string]string, len(ep.Labels)+2)
	maps.Copy(labels, ep.Labels)
	if !known {
		labels[labelTLSMode] = tlsModeDisabled
	}
	if ep.Node != "" {
		labels[labelHostname] = ep.Node
	}
	return labels
}

// Digest tells entries apart: two with the same one say the same.
type Digest [sha256.Size]byte

// maxBytes bounds an entry. etcd takes 1.5 MiB by default, with what the API server
// adds.
const maxBytes = 1400 << 10

// encode returns the body of a write, and the digest of what it says. A write with a
// uid fails when the object is another one by now.
func encode(s *ServiceEntry, uid types.UID) ([]byte, Digest, error) {
	spec, err := json.Marshal(&s.Spec)
	if err != nil {
		return nil, Digest{}, fmt.Errorf("encoding the spec: %w", err)
	}
	meta := s.ObjectMeta
	meta.UID = uid
	head, err := json.Marshal(&struct {
		metav1.TypeMeta
		Metadata *metav1.ObjectMeta `json:"metadata"`
	}{s.TypeMeta, &meta})
	if err != nil {
		return nil, Digest{}, fmt.Errorf("encoding the metadata: %w", err)
	}
	body := append(head[:len(head)-1], `,"spec":`...)
	body = append(append(body, spec...), '}')
	if len(body) > maxBytes {
		return nil, Digest{}, fmt.Errorf("its %d endpoints take %d KiB, and the API server stores at most %d KiB; split the service, or give its pods fewer labels", len(s.Spec.Endpoints), len(body)>>10, maxBytes>>10)
	}
	return body, digest(&s.ObjectMeta, spec), nil
}

// digestOf is the digest of a resource that was read. Labels and owners that others
// have added do not count: they do no harm, and a write would not take them away.
func digestOf(s *ServiceEntry) (Digest, error) {
	spec, err := json.Marshal(&s.Spec)
	if err != nil {
		return Digest{}, fmt.Errorf("encoding the spec: %w", err)
	}
	return digest(&s.ObjectMeta, spec), nil
}

func digest(meta *metav1.ObjectMeta, spec []byte) Digest {
	var head strings.Builder
	for _, label := range []string{labelManagedBy, labelService, labelAllocate} {
		fmt.Fprintf(&head, "%q ", meta.Labels[label])
	}
	if owner := policyOf(meta); owner != nil {
		fmt.Fprintf(&head, "%q %q ", owner.Name, owner.UID)
		if isLabelValue(owner.Name) {
			fmt.Fprintf(&head, "%q ", meta.Labels[labelPolicy])
		}
	}
	h := sha256.New()
	h.Write([]byte(head.String()))
	h.Write(spec)
	return Digest(h.Sum(nil))
}

// policyOf returns the reference to the policy that owns an entry; nil when none does.
func policyOf(meta *metav1.ObjectMeta) *metav1.OwnerReference {
	for i := range meta.OwnerReferences {
		ref := &meta.OwnerReferences[i]
		if ref.Kind == "BalancePolicy" && strings.HasPrefix(ref.APIVersion, "taper.dev/") && ref.Controller != nil && *ref.Controller {
			return ref
		}
	}
	return nil
}

// managed tells whether an object is ours: by its label or, when somebody took that
// away, by its owner.
func managed(meta *metav1.ObjectMeta) bool {
	return meta.Labels[labelManagedBy] == FieldManager || policyOf(meta) != nil
}
