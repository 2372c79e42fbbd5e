package serviceentry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	networkingv1alpha3 "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

const host = "fib.demo.svc.cluster.local"

// entryOf is an entry with n endpoints that have the given number of labels each.
func entryOf(n, labels int) Entry {
	e := Entry{
		Namespace: "demo", Service: "fib", Host: host,
		Port:  Port{Name: "http", Protocol: "HTTP", Number: 8080},
		Owner: metav1.OwnerReference{APIVersion: "taper.dev/v1alpha1", Kind: "BalancePolicy", Name: "fib", UID: "policy-1"},
	}
	for i := range n {
		ep := Endpoint{
			Address: fmt.Sprintf("10.0.%d.%d", i/256, i%256), TargetPort: 8081, Weight: uint32(i + 1),
			Locality: "eu/eu-a/", ServiceAccount: "fib", Node: fmt.Sprintf("node-%d", i%10), Labels: map[string]string{},
		}
		for j := range labels {
			ep.Labels[fmt.Sprintf("app.kubernetes.io/label-%d", j)] = fmt.Sprintf("value-%d-%d", i, j)
		}
		e.Endpoints = append(e.Endpoints, ep)
	}
	return e
}

func TestName(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 63)
	names := map[string]string{}
	for _, service := range []string{"a", "a-b", "a-b-c", "taper", long} {
		for _, port := range []string{"", "b", "c", "b-c", "a", long} {
			name := Name(service, port)
			if bad := validation.IsDNS1123Subdomain(name); bad != nil {
				t.Errorf("Name(%q, %q) is %q: %v", service, port, name, bad)
			}
			if other, taken := names[name]; taken {
				t.Errorf("%q is the name of %s and of service %q, port %q", name, other, service, port)
			}
			names[name] = fmt.Sprintf("service %q, port %q", service, port)
		}
	}
	if got := Host("fib", "demo", "cluster.local"); got != host {
		t.Errorf("Host: %q, want %q", got, host)
	}
}

// TestRender reads what is rendered with Istio's own type, which knows no other
// fields than Istio's.
func TestRender(t *testing.T) {
	t.Parallel()
	e := entryOf(3, 0)
	e.Endpoints[0].Labels = map[string]string{"app": "fib", labelTLSMode: "istio"}
	e.Endpoints[1].Labels = map[string]string{"app": "fib"}
	e.Endpoints[1].Network = "east"
	e.Endpoints[2] = Endpoint{Address: "fd00::1", TargetPort: 8080, Weight: 7}

	body, _, err := encode(Render(e), "")
	if err != nil {
		t.Fatal(err)
	}
	var got networkingv1.ServiceEntry
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatalf("Istio's type does not read %s: %v", body, err)
	}
	yes := true
	wantMeta := metav1.ObjectMeta{
		Namespace: "demo", Name: "taper-fib.http",
		Labels: map[string]string{
			"app.kubernetes.io/managed-by": "taper-operator", "taper.dev/service": "fib", "taper.dev/policy": "fib",
			"networking.istio.io/enable-autoallocate-ip": "false",
		},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "taper.dev/v1alpha1", Kind: "BalancePolicy", Name: "fib", UID: "policy-1", Controller: &yes}},
	}
	if diff := cmp.Diff(wantMeta, got.ObjectMeta); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	ports := map[string]uint32{"http": 8081}
	want := &networkingv1alpha3.ServiceEntry{
		Hosts: []string{host}, ExportTo: []string{"~"},
		Location: networkingv1alpha3.ServiceEntry_MESH_INTERNAL, Resolution: networkingv1alpha3.ServiceEntry_STATIC,
		Ports: []*networkingv1alpha3.ServicePort{{Number: 8080, Name: "http", Protocol: "HTTP"}},
		Endpoints: []*networkingv1alpha3.WorkloadEntry{
			{
				Address: "10.0.0.0", Ports: ports, Weight: 1, Locality: "eu/eu-a/", ServiceAccount: "fib",
				Labels: map[string]string{"app": "fib", "security.istio.io/tlsMode": "istio", "kubernetes.io/hostname": "node-0"},
			}, {
				Address: "10.0.0.1", Ports: ports, Weight: 2, Locality: "eu/eu-a/", ServiceAccount: "fib", Network: "east",
				Labels: map[string]string{"app": "fib", "security.istio.io/tlsMode": "disabled", "kubernetes.io/hostname": "node-1"},
			}, {
				Address: "fd00::1", Weight: 7,
				Labels: map[string]string{"security.istio.io/tlsMode": "disabled"},
			},
		},
	}
	if g, w := got.Spec.String(), want.String(); g != w {
		t.Errorf("spec:\n%s\nwant:\n%s", g, w)
	}
	if len(e.Endpoints[1].Labels) != 1 {
		t.Errorf("the pod's labels were changed: %v", e.Endpoints[1].Labels)
	}
}

func TestLongPolicyName(t *testing.T) {
	t.Parallel()
	e := entryOf(1, 0)
	e.Owner.Name = strings.Repeat("p", 64)
	if got, ok := Render(e).Labels[labelPolicy]; ok {
		t.Errorf("label %q is longer than the API server takes", got)
	}
}

// TestAllFields sees that what anybody may write into an entry reaches the digest:
// the plain structs lose nothing of Istio's type.
func TestAllFields(t *testing.T) {
	t.Parallel()
	full := networkingv1.ServiceEntry{
		Spec: networkingv1alpha3.ServiceEntry{
			Hosts: []string{"h"}, Addresses: []string{"10.0.0.1"},
			Ports:    []*networkingv1alpha3.ServicePort{{Number: 1, Protocol: "HTTP", Name: "p", TargetPort: 2}},
			Location: networkingv1alpha3.ServiceEntry_MESH_INTERNAL, Resolution: networkingv1alpha3.ServiceEntry_DNS_ROUND_ROBIN,
			Endpoints: []*networkingv1alpha3.WorkloadEntry{{
				Address: "a", Ports: map[string]uint32{"p": 3}, Labels: map[string]string{"l": "v"},
				Network: "n", Locality: "r/z", Weight: 4, ServiceAccount: "s",
			}},
			WorkloadSelector: &networkingv1alpha3.WorkloadSelector{Labels: map[string]string{"x": "y"}},
			ExportTo:         []string{"."}, SubjectAltNames: []string{"spiffe://x"},
		},
	}
	spec := &full.Spec
	for _, message := range []proto.Message{spec, spec.Ports[0], spec.Endpoints[0], spec.WorkloadSelector} {
		m := message.ProtoReflect()
		for i := range m.Descriptor().Fields().Len() {
			if field := m.Descriptor().Fields().Get(i); !m.Has(field) {
				t.Errorf("%s is new in Istio: the plain structs and this test do not have it", field.FullName())
			}
		}
	}
	theirs, err := json.Marshal(&full)
	if err != nil {
		t.Fatal(err)
	}
	var read ServiceEntry
	if err := json.Unmarshal(theirs, &read); err != nil {
		t.Fatal(err)
	}
	ours, err := json.Marshal(&read)
	if err != nil {
		t.Fatal(err)
	}
	var want, got map[string]any
	if err := errors.Join(json.Unmarshal(theirs, &want), json.Unmarshal(ours, &got)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want["spec"], got["spec"]); diff != "" {
		t.Errorf("lost or changed (-Istio's +ours):\n%s", diff)
	}
	if diff := cmp.Diff(&read, read.DeepCopyObject()); diff != "" {
		t.Errorf("the copy differs:\n%s", diff)
	}
}

// TestDigest sees which changes show in a digest, and that the way through the API
// server, which sorts fields and adds its own, does not.
func TestDigest(t *testing.T) {
	t.Parallel()
	e := entryOf(2, 2)
	body, want, err := encode(Render(e), "")
	if err != nil {
		t.Fatal(err)
	}
	again, same, err := encode(Render(entryOf(2, 2)), "")
	if err != nil || !bytes.Equal(body, again) || same != want {
		t.Errorf("the same entry has other bytes or another digest: %v\n%s\n%s", err, body, again)
	}
	for name, test := range map[string]struct {
		change func(s *ServiceEntry)
		shows  bool
	}{
		"nothing":              {func(*ServiceEntry) {}, false},
		"what the server adds": {func(s *ServiceEntry) { s.UID, s.ResourceVersion, s.Generation = "u", "7", 3 }, false},
		"managed fields":       {func(s *ServiceEntry) { s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}} }, false},
		"another's label":      {func(s *ServiceEntry) { s.Labels["team"] = "shop" }, false},
		"another's owner": {func(s *ServiceEntry) {
			s.OwnerReferences = append(s.OwnerReferences, metav1.OwnerReference{Kind: "App"})
		}, false},
		"an annotation":           {func(s *ServiceEntry) { s.Annotations = map[string]string{"note": "x"} }, false},
		"our label taken away":    {func(s *ServiceEntry) { delete(s.Labels, labelManagedBy) }, true},
		"our label changed":       {func(s *ServiceEntry) { s.Labels[labelAllocate] = "true" }, true},
		"the policy's label":      {func(s *ServiceEntry) { s.Labels[labelPolicy] = "other" }, true},
		"our owner taken away":    {func(s *ServiceEntry) { s.OwnerReferences = nil }, true},
		"another policy":          {func(s *ServiceEntry) { s.OwnerReferences[0].UID = "policy-2" }, true},
		"a weight":                {func(s *ServiceEntry) { s.Spec.Endpoints[1].Weight++ }, true},
		"an endpoint less":        {func(s *ServiceEntry) { s.Spec.Endpoints = s.Spec.Endpoints[:1] }, true},
		"the order":               {func(s *ServiceEntry) { slices.Reverse(s.Spec.Endpoints) }, true},
		"a label of an endpoint":  {func(s *ServiceEntry) { s.Spec.Endpoints[0].Labels["x"] = "y" }, true},
		"a port more":             {func(s *ServiceEntry) { s.Spec.Ports = append(s.Spec.Ports, ServicePort{Number: 9, Name: "x"}) }, true},
		"visible to somebody":     {func(s *ServiceEntry) { s.Spec.ExportTo = []string{"."} }, true},
		"subject names":           {func(s *ServiceEntry) { s.Spec.SubjectAltNames = []string{"x"} }, true},
		"empty, not missing list": {func(s *ServiceEntry) { s.Spec.Addresses = []string{} }, false},
	} {
		var read ServiceEntry
		text, err := yaml.JSONToYAML(body)
		if err == nil {
			err = yaml.UnmarshalStrict(text, &read)
		}
		if err != nil {
			t.Fatal(err)
		}
		test.change(&read)
		got, err := digestOf(&read)
		if err != nil {
			t.Fatal(err)
		}
		if (got != want) != test.shows {
			t.Errorf("%s: shows is %v, want %v", name, got != want, test.shows)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(e *Entry)
		fails  string // "": it is fine
	}{
		"fine":             {func(*Entry) {}, ""},
		"no endpoints":     {func(e *Entry) { e.Endpoints = nil }, ""},
		"IPv6":             {func(e *Entry) { e.Endpoints[0].Address = "fd00::1" }, ""},
		"no host":          {func(e *Entry) { e.Host = "" }, `host "" is empty`},
		"unnamed port":     {func(e *Entry) { e.Port.Name = "" }, "port 8080 of service fib has no name, without which Istio takes no weights for it; name it in the Service"},
		"port number":      {func(e *Entry) { e.Port.Number = 70000 }, `port "http" has number 70000; want 1 to 65535`},
		"no owner":         {func(e *Entry) { e.Owner.UID = "" }, "the owner has no name or no UID"},
		"weight 0":         {func(e *Entry) { e.Endpoints[1].Weight = 0 }, "endpoint 10.0.0.1 has weight 0; want at least 1"},
		"target port":      {func(e *Entry) { e.Endpoints[1].TargetPort = 0 }, "endpoint 10.0.0.1 has target port 0; want 1 to 65535"},
		"no address":       {func(e *Entry) { e.Endpoints[1].Address = "fib.example" }, `endpoint "fib.example" is not an IP address`},
		"a zone":           {func(e *Entry) { e.Endpoints[1].Address = "fe80::1%eth0" }, `endpoint "fe80::1%eth0" is not an IP address`},
		"twice":            {func(e *Entry) { e.Endpoints[1].Address = "10.0.0.0" }, "endpoint 10.0.0.0 is there twice"},
		"as many as can":   {func(e *Entry) { *e = entryOf(maxEndpoints, 0) }, ""},
		"one more than so": {func(e *Entry) { *e = entryOf(maxEndpoints+1, 0) }, "4097 endpoints; Istio allows 4096 in one entry: split the service"},
	} {
		e := entryOf(2, 1)
		test.change(&e)
		err := e.check()
		if test.fails == "" && err != nil || test.fails != "" && (err == nil || !strings.Contains(err.Error(), test.fails)) {
			t.Errorf("%s: %v, want %q", name, err, test.fails)
		}
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	if _, _, err := encode(Render(entryOf(2000, 10)), ""); err != nil {
		t.Errorf("2000 endpoints with 10 labels each: %v", err)
	}
	_, _, err := encode(Render(entryOf(4000, 10)), types.UID("u"))
	if err == nil || !strings.Contains(err.Error(), "its 4000 endpoints take") || !strings.Contains(err.Error(), "at most 1400 KiB; split the service") {
		t.Errorf("4000 endpoints with 10 labels each: %v", err)
	}
}

// BenchmarkEncode is what a write of 100 endpoints with 6 labels each costs before it
// is sent.
func BenchmarkEncode(b *testing.B) {
	e := entryOf(100, 6)
	b.ReportAllocs()
	for b.Loop() {
		body, _, err := encode(Render(e), "")
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(body)))
	}
}

// BenchmarkRecord is what an entry of 100 endpoints costs that is watched.
func BenchmarkRecord(b *testing.B) {
	body, _, err := encode(Render(entryOf(100, 6)), "")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		var s ServiceEntry
		if err := json.Unmarshal(body, &s); err != nil {
			b.Fatal(err)
		}
		if _, err := compact(&s); err != nil {
			b.Fatal(err)
		}
	}
}
