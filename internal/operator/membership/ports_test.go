package membership

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestProtocol(t *testing.T) {
	t.Parallel()
	// chosen is whether the port is balanced without being asked for.
	tests := []struct {
		name, app string
		number    int32
		transport corev1.Protocol
		want      string
		chosen    bool
	}{
		{name: "http", want: "HTTP", chosen: true},
		{name: "http-web", want: "HTTP", chosen: true},
		{name: "HTTP-Web", want: "HTTP", chosen: true},
		{name: "http2", want: "HTTP2", chosen: true},
		{name: "http2-api", want: "HTTP2", chosen: true},
		{name: "grpc", want: "GRPC", chosen: true},
		{name: "grpc-api", want: "GRPC", chosen: true},
		{name: "grpc-web", want: "GRPC-Web", chosen: true},
		{name: "grpc-web-ui", want: "GRPC-Web", chosen: true},
		{name: "grpc-webui", want: "GRPC-Web", chosen: true}, // so does Istio
		{name: "httpx", want: ""},
		{name: "http3", want: ""},
		{name: "web", want: ""},
		{name: "web-http", want: ""},
		{name: "", want: ""},
		{name: "https", want: "HTTPS"},
		{name: "https-web", want: "HTTPS"},
		{name: "tls-x", want: "TLS"},
		{name: "tcp-x", want: "TCP"},
		{name: "mongo", want: "Mongo"},
		{name: "redis", want: "Redis"},
		{name: "mysql", want: "MySQL"},
		{name: "db", number: 3306, want: "TCP"},
		{name: "http-dns", number: 53, want: "HTTP", chosen: true},
		{name: "web", app: "http", want: "HTTP", chosen: true},
		{name: "http", app: "tcp", want: "TCP"},
		{name: "http", app: "example.org/own", want: ""},
		{name: "web", app: "kubernetes.io/h2c", want: "HTTP2", chosen: true},
		{name: "web", app: "kubernetes.io/ws", want: "HTTP", chosen: true},
		{name: "web", app: "kubernetes.io/wss", want: "HTTPS"},
		{name: "web", app: "grpc", want: "GRPC", chosen: true},
		{name: "web", app: "http_proxy", want: "HTTP_PROXY"},
		{name: "http", transport: corev1.ProtocolTCP, want: "HTTP", chosen: true},
		{name: "http", transport: corev1.ProtocolUDP, want: "HTTP"},
		{name: "http", transport: corev1.ProtocolSCTP, want: "HTTP"},
		{name: "udp", want: "UDP"},
	}
	for _, test := range tests {
		port := corev1.ServicePort{Name: test.name, Port: test.number, Protocol: test.transport}
		if test.app != "" {
			port.AppProtocol = ptr.To(test.app)
		}
		if got := protocol(port); got != test.want {
			t.Errorf("%s: protocol %q, want %q", describePort(port), got, test.want)
		}
		if got := carriesRequests(port); got != test.chosen {
			t.Errorf("port %q, appProtocol %q, %s: chosen %v, want %v", test.name, test.app, test.transport, got, test.chosen)
		}
	}
}

func TestChoosePorts(t *testing.T) {
	t.Parallel()
	s := service(withPorts("metrics", "grpc-api", "https", "http"))
	tests := map[string]struct {
		asked []string
		want  []Port
	}{
		"none asked for": {nil, []Port{{"grpc-api", "GRPC", 81}, {"http", "HTTP", 83}}},
		"one":            {[]string{"http"}, []Port{{"http", "HTTP", 83}}},
		"in the service's order, of any protocol": {
			[]string{"https", "http", "metrics"},
			[]Port{{"metrics", "", 80}, {"https", "HTTPS", 82}, {"http", "HTTP", 83}},
		},
	}
	for name, test := range tests {
		got, refusal := choosePorts(s, test.asked)
		if refusal != nil {
			t.Errorf("%s: %v", name, refusal)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
