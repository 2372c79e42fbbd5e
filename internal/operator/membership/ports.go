package membership

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Istio's names of the protocols that are balanced without being asked for.
const (
	protocolHTTP    = "HTTP"
	protocolHTTP2   = "HTTP2"
	protocolGRPC    = "GRPC"
	protocolGRPCWeb = "GRPC-Web"
)

// protocols are those that Istio knows by the first word of a port's name, as it
// writes them.
var protocols = map[string]string{
	"http":       protocolHTTP,
	"http2":      protocolHTTP2,
	"grpc":       protocolGRPC,
	"grpc-web":   protocolGRPCWeb,
	"http_proxy": "HTTP_PROXY",
	"https":      "HTTPS",
	"tcp":        "TCP",
	"tls":        "TLS",
	"udp":        "UDP",
	"mongo":      "Mongo",
	"redis":      "Redis",
	"mysql":      "MySQL",
}

// notSniffed are the ports on which Istio does not look for HTTP: SMTP, DNS,
// MySQL and MongoDB let the server speak first.
var notSniffed = []int32{25, 53, 3306, 27017}

// protocol is what Istio takes a port to speak; empty when it finds out from the
// bytes. It is ConvertProtocol of Istio's pkg/config/kube/conversion.go.
func protocol(port corev1.ServicePort) string {
	word := port.Name
	if port.AppProtocol != nil {
		word = *port.AppProtocol
		switch word {
		case "kubernetes.io/h2c":
			return protocolHTTP2
		case "kubernetes.io/ws":
			return protocolHTTP
		case "kubernetes.io/wss":
			return "HTTPS"
		}
	}
	word = strings.ToLower(word)
	if strings.HasPrefix(word, "grpc-web") {
		return protocolGRPCWeb
	}
	word, _, _ = strings.Cut(word, "-")
	if p := protocols[word]; p != "" {
		return p
	}
	if slices.Contains(notSniffed, port.Port) {
		return "TCP"
	}
	return ""
}

// overTCP tells whether a port is TCP: Istio has no Envoy cluster for any other.
func overTCP(port corev1.ServicePort) bool {
	return (port.Protocol == corev1.ProtocolTCP || port.Protocol == "") && protocol(port) != "UDP"
}

// carriesRequests tells whether Istio is sure that a port speaks HTTP or gRPC.
// HTTPS is not among them: to Istio it is bytes.
func carriesRequests(port corev1.ServicePort) bool {
	switch protocol(port) {
	case protocolHTTP, protocolHTTP2, protocolGRPC, protocolGRPCWeb:
		return overTCP(port)
	}
	return false
}

// choosePorts returns the ports to be balanced, in the service's order. One that
// is asked for by name may speak anything over TCP: Envoy balances connections by
// weight, too.
func choosePorts(s *corev1.Service, asked []string) ([]Port, *Refusal) {
	for _, want := range asked {
		i := slices.IndexFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == want })
		if i < 0 {
			return nil, refuse(ReasonUnknownPort, "service %s has no port %q; it has %s", fullName(s), want, describePorts(s))
		}
		if port := s.Spec.Ports[i]; !overTCP(port) {
			return nil, refuse(ReasonNotTCP, "port %q of service %s is %s, which Istio does not carry; it has %s",
				want, fullName(s), describePort(port), describePorts(s))
		}
	}
	var ports []Port
	for _, port := range s.Spec.Ports {
		chosen := slices.Contains(asked, port.Name)
		if len(asked) == 0 {
			chosen = carriesRequests(port)
		}
		if chosen && port.Name == "" {
			return nil, refuse(ReasonUnnamedPort,
				"port %d of service %s has no name, and Istio takes no ServiceEntry without; give it one, such as http", port.Port, fullName(s))
		}
		if chosen {
			ports = append(ports, Port{Name: port.Name, Protocol: protocol(port), Number: uint32(port.Port)})
		}
	}
	if len(ports) == 0 {
		return nil, refuse(ReasonNoPorts,
			"service %s has no port that is known to carry HTTP or gRPC; it has %s: begin the port's name with http or grpc, as in http-web, set its appProtocol, or name it in the policy's ports",
			fullName(s), describePorts(s))
	}
	return ports, nil
}

// describePorts lists a service's ports for a message.
func describePorts(s *corev1.Service) string {
	const most = 8 // a message must stay readable
	if len(s.Spec.Ports) == 0 {
		return "none"
	}
	var list []string
	for _, port := range s.Spec.Ports[:min(most, len(s.Spec.Ports))] {
		list = append(list, fmt.Sprintf("%q (%s)", port.Name, describePort(port)))
	}
	if more := len(s.Spec.Ports) - most; more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, ", ")
}

func describePort(port corev1.ServicePort) string {
	transport := port.Protocol
	if transport == "" {
		transport = corev1.ProtocolTCP
	}
	speaks := protocol(port)
	if speaks == "" {
		speaks = "protocol not declared"
	}
	return fmt.Sprintf("%d/%s, %s", port.Port, transport, speaks)
}
