package membership

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// dice makes choices of the bytes of a fuzz input, and 0 when they are used up.
type dice []byte

func (d *dice) roll(sides int) int {
	if len(*d) == 0 {
		return 0
	}
	n := int((*d)[0]) % sides
	*d = (*d)[1:]
	return n
}

func pick[T any](d *dice, of ...T) T { return of[d.roll(len(of))] }

// world makes an input for Resolve, of few names, so that they meet.
func (d *dice) world() Input {
	s := service(withPorts(pick(d, []string{"http"}, []string{"http", "grpc-x"}, []string{""}, []string{"x", "http"})...))
	s.Spec.ClusterIPs = pick(d, s.Spec.ClusterIPs, []string{"10.96.0.1", "fd00::1"}, nil)
	for i := range s.Spec.Ports {
		s.Spec.Ports[i].Port = pick[int32](d, 80, 0, -1, 3306)
		s.Spec.Ports[i].Protocol = pick(d, corev1.ProtocolTCP, corev1.ProtocolUDP, "")
		s.Spec.Ports[i].AppProtocol = pick(d, nil, ptr.To("http"), ptr.To(""), ptr.To("-"))
	}
	pods := map[string]*Pod{}
	for _, name := range []string{"a", "b", "c"} {
		if d.roll(4) != 3 {
			pods[name] = labelled(name, pick(d, nil, map[string]string{"istio-locality": "r.z"}, map[string]string{"istio.io/draining": "1"}))
			pods[name].IPs = pick(d, nil, []string{"10.0.0.1"}, []string{"10.0.0.2", "fd00::2"}, []string{"fd00::2", "10.0.0.2"}, []string{"", ""})
		}
	}
	in := input(s)
	in.Pod = func(name string) *Pod { return pods[name] }
	in.Ports = pick(d, nil, []string{"http"}, []string{"grpc-x", "http"}, []string{""})
	in.DualStack = d.roll(2) == 1
	for i := range d.roll(5) {
		in.Slices = append(in.Slices, d.slice(fmt.Sprint("s", i)))
	}
	return in
}

func (d *dice) slice(name string) *discoveryv1.EndpointSlice {
	s := slice(name)
	s.CreationTimestamp = metav1.NewTime(time.Unix(int64(d.roll(2)), 0))
	s.AddressType = pick(d, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN)
	s.Ports = nil
	for range d.roll(4) {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{
			Name: pick(d, ptr.To("http"), ptr.To("grpc-x"), ptr.To(""), nil),
			Port: pick(d, ptr.To[int32](8080), ptr.To[int32](9090), ptr.To[int32](0), ptr.To[int32](-1), ptr.To[int32](70000), nil),
		})
	}
	for range d.roll(6) {
		e := at(pick(d, "a", "b", "c", ""))
		for range d.roll(3) {
			e.Addresses = append(e.Addresses, pick(d, "10.0.0.1", "10.0.0.2", "fd00::2", "FD00::2", "", "x", "10.0.0.300"))
		}
		e.Conditions.Ready = pick(d, ptr.To(true), nil, ptr.To(false))
		e.TargetRef = pick(d, e.TargetRef, e.TargetRef, e.TargetRef, e.TargetRef, nil, &corev1.ObjectReference{Kind: "Node", Name: "a"})
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

// FuzzResolve checks what must hold for whatever the cluster says.
func FuzzResolve(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x02\x00\x02\x00\x01\x02\x00\x00\x01\x00\x00\x03\x00\x01\x00\x00\x00\x00\x01\x00\x00\x00"))
	for seed := range 64 {
		bytes := make([]byte, 200)
		for i := range bytes {
			bytes[i] = byte((seed + 1) * (i*i + 7*i + 13*seed))
		}
		f.Add(bytes)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		d := dice(bytes)
		in := d.world()
		before := make([]*discoveryv1.EndpointSlice, len(in.Slices))
		for i, s := range in.Slices {
			before[i] = s.DeepCopy()
		}
		asBefore := in.Service.DeepCopy()
		got, err := Resolve(in)
		checkMembership(t, got, err)
		if diff := cmp.Diff(before, in.Slices, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("slices were changed:\n%s", diff)
		}
		if diff := cmp.Diff(asBefore, in.Service); diff != "" {
			t.Errorf("the service was changed:\n%s", diff)
		}
		in.Slices = slices.Clone(in.Slices)
		slices.Reverse(in.Slices)
		again, errAgain := Resolve(in)
		if (err == nil) != (errAgain == nil) {
			t.Errorf("error %v, and with the slices reversed %v", err, errAgain)
		}
		if diff := cmp.Diff(got, again, cmpopts.IgnoreUnexported(Pod{})); diff != "" {
			t.Errorf("the order of slices matters:\n%s", diff)
		}
	})
}

func checkMembership(t *testing.T, m Membership, err error) {
	t.Helper()
	if err != nil {
		if r, ok := err.(*Refusal); !ok || r.Reason == "" || r.Message == "" {
			t.Errorf("error %#v is no refusal that says something", err)
		}
		return
	}
	if len(m.Ports) == 0 {
		t.Error("no ports, and yet no refusal")
	}
	type target struct {
		address     string
		port, index uint32
	}
	seen := map[target]string{}
	for i, member := range m.Members {
		if i > 0 {
			last := m.Members[i-1]
			if last.Pod.Name > member.Pod.Name || last.Pod.Name == member.Pod.Name && last.Address == member.Address {
				t.Errorf("%v is not sorted, or one twice", brief(m.Members))
			}
		}
		serves := false
		for p, port := range member.TargetPorts {
			if port == 0 {
				continue
			}
			serves = true
			key := target{member.Address, port, uint32(p)}
			if other := seen[key]; other != "" {
				t.Errorf("%s and %s are both at %s port %d", other, member.Pod.Name, member.Address, port)
			}
			seen[key] = member.Pod.Name
		}
		if !serves || len(member.TargetPorts) != len(m.Ports) {
			t.Errorf("%s has target ports %v for %v", member.Pod.Name, member.TargetPorts, m.Ports)
		}
	}
}
