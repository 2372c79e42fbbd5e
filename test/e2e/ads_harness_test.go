//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"taper.dev/taper/internal/model"
	"taper.dev/taper/test/cluster"
)

const (
	typeCluster    = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	typeAssignment = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
)

// sidecar is a client of the mesh that only asks: it is told what an Envoy in its
// place would be, also of TLS, which an Envoy without Istio's agent cannot speak.
type sidecar struct {
	mesh discoveryv3.AggregatedDiscoveryServiceClient
	node *corev3.Node
}

// newSidecar is a client in a locality, region/zone/subzone, on a node; both may be
// empty.
func newSidecar(t *testing.T, istiod *cluster.Istiod, locality, node string) *sidecar {
	t.Helper()
	conn, err := grpc.NewClient(istiod.XDS, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	s := &sidecar{discoveryv3.NewAggregatedDiscoveryServiceClient(conn), &corev3.Node{
		Id: fmt.Sprintf("sidecar~10.9.250.1~asking.%s~%s.svc.cluster.local", namespace, namespace),
	}}
	if locality != "" {
		parts := append(strings.Split(locality, "/"), "", "")
		s.node.Locality = &corev3.Locality{Region: parts[0], Zone: parts[1], SubZone: parts[2]}
	}
	if node != "" {
		s.node.Metadata, err = structpb.NewStruct(map[string]any{
			"NODE_NAME": node, "LABELS": map[string]any{"kubernetes.io/hostname": node},
		})
		must(t, err)
	}
	return s
}

// ask takes the first answer about resources of a type; all of them without names.
func (s *sidecar) ask(ctx context.Context, kind string, names ...string) ([]*anypb.Any, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	stream, err := s.mesh.StreamAggregatedResources(ctx)
	if err != nil {
		return nil, err
	}
	err = stream.Send(&discoveryv3.DiscoveryRequest{Node: s.node, TypeUrl: kind, ResourceNames: names})
	if err != nil {
		return nil, err
	}
	answer, err := stream.Recv()
	if err != nil {
		return nil, fmt.Errorf("asking istiod for %s: %w", kind, err)
	}
	return answer.Resources, nil
}

// assignment is what the client is told about the endpoints of a cluster.
func (s *sidecar) assignment(ctx context.Context, name string) (*endpointv3.ClusterLoadAssignment, error) {
	resources, err := s.ask(ctx, typeAssignment, name)
	if err != nil {
		return nil, err
	}
	if len(resources) != 1 {
		return nil, fmt.Errorf("istiod answers with %d assignments for %s", len(resources), name)
	}
	a := &endpointv3.ClusterLoadAssignment{}
	return a, resources[0].UnmarshalTo(a)
}

// clusters are those whose names contain a text, by name.
func (s *sidecar) clusters(ctx context.Context, contain string) (map[string]*clusterv3.Cluster, error) {
	resources, err := s.ask(ctx, typeCluster)
	if err != nil {
		return nil, err
	}
	found := map[string]*clusterv3.Cluster{}
	for _, r := range resources {
		c := &clusterv3.Cluster{}
		if err := r.UnmarshalTo(c); err != nil {
			return nil, err
		}
		if strings.Contains(c.Name, contain) {
			found[c.Name] = c
		}
	}
	return found, nil
}

// told is an endpoint as a client is told of it.
type told struct {
	locality string
	priority uint32
	endpoint *endpointv3.LbEndpoint
}

// effective are the endpoints that an Envoy makes of an assignment, by address: of
// two with one address it keeps the first.
func effective(a *endpointv3.ClusterLoadAssignment) (map[string]told, error) {
	endpoints := map[string]told{}
	for _, group := range a.Endpoints {
		l := group.Locality
		for _, e := range group.LbEndpoints {
			at := e.GetEndpoint().GetAddress().GetSocketAddress()
			if at == nil {
				return nil, fmt.Errorf("endpoint %v is not at a socket", e)
			}
			address := hostPort(at.Address, int32(at.GetPortValue()))
			if _, known := endpoints[address]; !known {
				endpoints[address] = told{strings.Join([]string{l.GetRegion(), l.GetZone(), l.GetSubZone()}, "/"), group.Priority, e}
			}
		}
	}
	return endpoints, nil
}

// weights are those that a client is told, by address.
func (s *sidecar) weights(ctx context.Context, cluster string) (model.Weights, error) {
	a, err := s.assignment(ctx, cluster)
	if err != nil {
		return nil, err
	}
	return weightsOf(a)
}

func weightsOf(a *endpointv3.ClusterLoadAssignment) (model.Weights, error) {
	endpoints, err := effective(a)
	if err != nil {
		return nil, err
	}
	weights := model.Weights{}
	for address, e := range endpoints {
		weights[address] = e.endpoint.GetLoadBalancingWeight().GetValue()
	}
	return weights, nil
}

// awaitTold follows what the client is told until the weights satisfy a check.
func (s *sidecar) awaitTold(t *testing.T, within time.Duration, cluster, what string, check weightsCheck) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	last := errors.New("nothing was told")
	err := s.follow(ctx, cluster, func(a *endpointv3.ClusterLoadAssignment) bool {
		weights, err := weightsOf(a)
		if err == nil {
			err = check(weights)
		}
		if err != nil {
			last = fmt.Errorf("%v: %w", weights, err)
		}
		return err == nil
	})
	if err != nil {
		t.Fatalf("%s of %s, within %v: %v; last: %v", what, cluster, within, err, last)
	}
}

// follow takes each assignment of a cluster that is pushed, until done says so.
func (s *sidecar) follow(ctx context.Context, cluster string, done func(*endpointv3.ClusterLoadAssignment) bool) error {
	stream, err := s.mesh.StreamAggregatedResources(ctx)
	if err != nil {
		return err
	}
	request := &discoveryv3.DiscoveryRequest{Node: s.node, TypeUrl: typeAssignment, ResourceNames: []string{cluster}}
	for {
		if err := stream.Send(request); err != nil {
			return err
		}
		answer, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, r := range answer.Resources {
			a := &endpointv3.ClusterLoadAssignment{}
			if err := r.UnmarshalTo(a); err != nil {
				return err
			}
			if a.ClusterName == cluster && done(a) {
				return nil
			}
		}
		request.VersionInfo, request.ResponseNonce = answer.VersionInfo, answer.Nonce
	}
}

// weightsCheck says what is wrong with weights by address.
type weightsCheck = func(model.Weights) error

// both is two checks in one.
func both(a, b weightsCheck) weightsCheck {
	return func(w model.Weights) error { return errors.Join(a(w), b(w)) }
}

// endpointsAre checks who is there, whatever they weigh.
func endpointsAre(addresses ...string) weightsCheck {
	return func(got model.Weights) error {
		want := map[string]bool{}
		for _, a := range addresses {
			want[a] = true
			if got[a] == 0 {
				return fmt.Errorf("%s is missing", a)
			}
		}
		for a := range got {
			if !want[a] {
				return fmt.Errorf("%s is not wanted", a)
			}
		}
		return nil
	}
}

// uneven checks that some weights differ: that they are taper's.
func uneven(got model.Weights) error {
	low, high := uint32(0), uint32(0)
	for _, w := range got {
		if low == 0 || w < low {
			low = w
		}
		high = max(high, w)
	}
	if low == high {
		return errors.New("they are equal")
	}
	return nil
}

// plain checks that each weight is the one that istiod gives where nobody has said
// anything.
func plain(got model.Weights) error {
	for address, w := range got {
		if w != 1 {
			return fmt.Errorf("%s has %d", address, w)
		}
	}
	return nil
}

// telemetry is what an endpoint's metadata say of it to its clients' telemetry.
type telemetry struct{ workload, namespace, canonical, revision, cluster string }

// apart takes an endpoint apart: what telemetry is told, and all else but the weight.
func apart(e *endpointv3.LbEndpoint) (rest *endpointv3.LbEndpoint, told telemetry) {
	rest = proto.CloneOf(e)
	rest.LoadBalancingWeight = nil
	metadata := rest.GetMetadata().GetFilterMetadata()
	if p := strings.Split(metadata["istio"].GetFields()["workload"].GetStringValue(), ";"); len(p) == 5 {
		told = telemetry{p[0], p[1], p[2], p[3], p[4]}
		delete(metadata["istio"].Fields, "workload")
	}
	return rest, told
}
