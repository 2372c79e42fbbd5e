package eds

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"taper.dev/taper/internal/apply"
)

// loadAssignment is the assignment as Envoy takes it: all endpoints in one
// locality of the highest priority, each with its weight. The locality has no
// name and no weight, as there is no other to compare it with.
//
// It refuses what Envoy would refuse, since a NACK comes later and blames no
// caller; and an assignment without endpoints, which Envoy would take and then
// fail every request.
func loadAssignment(a apply.Assignment) (*endpointv3.ClusterLoadAssignment, error) {
	if a.Service == "" {
		return nil, errors.New("the service has no name")
	}
	if !utf8.ValidString(a.Service) {
		return nil, errors.New("the service's name is not UTF-8, in which xDS has all names")
	}
	if len(a.Endpoints) == 0 {
		return nil, errors.New("there are no endpoints: every request would fail")
	}
	endpoints := make([]*endpointv3.LbEndpoint, 0, len(a.Endpoints))
	seen := make(map[netip.AddrPort]bool, len(a.Endpoints))
	var sum uint64
	for _, e := range a.Endpoints {
		address, err := parseAddress(e.Address)
		if err != nil {
			return nil, err
		}
		if seen[address] {
			return nil, fmt.Errorf("endpoint %s is listed twice", e.Address)
		}
		seen[address] = true
		weight := a.Weights[e.Address]
		if weight == 0 {
			return nil, fmt.Errorf("endpoint %s has no weight: want at least 1", e.Address)
		}
		sum += uint64(weight)
		endpoints = append(endpoints, lbEndpoint(address, weight))
	}
	if sum > math.MaxUint32 {
		return nil, fmt.Errorf("the weights of %d endpoints add up to %d: Envoy takes at most %d", len(endpoints), sum, uint32(math.MaxUint32))
	}
	return &endpointv3.ClusterLoadAssignment{
		ClusterName: a.Service,
		Endpoints:   []*endpointv3.LocalityLbEndpoints{{LbEndpoints: endpoints}},
	}, nil
}

// parseAddress takes what Envoy takes from EDS: IP addresses without a zone, and
// no names, which EDS clusters do not resolve.
func parseAddress(address string) (netip.AddrPort, error) {
	parsed, err := netip.ParseAddrPort(address)
	switch {
	case err != nil:
		return netip.AddrPort{}, fmt.Errorf("endpoint %q: want IP:port or [IPv6]:port, as Envoy resolves no names from EDS: %w", address, err)
	case parsed.Port() == 0:
		return netip.AddrPort{}, fmt.Errorf("endpoint %q: want a port from 1 to 65535", address)
	case parsed.Addr().Zone() != "":
		return netip.AddrPort{}, fmt.Errorf("endpoint %q: want an address without zone %q, which means nothing on another machine", address, parsed.Addr().Zone())
	}
	return parsed, nil
}

func lbEndpoint(address netip.AddrPort, weight uint32) *endpointv3.LbEndpoint {
	return &endpointv3.LbEndpoint{
		HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
			Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
				Address:       address.Addr().String(),
				PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(address.Port())},
			}}},
		}},
		LoadBalancingWeight: wrapperspb.UInt32(weight),
	}
}
