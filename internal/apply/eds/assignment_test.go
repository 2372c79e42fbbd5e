package eds

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"taper.dev/taper/internal/apply"
	"taper.dev/taper/internal/model"
)

// one makes a service of one endpoint with weight 1.
func one(address string) apply.Assignment {
	return apply.Assignment{
		Service: "s", Endpoints: []model.Endpoint{{Address: address}}, Weights: model.Weights{address: 1},
	}
}

func TestLoadAssignment(t *testing.T) {
	a := apply.Assignment{
		Service: "fib",
		Endpoints: []model.Endpoint{
			{Address: "10.0.0.2:80", Name: "pod-2", Capacity: 2}, {Address: "[2001:DB8::1]:8080"}, {Address: "10.0.0.1:65535"},
		},
		Weights: model.Weights{
			"10.0.0.1:65535": 1, "10.0.0.2:80": math.MaxUint32 - 101, "[2001:DB8::1]:8080": 100,
			"10.0.0.9:80": math.MaxUint32, // of no endpoint: not served, not added up
		},
	}
	got, err := loadAssignment(a)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.ValidateAll(); err != nil {
		t.Errorf("Envoy's own rules: %v", err)
	}
	text := strings.ReplaceAll(protojson.MarshalOptions{}.Format(got), " ", "")
	want := `{"clusterName":"fib","endpoints":[{"lbEndpoints":[` +
		`{"endpoint":{"address":{"socketAddress":{"address":"10.0.0.2","portValue":80}}},"loadBalancingWeight":4294967194},` +
		`{"endpoint":{"address":{"socketAddress":{"address":"2001:db8::1","portValue":8080}}},"loadBalancingWeight":100},` +
		`{"endpoint":{"address":{"socketAddress":{"address":"10.0.0.1","portValue":65535}}},"loadBalancingWeight":1}]}]}`
	if text != want {
		t.Errorf("assignment =\n%s\nwant\n%s", text, want)
	}
}

func TestApplyRefuses(t *testing.T) {
	zero, missing, twice := assignment("s", 1, 0), assignment("s", 1, 1), assignment("s", 1)
	delete(missing.Weights, "10.0.0.2:80")
	twice.Endpoints = append(twice.Endpoints, twice.Endpoints[0])
	tests := map[string]struct {
		a    apply.Assignment
		want string
	}{
		"no service":        {assignment("", 1), "no name"},
		"service not UTF-8": {assignment("\xff", 1), "not UTF-8"},
		"no endpoints":      {assignment("s"), "no endpoints"},
		"weight 0":          {zero, "10.0.0.2:80 has no weight: want at least 1"},
		"no weight":         {missing, "10.0.0.2:80 has no weight"},
		"twice":             {twice, "10.0.0.1:80 is listed twice"},
		"sum too large":     {assignment("s", math.MaxUint32, 1), "add up to 4294967296: Envoy takes at most 4294967295"},
		"a name":            {one("fib.demo:80"), `endpoint "fib.demo:80": want IP:port`},
		"no port":           {one("10.0.0.1"), "want IP:port"},
		"port 0":            {one("10.0.0.1:0"), "want a port from 1 to 65535"},
		"port too large":    {one("10.0.0.1:65536"), "want IP:port"},
		"IPv6, no brackets": {one("2001:db8::1:80"), "want IP:port"},
		"IPv6 zone":         {one("[fe80::1%eth0]:80"), `without zone "eth0"`},
		"no address":        {one(""), "want IP:port"},
	}
	s, err := Listen("127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.listener.Close()
	mustApply(t, s, assignment("s", 7))
	before := s.Status("s")
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := s.Apply(t.Context(), tt.a)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), fmt.Sprintf("service %q", tt.a.Service)) {
				t.Errorf("Apply = %v, want an error with %q and the service", err, tt.want)
			}
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Apply(ended, assignment("s", 8)); !errors.Is(err, context.Canceled) {
		t.Errorf("Apply with an ended context = %v, want context.Canceled", err)
	}
	if after := s.Status("s"); after.Version != before.Version {
		t.Errorf("version %s became %s through refused assignments", before.Version, after.Version)
	}
}

// Whatever the address, what is served passes Envoy's own rules.
func FuzzLoadAssignment(f *testing.F) {
	f.Add("\xff", "10.0.0.1:80", uint32(1))
	for _, address := range []string{"10.0.0.1:80", "[::1]:80", "[::ffff:1.2.3.4]:1", "[fe80::1%0]:1", "name:80", ":", "1.2.3.4:00080"} {
		f.Add("s", address, uint32(1))
	}
	f.Fuzz(func(t *testing.T, service, address string, weight uint32) {
		a := one(address)
		a.Service, a.Weights[address] = service, weight
		got, err := loadAssignment(a)
		if err != nil {
			return
		}
		if err := got.ValidateAll(); err != nil {
			t.Errorf("%+v: %v", a, err)
		}
		if _, err := proto.Marshal(got); err != nil {
			t.Errorf("%+v: %v", a, err)
		}
		endpoint := got.GetEndpoints()[0].GetLbEndpoints()[0]
		if port := endpoint.GetEndpoint().GetAddress().GetSocketAddress().GetPortValue(); port == 0 || endpoint.GetLoadBalancingWeight().GetValue() != weight {
			t.Errorf("%+v became %v", a, endpoint)
		}
	})
}
