package eds

import (
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"google.golang.org/protobuf/proto"
)

// silentCache is a LinearCache that has no answer without content.
//
// LinearCache answers a request at once, with no resources if need be, when the
// request's version is empty or has another prefix: the first request of a fresh
// Envoy, and that of any Envoy after taper restarts. For endpoints such an answer
// is harmful. To a fresh Envoy it says that the cluster is complete, so that it
// opens its listeners and fails requests for want of endpoints, where without an
// answer it waits (initial_fetch_timeout, 15 s by default) for the first weights.
// One that refuses the first weights would be answered so over and over, its
// version staying empty. To all others it is a version with nothing in it.
//
// The version of a request has no other use in LinearCache: what to send is
// decided by what the stream was sent before. A new stream thus gets every
// service that it asks for and that has an assignment, whatever version it
// claims, and the others once they have one.
type silentCache struct {
	*cachev3.LinearCache
	prefix string
}

// CreateWatch opens a watch as of a request that knows a version of this run.
func (c silentCache) CreateWatch(req *discoveryv3.DiscoveryRequest, sub cachev3.Subscription, answers chan cachev3.Response) (func(), error) {
	req = proto.CloneOf(req)
	req.VersionInfo = c.prefix
	return c.LinearCache.CreateWatch(req, sub, answers)
}
