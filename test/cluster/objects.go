package cluster

import (
	"cmp"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// Namespace is an empty namespace.
func Namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// Service has one port called http, which is the pods' port too, and selects pods
// by label app, its own name.
func Service(namespace, name string, port int32) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": name},
			Ports:    []corev1.ServicePort{{Name: "http", Port: port, TargetPort: intstr.FromInt32(port)}},
		},
	}
}

// Node is ready, has 4 cores and is in a zone of a region.
func Node(name, region, zone string) *corev1.Node {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("4"),
		corev1.ResourceMemory: resource.MustParse("8Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname:       name,
			corev1.LabelTopologyRegion: region,
			corev1.LabelTopologyZone:   zone,
		}},
		Status: corev1.NodeStatus{
			Capacity:    capacity,
			Allocatable: capacity,
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// Pod is ready at its addresses, of which the first is the primary one. It runs one
// container with a limit of 1 core, and has the label app.
func Pod(namespace, name, app, node string, ips ...string) *corev1.Pod {
	addresses := make([]corev1.PodIP, len(ips))
	for i, ip := range ips {
		addresses[i].IP = ip
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{
			NodeName:           node,
			ServiceAccountName: "default",
			Containers: []corev1.Container{{
				Name:  "app",
				Image: "app",
				Resources: corev1.ResourceRequirements{
					Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
				},
			}},
		},
		Status: corev1.PodStatus{
			Phase:  corev1.PodRunning,
			PodIP:  ips[0],
			PodIPs: addresses,
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue},
				{Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
			},
		},
	}
}

// EndpointSlice lists the pods' addresses of one family behind a service, as the
// endpoint controller would: its name is the service's with -ipv4 or -ipv6.
func EndpointSlice(service *corev1.Service, family discoveryv1.AddressType, pods ...*corev1.Pod) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: service.Namespace,
			Name:      service.Name + "-" + strings.ToLower(string(family)),
			Labels:    map[string]string{discoveryv1.LabelServiceName: service.Name},
		},
		AddressType: family,
	}
	for _, p := range service.Spec.Ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{
			Name: ptr.To(p.Name), Port: ptr.To(p.TargetPort.IntVal), Protocol: ptr.To(cmp.Or(p.Protocol, corev1.ProtocolTCP)), AppProtocol: p.AppProtocol,
		})
	}
	for _, pod := range pods {
		slice.Endpoints = append(slice.Endpoints, Endpoint(family, pod))
	}
	return slice
}

// Endpoint is what a slice of a family says of a ready pod. It panics if the pod
// has no address of that family.
func Endpoint(family discoveryv1.AddressType, pod *corev1.Pod) discoveryv1.Endpoint {
	for _, ip := range pod.Status.PodIPs {
		if netip.MustParseAddr(ip.IP).Is4() == (family == discoveryv1.AddressTypeIPv4) {
			e := discoveryv1.Endpoint{
				Addresses:  []string{ip.IP},
				Conditions: conditions(true),
				TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
			}
			if pod.Spec.NodeName != "" {
				e.NodeName = ptr.To(pod.Spec.NodeName)
			}
			return e
		}
	}
	panic("pod " + pod.Name + " has no " + string(family) + " address")
}

func conditions(ready bool) discoveryv1.EndpointConditions {
	return discoveryv1.EndpointConditions{Ready: ptr.To(ready), Serving: ptr.To(ready), Terminating: ptr.To(false)}
}
