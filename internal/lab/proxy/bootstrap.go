package proxy

import (
	"fmt"
	"math"
	"net/netip"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const (
	// controlPlane is the cluster where Envoy asks for endpoints.
	controlPlane = "taper"
	// listenerName is that of the only listener.
	listenerName = "load"

	// connectTimeout allows for a machine whose cores are all busy.
	connectTimeout = 5 * time.Second
	// requestTimeout is far above any latency that an experiment should show.
	requestTimeout = 60 * time.Second
	// fetchTimeout is how long Envoy holds back its listener for clusters, and for
	// endpoints. They may also be served later.
	fetchTimeout = 1 * time.Second
	// never is a period that no experiment lasts for.
	never = 24 * time.Hour
)

// bootstrap is the whole configuration of one Envoy, but for the endpoints and,
// with ADS, the clusters. What Envoy does besides balancing is off, as far as it
// can be: sixteen share the machine with the endpoints under test.
func bootstrap(node *corev3.Node, server netip.AddrPort, config Config) (*bootstrapv3.Bootstrap, error) {
	var packed packer
	b := &bootstrapv3.Bootstrap{
		Node:  node,
		Admin: &bootstrapv3.Admin{Address: socketAddress(anyPort)},
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{
			Listeners: []*listenerv3.Listener{packed.listener(config)},
			Clusters:  []*clusterv3.Cluster{packed.controlPlane(server)},
		},
		StatsFlush: &bootstrapv3.Bootstrap_StatsFlushOnAdmin{StatsFlushOnAdmin: true},
		StatsConfig: &metricsv3.StatsConfig{StatsMatcher: &metricsv3.StatsMatcher{
			StatsMatcher: &metricsv3.StatsMatcher_RejectAll{RejectAll: true},
		}},
		Watchdogs: idleWatchdogs(),
	}
	if config.ADS {
		b.DynamicResources = aggregated()
		return b, packed.err
	}
	for _, arm := range config.Arms {
		b.StaticResources.Clusters = append(b.StaticResources.Clusters, packed.armCluster(arm))
	}
	return b, packed.err
}

// packer packs extension configurations and keeps the first error.
type packer struct{ err error }

func (p *packer) pack(m proto.Message) *anypb.Any {
	packed, err := anypb.New(m)
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("packing %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
	}
	return packed
}

// anyPort lets the kernel choose: a fixed port may be in use.
var anyPort = netip.MustParseAddrPort("127.0.0.1:0")

func socketAddress(a netip.AddrPort) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       a.Addr().String(),
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(a.Port())},
	}}}
}

// listener routes a request to the cluster that its Host header names.
func (p *packer) listener(config Config) *listenerv3.Listener {
	routes := &routev3.RouteConfiguration{Name: "arms", VirtualHosts: virtualHosts(config.Arms)}
	if config.ADS {
		routes.ValidateClusters = wrapperspb.Bool(false) // they come later
	}
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix:                 listenerName,
		CodecType:                  hcmv3.HttpConnectionManager_HTTP1,
		ServerHeaderTransformation: hcmv3.HttpConnectionManager_PASS_THROUGH,
		GenerateRequestId:          wrapperspb.Bool(false),
		RouteSpecifier:             &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: routes},
		HttpFilters: []*hcmv3.HttpFilter{{
			Name: "envoy.filters.http.router",
			ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: p.pack(&routerv3.Router{
				DynamicStats:         wrapperspb.Bool(false),
				SuppressEnvoyHeaders: true,
			})},
		}},
	}
	return &listenerv3.Listener{
		Name:    listenerName,
		Address: socketAddress(anyPort),
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name:       "envoy.filters.network.http_connection_manager",
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: p.pack(manager)},
		}}}},
	}
}

func virtualHosts(arms []Arm) []*routev3.VirtualHost {
	hosts := make([]*routev3.VirtualHost, len(arms))
	for i, arm := range arms {
		hosts[i] = &routev3.VirtualHost{
			Name:    arm.Name,
			Domains: []string{arm.Name},
			Routes: []*routev3.Route{{
				Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
				Action: &routev3.Route_Route{Route: &routev3.RouteAction{
					ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: arm.cluster()},
					Timeout:          durationpb.New(requestTimeout),
				}},
			}},
		}
	}
	return hosts
}

// armCluster balances over the endpoints that the EDS server has for the arm.
func (p *packer) armCluster(arm Arm) *clusterv3.Cluster {
	c := p.cluster(arm.cluster())
	c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}
	c.EdsClusterConfig = &clusterv3.Cluster_EdsClusterConfig{EdsConfig: edsSource()}
	c.LbPolicy = arm.Policy.lbPolicy()
	c.CircuitBreakers = noLimits()
	return c
}

// controlPlane is the cluster through which Envoy reaches the xDS server.
func (p *packer) controlPlane(address netip.AddrPort) *clusterv3.Cluster {
	c := p.cluster(controlPlane)
	c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
	c.LoadAssignment = &endpointv3.ClusterLoadAssignment{
		ClusterName: controlPlane,
		Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{
				Endpoint: &endpointv3.Endpoint{Address: socketAddress(address)},
			},
		}}}},
	}
	c.TypedExtensionProtocolOptions = p.protocol(&httpv3.HttpProtocolOptions_ExplicitHttpConfig{
		ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
			Http2ProtocolOptions: &corev3.Http2ProtocolOptions{},
		},
	})
	return c
}

// cluster has what all clusters share; it speaks HTTP/1.1 with keep-alive.
func (p *packer) cluster(name string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:           name,
		ConnectTimeout: durationpb.New(connectTimeout),
	}
}

// protocol sets what a cluster speaks.
func (p *packer) protocol(explicit *httpv3.HttpProtocolOptions_ExplicitHttpConfig) map[string]*anypb.Any {
	options := &httpv3.HttpProtocolOptions{
		UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: explicit},
	}
	return map[string]*anypb.Any{
		"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": p.pack(options),
	}
}

// edsSource is a gRPC stream per cluster to the EDS server.
func edsSource() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ResourceApiVersion:    corev3.ApiVersion_V3,
		InitialFetchTimeout:   durationpb.New(fetchTimeout),
		ConfigSourceSpecifier: &corev3.ConfigSource_ApiConfigSource{ApiConfigSource: stream(corev3.ApiConfigSource_GRPC)},
	}
}

// aggregated asks for clusters, and what belongs to them, over one stream, in
// increments: as Istio's sidecars do.
func aggregated() *bootstrapv3.Bootstrap_DynamicResources {
	return &bootstrapv3.Bootstrap_DynamicResources{
		AdsConfig: stream(corev3.ApiConfigSource_DELTA_GRPC),
		CdsConfig: &corev3.ConfigSource{
			ResourceApiVersion:    corev3.ApiVersion_V3,
			InitialFetchTimeout:   durationpb.New(fetchTimeout),
			ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		},
	}
}

// stream is a gRPC stream to the xDS server.
func stream(kind corev3.ApiConfigSource_ApiType) *corev3.ApiConfigSource {
	return &corev3.ApiConfigSource{
		ApiType:             kind,
		TransportApiVersion: corev3.ApiVersion_V3,
		GrpcServices: []*corev3.GrpcService{{
			TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: controlPlane},
			},
		}},
	}
}

// noLimits raises the circuit breakers so that none trips, as Istio does: a
// request that is refused early would make an overloaded arm look fast.
func noLimits() *clusterv3.CircuitBreakers {
	unlimited := wrapperspb.UInt32(math.MaxUint32)
	return &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
		MaxConnections:     unlimited,
		MaxPendingRequests: unlimited,
		MaxRequests:        unlimited,
		MaxRetries:         unlimited,
	}}}
}

// idleWatchdogs keep the watchdogs from waking up ten times a second.
func idleWatchdogs() *bootstrapv3.Watchdogs {
	dog := &bootstrapv3.Watchdog{
		MissTimeout:     durationpb.New(never),
		MegamissTimeout: durationpb.New(never),
	}
	return &bootstrapv3.Watchdogs{MainThreadWatchdog: dog, WorkerWatchdog: dog}
}
