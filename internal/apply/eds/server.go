package eds

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	endpointservice "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"

	"taper.dev/taper/internal/apply"
)

const (
	// maxRequestBytes bounds what one request can make us hold. The names of some
	// 10,000 clusters and a large node description fit.
	maxRequestBytes = 1 << 20
	// connectTimeout ends connections that never speak HTTP/2. They would hold up
	// a stop, too.
	connectTimeout = 3 * time.Second
	// stopTimeout is how long streams may take to end before they are cut.
	stopTimeout = 3 * time.Second
	// pingAfter and pingTimeout find the Envoys that vanished without a goodbye, so
	// that they leave the status within a minute.
	pingAfter   = 30 * time.Second
	pingTimeout = 10 * time.Second
	// minClientPing allows for Envoys with a brisk keepalive of their own; gRPC's
	// default of 5 minutes disconnects them.
	minClientPing = 5 * time.Second
	// idleTimeout ends connections on which nobody asks for anything.
	idleTimeout = 5 * time.Minute
)

// Server serves endpoints to Envoys. It implements [apply.Applier], and is safe
// for concurrent use.
type Server struct {
	listener   net.Listener
	grpc       *grpc.Server
	endStreams context.CancelFunc
	handler    *handler
	cache      *cachev3.LinearCache
	prefix     string

	mu      sync.Mutex // guards what follows, and the order of updates
	served  map[string]*endpointv3.ClusterLoadAssignment
	version uint64
}

var _ apply.Applier = (*Server)(nil)

// Listen takes the address, as host:port, at once, so that a port in use shows
// before anything else is started; port 0 takes a free one. Connections wait
// until [Server.Serve], which also gives the address back. The logger, which must
// not be nil, gets what Envoys answer.
func Listen(address string, logger *slog.Logger) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listening for Envoys on %s: %w: stop the process that holds it, or choose another address",
			address, syscall.EADDRINUSE)
	}
	if err != nil {
		return nil, fmt.Errorf("listening for Envoys on %q (want host:port of this machine): %w", address, err)
	}

	prefix := versionPrefix(time.Now())
	linear := cachev3.NewLinearCache(resourcev3.EndpointType, cachev3.WithVersionPrefix(prefix))
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		listener:   listener,
		grpc:       newGRPCServer(),
		endStreams: cancel,
		handler:    newHandler(ctx, silentCache{LinearCache: linear, prefix: prefix}, newSubscribers(prefix), logger),
		cache:      linear,
		prefix:     prefix,
		served:     map[string]*endpointv3.ClusterLoadAssignment{},
	}
	endpointservice.RegisterEndpointDiscoveryServiceServer(s.grpc, s.handler)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s.grpc, s.handler)
	return s, nil
}

// versionPrefix makes versions that no other run of taper has used. Without it,
// version 1 of a restarted taper would read like version 1 of the run before,
// with other weights.
func versionPrefix(started time.Time) string {
	return started.UTC().Format("2006-01-02T15:04:05.000000000Z") + "/"
}

func newGRPCServer() *grpc.Server {
	return grpc.NewServer(
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(connectTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: idleTimeout,
			Time:              pingAfter,
			Timeout:           pingTimeout,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime:             minClientPing,
			PermitWithoutStream: true,
		}),
	)
}

// Addr is the address on which Envoys are served, as host:port.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Serve answers Envoys until the context ends. It then ends their streams, by
// force after a few seconds, and gives the address back. It takes nothing away
// from them: they keep the last weights. A Server serves once.
func (s *Server) Serve(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := s.grpc.Serve(s.listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			return fmt.Errorf("serving Envoys on %s: %w", s.Addr(), err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		s.stop()
		return nil
	})
	group.Go(func() error {
		s.handler.watchUnknown(ctx)
		return nil
	})
	return group.Wait()
}

// stop ends the streams rather than wait for Envoys to do so: they never would.
func (s *Server) stop() {
	force := time.AfterFunc(stopTimeout, s.grpc.Stop)
	defer force.Stop()
	s.endStreams()
	s.grpc.GracefulStop()
}

// Apply makes the assignment what Envoys get for its service, and pushes it to
// those that ask for it unless it equals the last one. The error names what is
// wrong with an assignment that no Envoy could use; the last one then stays.
// Whether Envoys took it is told by [Server.Status].
func (s *Server) Apply(ctx context.Context, a apply.Assignment) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("applying weights of service %q: %w", a.Service, err)
	}
	next, err := loadAssignment(a)
	if err != nil {
		return fmt.Errorf("applying weights of service %q: %w", a.Service, err)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if proto.Equal(s.served[a.Service], next) {
		return nil
	}
	s.served[a.Service] = next
	// The cache numbers its updates from 1, and so does version. Subscribers must
	// know the number first: an answer can arrive before UpdateResource returns.
	s.version++
	s.handler.envoys.publish(a.Service, s.version, time.Now())
	if err := s.cache.UpdateResource(a.Service, next); err != nil {
		return fmt.Errorf("serving version %s of service %q: %w", s.prefix+strconv.FormatUint(s.version, 10), a.Service, err)
	}
	return nil
}

// Status tells what Envoys said of a service. It is the zero Status of a service
// that was never applied and that nobody asks for.
func (s *Server) Status(service string) Status { return s.handler.envoys.status(service) }
