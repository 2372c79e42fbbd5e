package eds

import (
	"context"
	"log/slog"
	"net"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	endpointservice "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/sotw/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// handler is the gRPC side: it takes streams to the xDS server, refuses those that
// taper has nothing for, and logs what Envoys answer.
type handler struct {
	endpointservice.UnimplementedEndpointDiscoveryServiceServer
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer

	xds    sotw.Server
	envoys *subscribers
	logger *slog.Logger
	logged once
}

var _ sotw.Callbacks = (*handler)(nil)

// newHandler serves from the watcher until the context ends, and with it all streams.
func newHandler(ctx context.Context, watcher cachev3.ConfigWatcher, envoys *subscribers, logger *slog.Logger) *handler {
	h := &handler{envoys: envoys, logger: logger}
	// An empty list of names means all resources only of the older xDS types; an
	// Envoy that asks for no endpoints wants none.
	h.xds = sotw.NewServer(ctx, watcher, h, sotw.DeactivateLegacyWildcard())
	return h
}

// StreamEndpoints serves an Envoy's stream for one cluster.
func (h *handler) StreamEndpoints(stream endpointservice.EndpointDiscoveryService_StreamEndpointsServer) error {
	return h.xds.StreamHandler(stream, resourcev3.EndpointType)
}

// StreamAggregatedResources serves an Envoy's stream for all its clusters.
func (h *handler) StreamAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	return h.xds.StreamHandler(stream, resourcev3.AnyType)
}

// DeltaEndpoints refuses the incremental protocol.
func (h *handler) DeltaEndpoints(stream endpointservice.EndpointDiscoveryService_DeltaEndpointsServer) error {
	return h.refuseDelta(stream.Context())
}

// DeltaAggregatedResources refuses the incremental protocol.
func (h *handler) DeltaAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	return h.refuseDelta(stream.Context())
}

func (h *handler) refuseDelta(ctx context.Context) error {
	const why = "taper does not serve incremental xDS: set api_type GRPC, not DELTA_GRPC"
	address := peerAddress(ctx)
	host, _, _ := net.SplitHostPort(address) // each attempt comes from another port
	if h.logged.first("delta " + host) {
		h.logger.Warn("envoy refused", "peer", address, "reason", why)
	}
	return status.Error(codes.Unimplemented, why)
}

// OnStreamOpen refuses streams over the limit.
func (h *handler) OnStreamOpen(ctx context.Context, id int64, _ string) error {
	if !h.envoys.open(id, peerAddress(ctx)) {
		if h.logged.first("streams") {
			h.logger.Warn("too many streams of Envoys: refusing new ones", "limit", maxStreams)
		}
		return status.Errorf(codes.ResourceExhausted, "taper serves at most %d streams", maxStreams)
	}
	return nil
}

// OnStreamClosed forgets what the Envoy said.
func (h *handler) OnStreamClosed(id int64, _ *corev3.Node) { h.envoys.closed(id) }

// OnStreamRequest notes what the Envoy asks for and what it says of the last
// answer. It ends streams that ask for anything but endpoints: to leave such a
// request without an answer would keep the Envoy waiting without a reason.
func (h *handler) OnStreamRequest(id int64, req *discoveryv3.DiscoveryRequest) error {
	if kind := req.GetTypeUrl(); kind != resourcev3.EndpointType {
		node := clip(req.GetNode().GetId())
		if h.logged.first("type " + node + clip(kind)) {
			h.logger.Warn("envoy refused: it asks taper for more than endpoints", "node", node, "type", clip(kind))
		}
		return status.Errorf(codes.InvalidArgument, "taper serves %s only, not %s: use taper in the eds_config of a cluster",
			resourcev3.EndpointType, clip(kind))
	}
	if verdict, ok := h.envoys.request(id, req, time.Now()); ok {
		h.log(verdict)
	}
	return nil
}

// OnStreamResponse notes what is about to be sent.
func (h *handler) OnStreamResponse(_ context.Context, id int64, _ *discoveryv3.DiscoveryRequest, resp *discoveryv3.DiscoveryResponse) {
	h.envoys.sent(id, resp)
}

func (h *handler) log(v verdict) {
	attrs := []any{"node", v.node, "peer", v.peer, "version", v.version, "services", shorten(v.services)}
	switch {
	case v.rejected && h.logged.first("rejected "+v.node+" "+v.version):
		h.logger.Warn("envoy rejected weights", append(attrs, "message", v.message)...)
	case !v.rejected && v.first:
		h.logger.Info("envoy accepted weights", attrs...)
	}
}

// watchUnknown warns of services that Envoys ask for and that no Apply named,
// each once. A cluster name that differs from the service's name is the commonest
// mistake, and without this line nothing would show it.
func (h *handler) watchUnknown(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			h.warnUnknown(now)
		}
	}
}

func (h *handler) warnUnknown(now time.Time) {
	asked, known := h.envoys.unknown(now)
	var fresh []string
	for _, service := range asked {
		if h.logged.first("unknown " + service) {
			fresh = append(fresh, service)
		}
	}
	if len(fresh) > 0 {
		h.logger.Warn("envoys ask for services that taper does not serve: the cluster's service_name, or else its name, must be a known service",
			"asked", shorten(fresh), "known", shorten(known))
	}
}

// peerAddress tells apart the Envoys that share a node id.
func peerAddress(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return ""
}
