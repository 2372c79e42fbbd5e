package membership

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// service is demo/fib with a port http of number 80.
func service(change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "fib"},
		Spec: corev1.ServiceSpec{
			Type:      corev1.ServiceTypeClusterIP,
			ClusterIP: "10.96.0.1", ClusterIPs: []string{"10.96.0.1"},
			Selector: map[string]string{"app": "fib"},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
	for _, f := range change {
		f(s)
	}
	return s
}

// dualStack gives the service both families.
func dualStack(s *corev1.Service) { s.Spec.ClusterIPs = []string{"10.96.0.1", "fd00::1"} }

// withPorts gives the service ports of these names: the first has number 80.
func withPorts(names ...string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Spec.Ports = nil
		for i, name := range names {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: name, Port: int32(80 + i)})
		}
	}
}

// slice is an EndpointSlice whose port http is 8080.
func slice(name string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "demo", Name: name},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{slicePort("http", 8080)},
		Endpoints:   endpoints,
	}
}

func slicePort(name string, number int32) discoveryv1.EndpointPort {
	return discoveryv1.EndpointPort{Name: &name, Port: &number, Protocol: ptr.To(corev1.ProtocolTCP)}
}

// with changes a slice.
func with(s *discoveryv1.EndpointSlice, change func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
	change(s)
	return s
}

// v6 makes a slice one of IPv6 addresses.
func v6(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	s.AddressType = discoveryv1.AddressTypeIPv6
	return s
}

// at is a ready endpoint of a pod.
func at(pod string, addresses ...string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses:  addresses,
		Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: "demo", Name: pod},
	}
}

// notReady is an endpoint of a pod with conditions ready, serving and terminating.
func notReady(pod, address string, serving, terminating bool) discoveryv1.Endpoint {
	e := at(pod, address)
	e.Conditions = discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: &serving, Terminating: &terminating}
	return e
}

func unlabelled(name string, ips ...string) *Pod {
	return &Pod{Namespace: "demo", Name: name, Node: "node-1", ServiceAccount: "default", IPs: ips}
}

func labelled(name string, labels map[string]string) *Pod {
	pod := unlabelled(name)
	pod.Labels = labels
	return pod
}

// input is demo/fib with pods a, b and c on node-1, which is in r1/z1/.
func input(s *corev1.Service, all ...*discoveryv1.EndpointSlice) Input {
	return Input{
		Service: s, Slices: all,
		Pod:      podsOf(unlabelled("a"), unlabelled("b"), unlabelled("c")),
		Locality: func(node string) string { return map[string]string{"node-1": "r1/z1/"}[node] },
	}
}

func podsOf(pods ...*Pod) func(string) *Pod {
	return func(name string) *Pod {
		for _, p := range pods {
			if p.Name == name {
				return p
			}
		}
		return nil
	}
}

// brief writes members as pod=address:ports, so that a table can be read.
func brief(members []Member) []string {
	list := []string{}
	for _, m := range members {
		list = append(list, fmt.Sprintf("%s=%s:%v", m.Pod.Name, m.Address, m.TargetPorts))
	}
	return list
}

func TestMembers(t *testing.T) {
	t.Parallel()
	older, newer := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	dual := podsOf(unlabelled("a", "10.0.0.1", "fd00::a"), unlabelled("b", "fd00::b", "10.0.0.2"), unlabelled("c", "10.0.0.3"))
	dualSlices := []*discoveryv1.EndpointSlice{
		slice("four", at("a", "10.0.0.1"), at("b", "10.0.0.2"), at("c", "10.0.0.3")),
		v6(slice("six", at("a", "fd00::a"), at("b", "fd00::b"))),
	}
	tests := map[string]struct {
		in   Input
		want []string
		// unknown pods
		unknown int
	}{
		"none":   {in: input(service()), want: []string{}},
		"sorted": {in: input(service(), slice("s", at("c", "10.0.0.3"), at("a", "10.0.0.1"))), want: []string{"a=10.0.0.1:[8080]", "c=10.0.0.3:[8080]"}},
		"two slices": {
			in:   input(service(), slice("s", at("b", "10.0.0.2")), slice("t", at("a", "10.0.0.1"))),
			want: []string{"a=10.0.0.1:[8080]", "b=10.0.0.2:[8080]"},
		},
		"no condition is ready": {
			in: input(service(), slice("s", func() discoveryv1.Endpoint {
				e := at("a", "10.0.0.1")
				e.Conditions.Ready = nil
				return e
			}())),
			want: []string{"a=10.0.0.1:[8080]"},
		},
		"not ready":               {in: input(service(), slice("s", notReady("a", "10.0.0.1", false, false), at("b", "10.0.0.2"))), want: []string{"b=10.0.0.2:[8080]"}},
		"terminating but serving": {in: input(service(), slice("s", notReady("a", "10.0.0.1", true, true))), want: []string{}},
		"publishNotReadyAddresses makes all ready in the slice": {
			in: input(service(func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }),
				slice("s", at("a", "10.0.0.1"), notReady("b", "10.0.0.2", false, false))),
			want: []string{"a=10.0.0.1:[8080]"},
		},
		"pod not known yet": {in: input(service(), slice("s", at("new", "10.0.0.9"), at("a", "10.0.0.1"))), want: []string{"a=10.0.0.1:[8080]"}, unknown: 1},
		"unknown pod in two slices is one": {
			in:   input(service(dualStack), slice("s", at("new", "10.0.0.9")), v6(slice("t", at("new", "fd00::9")))),
			want: []string{}, unknown: 1,
		},
		"unknown pod that is not ready is not missed": {in: input(service(), slice("s", notReady("new", "10.0.0.9", false, false))), want: []string{}},
		"other endpoint that is not ready does no harm": {
			in: input(service(), slice("s", func() discoveryv1.Endpoint {
				e := notReady("a", "10.0.0.1", false, false)
				e.TargetRef = nil
				return e
			}())),
			want: []string{},
		},
		"on its way between slices": {
			in:   input(service(), slice("s", at("a", "10.0.0.1"), at("b", "10.0.0.2")), slice("t", at("a", "10.0.0.1"))),
			want: []string{"a=10.0.0.1:[8080]", "b=10.0.0.2:[8080]"},
		},
		"not ready in one of two slices": {
			in:   input(service(), slice("s", at("a", "10.0.0.1")), slice("t", notReady("a", "10.0.0.1", true, true))),
			want: []string{},
		},
		"two slices, two target ports: the newer one's": {
			in: input(service(),
				with(slice("a-old", at("a", "10.0.0.1")), func(s *discoveryv1.EndpointSlice) { s.CreationTimestamp = older }),
				with(slice("b-new", at("a", "10.0.0.1")), func(s *discoveryv1.EndpointSlice) {
					s.CreationTimestamp = newer
					s.Ports = []discoveryv1.EndpointPort{slicePort("http", 9090)}
				})),
			want: []string{"a=10.0.0.1:[9090]"},
		},
		"named target ports that differ by pod": {
			in: input(service(withPorts("http", "grpc")),
				with(slice("s", at("a", "10.0.0.1")), func(s *discoveryv1.EndpointSlice) {
					s.Ports = []discoveryv1.EndpointPort{slicePort("grpc", 9001), slicePort("http", 8001), slicePort("metrics", 1)}
				}),
				with(slice("t", at("b", "10.0.0.2")), func(s *discoveryv1.EndpointSlice) {
					s.Ports = []discoveryv1.EndpointPort{slicePort("http", 8002)}
				})),
			want: []string{"a=10.0.0.1:[8001 9001]", "b=10.0.0.2:[8002 0]"},
		},
		"ports of one pod in two slices": {
			in: input(service(withPorts("http", "grpc")), slice("s", at("a", "10.0.0.1")),
				with(slice("t", at("a", "10.0.0.1")), func(s *discoveryv1.EndpointSlice) {
					s.Ports = []discoveryv1.EndpointPort{slicePort("grpc", 9001)}
				})),
			want: []string{"a=10.0.0.1:[8080 9001]"},
		},
		"slice without the port": {
			in: input(service(), with(slice("s", at("a", "10.0.0.1")), func(s *discoveryv1.EndpointSlice) {
				s.Ports = []discoveryv1.EndpointPort{slicePort("metrics", 9090), {Name: ptr.To("http")}}
			})),
			want: []string{},
		},
		"one node's network, two ports": {
			in: input(service(), slice("s", at("a", "192.168.0.1")),
				with(slice("t", at("b", "192.168.0.1")), func(s *discoveryv1.EndpointSlice) {
					s.Ports = []discoveryv1.EndpointPort{slicePort("http", 8081)}
				})),
			want: []string{"a=192.168.0.1:[8080]", "b=192.168.0.1:[8081]"},
		},
		"address of two pods": {
			in:   input(service(), slice("s", at("b", "10.0.0.1"), at("a", "10.0.0.1"))),
			want: []string{"a=10.0.0.1:[8080]"},
		},
		"address of two pods, one port of them the same": {
			in: input(service(withPorts("http", "grpc")),
				with(slice("s", at("a", "10.0.0.1")), func(s *discoveryv1.EndpointSlice) {
					s.Ports = []discoveryv1.EndpointPort{slicePort("http", 8080), slicePort("grpc", 9000)}
				}),
				with(slice("t", at("b", "10.0.0.1")), func(s *discoveryv1.EndpointSlice) {
					s.Ports = []discoveryv1.EndpointPort{slicePort("http", 8080), slicePort("grpc", 9001)}
				})),
			want: []string{"a=10.0.0.1:[8080 9000]", "b=10.0.0.1:[0 9001]"},
		},
		"IPv6 only": {
			in: input(service(func(s *corev1.Service) { s.Spec.ClusterIPs = []string{"fd00::1"} }),
				v6(slice("s", at("a", "fd00::a")))),
			want: []string{"a=fd00::a:[8080]"},
		},
		"one address in two forms": {
			in:   input(service(), v6(slice("s", at("a", "fd00::a"))), v6(slice("t", at("a", "FD00:0::A")))),
			want: []string{"a=fd00::a:[8080]"},
		},
		"no address": {in: input(service(), slice("s", at("a", "fib.example.org"), at("b"))), want: []string{}},
		"both families, dual stack off": {
			in:   Input{Service: service(dualStack), Slices: dualSlices, Pod: dual},
			want: []string{"a=10.0.0.1:[8080]", "a=fd00::a:[8080]", "b=10.0.0.2:[8080]", "b=fd00::b:[8080]", "c=10.0.0.3:[8080]"},
		},
		"both families, dual stack on": {
			in:   Input{Service: service(dualStack), Slices: dualSlices, Pod: dual, DualStack: true},
			want: []string{"a=10.0.0.1:[8080]", "b=fd00::b:[8080]", "c=10.0.0.3:[8080]"},
		},
		"service of one family, dual stack on": {
			in:   Input{Service: service(), Slices: dualSlices[:1], Pod: dual, DualStack: true},
			want: []string{"a=10.0.0.1:[8080]", "b=10.0.0.2:[8080]", "c=10.0.0.3:[8080]"},
		},
		"names instead of addresses": {
			in: input(service(), with(slice("s", at("a", "10.0.0.1")), func(s *discoveryv1.EndpointSlice) {
				s.AddressType = discoveryv1.AddressTypeFQDN
			})),
			want: []string{},
		},
		"slice of a service of several clusters": {
			in: input(service(), with(slice("s", at("a", "10.0.0.1")), func(s *discoveryv1.EndpointSlice) {
				s.Labels = map[string]string{"multicluster.kubernetes.io/service-name": "fib"}
			})),
			want: []string{},
		},
		"draining by label": {
			in: Input{
				Service: service(), Slices: []*discoveryv1.EndpointSlice{slice("s", at("a", "10.0.0.1"), at("b", "10.0.0.2"))},
				Pod: podsOf(labelled("a", map[string]string{"istio.io/draining": "true"}), labelled("b", map[string]string{"istio.io/draining": ""})),
			},
			want: []string{"b=10.0.0.2:[8080]"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.in.Locality == nil {
				test.in.Locality = func(string) string { return "" }
			}
			got, err := Resolve(test.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, brief(got.Members)); diff != "" {
				t.Errorf("members (-want +got):\n%s", diff)
			}
			if got.Unknown != test.unknown {
				t.Errorf("%d unknown pods, want %d", got.Unknown, test.unknown)
			}
			test.in.Slices = slices.Clone(test.in.Slices)
			slices.Reverse(test.in.Slices)
			again, err := Resolve(test.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, again, cmpopts.IgnoreUnexported(Pod{})); diff != "" {
				t.Errorf("the order of slices matters:\n%s", diff)
			}
		})
	}
}

func TestMemberLocality(t *testing.T) {
	t.Parallel()
	const current, legacy = "topology.istio.io/locality", "istio-locality"
	onNode := func(node string, labels map[string]string) *Pod {
		return &Pod{Namespace: "demo", Name: "a", Node: node, Labels: labels}
	}
	tests := map[string]struct {
		pod  *Pod
		want string
	}{
		"node":                       {onNode("node-1", nil), "r1/z1/"},
		"unknown node":               {onNode("node-2", nil), ""},
		"no node":                    {onNode("", nil), ""},
		"label":                      {onNode("node-1", map[string]string{legacy: "r2.z2.s2"}), "r2/z2/s2"},
		"label of a region":          {onNode("node-1", map[string]string{legacy: "r2"}), "r2"},
		"label with slashes":         {onNode("node-1", map[string]string{legacy: "r2/z2.x"}), "r2/z2.x"},
		"newer label first":          {onNode("node-1", map[string]string{legacy: "r2.z2", current: "r3.z3"}), "r3/z3"},
		"empty newer label hides it": {onNode("node-1", map[string]string{legacy: "r2.z2", current: ""}), "r1/z1/"},
		"label without a node":       {onNode("", map[string]string{current: "r3"}), "r3"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := input(service(), slice("s", at("a", "10.0.0.1")))
			in.Pod = podsOf(test.pod)
			got, err := Resolve(in)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Members) != 1 || got.Members[0].Locality != test.want {
				t.Errorf("members %+v, want one in %q", got.Members, test.want)
			}
		})
	}
}

func TestMemberNetwork(t *testing.T) {
	t.Parallel()
	in := input(service(), slice("s", at("a", "10.0.0.1"), at("b", "10.0.0.2")))
	in.Pod = podsOf(unlabelled("a"), labelled("b", map[string]string{"topology.istio.io/network": "net-b"}))
	for mesh, want := range map[string][]string{"": {"", "net-b"}, "net-1": {"net-1", "net-b"}} {
		in.Network = mesh
		got, err := Resolve(in)
		if err != nil {
			t.Fatal(err)
		}
		if networks := []string{got.Members[0].Network, got.Members[1].Network}; !slices.Equal(networks, want) {
			t.Errorf("in a mesh of network %q: %q, want %q", mesh, networks, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	spec := func(f func(*corev1.ServiceSpec)) Input {
		return input(service(func(s *corev1.Service) { f(&s.Spec) }))
	}
	ref := func(change func(*discoveryv1.Endpoint)) Input {
		e := at("a", "10.0.0.1")
		change(&e)
		return input(service(), slice("fib-x", at("b", "10.0.0.2"), e))
	}
	asking := func(in Input, ports ...string) Input {
		in.Ports = ports
		return in
	}
	tests := map[string]struct {
		in     Input
		reason string
		says   []string // in the message
	}{
		"alias": {spec(func(s *corev1.ServiceSpec) {
			s.Type, s.ExternalName, s.ClusterIP, s.Selector = corev1.ServiceTypeExternalName, "fib.example.org", "", nil
		}), ReasonExternalName, []string{"demo/fib", "fib.example.org", "ClusterIP"}},
		"headless": {spec(func(s *corev1.ServiceSpec) { s.ClusterIP = corev1.ClusterIPNone }), ReasonHeadless, []string{"demo/fib", "clusterIP: None"}},
		"no selector": {spec(func(s *corev1.ServiceSpec) {
			s.Selector = nil
		}), ReasonNoSelector, []string{"demo/fib", "no selector"}},
		"node local": {spec(func(s *corev1.ServiceSpec) {
			s.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
		}), ReasonNodeLocal, []string{"internalTrafficPolicy: Local", "Cluster"}},
		"no HTTP":    {input(service(withPorts("web", "https"))), ReasonNoPorts, []string{`"web" (80/TCP, protocol not declared), "https" (81/TCP, HTTPS)`, "http-web", "appProtocol"}},
		"no port":    {input(service(withPorts())), ReasonNoPorts, []string{"it has none"}},
		"many ports": {input(service(withPorts(strings.Split("abcdefghijkl", "")...))), ReasonNoPorts, []string{`"h" (87/`, "and 4 more"}},
		"unnamed port": {input(service(withPorts(""), func(s *corev1.Service) { s.Spec.Ports[0].AppProtocol = ptr.To("http") })),
			ReasonUnnamedPort, []string{"port 80", "has no name"}},
		"unknown port":  {asking(input(service()), "http", "grpc"), ReasonUnknownPort, []string{`no port "grpc"`, `"http" (80/TCP, HTTP)`}},
		"UDP":           {asking(spec(func(s *corev1.ServiceSpec) { s.Ports[0].Protocol = corev1.ProtocolUDP }), "http"), ReasonNotTCP, []string{`port "http"`, "80/UDP"}},
		"SCTP":          {spec(func(s *corev1.ServiceSpec) { s.Ports[0].Protocol = corev1.ProtocolSCTP }), ReasonNoPorts, []string{"80/SCTP"}},
		"UDP by name":   {asking(input(service(withPorts("udp-x"))), "udp-x"), ReasonNotTCP, []string{"UDP"}},
		"no pod":        {ref(func(e *discoveryv1.Endpoint) { e.TargetRef = nil }), ReasonNotPods, []string{"10.0.0.1", "fib-x"}},
		"a machine":     {ref(func(e *discoveryv1.Endpoint) { e.TargetRef.Kind = "VirtualMachineInstance" }), ReasonNotPods, []string{"10.0.0.1"}},
		"another's pod": {ref(func(e *discoveryv1.Endpoint) { e.TargetRef.Namespace = "other" }), ReasonNotPods, []string{"its namespace"}},
		"too many":      {crowd(MaxMembers+1, 1), ReasonTooManyEndpoints, []string{"2001", "2000"}},
		"too large":     {crowd(MaxMembers, 20), ReasonTooManyEndpoints, []string{`port "http"`, "1024 KiB", "fewer labels"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Resolve(test.in)
			var refusal *Refusal
			if !errors.As(err, &refusal) {
				t.Fatalf("error %v, members %v; want a refusal", err, brief(got.Members))
			}
			if refusal.Reason != test.reason {
				t.Errorf("reason %s, want %s: %s", refusal.Reason, test.reason, refusal)
			}
			for _, part := range test.says {
				if !strings.Contains(refusal.Error(), part) {
					t.Errorf("message %q does not say %q", refusal, part)
				}
			}
			if len(got.Members)+len(got.Ports) > 0 {
				t.Errorf("refused, and yet a membership: %+v", got)
			}
		})
	}
}

// crowd is a service of many pods with so many labels each.
func crowd(pods, labels int) Input {
	set := map[string]string{}
	for i := range labels {
		set[fmt.Sprintf("example.org/label-%02d", i)] = "some-value"
	}
	known := map[string]*Pod{}
	var all []*discoveryv1.EndpointSlice
	for i := range pods {
		if i%100 == 0 {
			all = append(all, slice(fmt.Sprintf("s%d", i)))
		}
		last, pod := all[len(all)-1], labelled(fmt.Sprintf("fib-7d4b9c-%05d", i), set)
		known[pod.Name] = pod
		last.Endpoints = append(last.Endpoints, at(pod.Name, fmt.Sprintf("10.0.%d.%d", i/250, i%250+1)))
	}
	in := input(service(), all...)
	in.Pod = func(name string) *Pod { return known[name] }
	return in
}

func TestAsManyAsAllowed(t *testing.T) {
	t.Parallel()
	got, err := Resolve(crowd(MaxMembers, 3))
	if err != nil || len(got.Members) != MaxMembers {
		t.Errorf("%d members, error %v", len(got.Members), err)
	}
}

func BenchmarkResolve(b *testing.B) {
	in := crowd(100, 8)
	b.ReportAllocs()
	for b.Loop() {
		if m, err := Resolve(in); err != nil || len(m.Members) != 100 {
			b.Fatal(len(m.Members), err)
		}
	}
}
