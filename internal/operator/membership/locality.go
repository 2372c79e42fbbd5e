package membership

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	labelNetwork        = "topology.istio.io/network"
	labelSubzone        = "topology.istio.io/subzone"
	labelLocality       = "topology.istio.io/locality"
	labelLegacyLocality = "istio-locality"
)

// podLocality is getPodLocality of istiod: what the pod's label says, or else its
// node. In a label, dots stand for the slashes that a label cannot have.
func podLocality(pod *Pod, ofNode func(string) string) string {
	label, ok := pod.Labels[labelLocality]
	if !ok {
		label = pod.Labels[labelLegacyLocality]
	}
	switch {
	case label != "" && strings.Contains(label, "/"):
		return label
	case label != "":
		return strings.ReplaceAll(label, ".", "/")
	case pod.Node == "":
		return ""
	}
	return ofNode(pod.Node)
}

// nodeLocality is what istiod makes of a node's labels; empty when there are none
// of those that count, and with all slashes otherwise.
func nodeLocality(labels map[string]string) string {
	region := cmp.Or(labels[corev1.LabelTopologyRegion], labels[corev1.LabelFailureDomainBetaRegion])
	zone := cmp.Or(labels[corev1.LabelTopologyZone], labels[corev1.LabelFailureDomainBetaZone])
	subzone := labels[labelSubzone]
	if region == "" && zone == "" && subzone == "" {
		return ""
	}
	return region + "/" + zone + "/" + subzone
}
