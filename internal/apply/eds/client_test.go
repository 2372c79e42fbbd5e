package eds

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	endpointservice "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"taper.dev/taper/internal/apply"
	"taper.dev/taper/internal/model"
)

// patience is how long a test waits for what must happen.
const patience = 10 * time.Second

// assignment makes a service of the addresses 10.0.0.1:80, 10.0.0.2:80, … with the weights.
func assignment(service string, weights ...uint32) apply.Assignment {
	a := apply.Assignment{Service: service, Weights: model.Weights{}}
	for i, weight := range weights {
		address := "10.0.0." + string(rune('1'+i)) + ":80"
		a.Endpoints = append(a.Endpoints, model.Endpoint{Address: address})
		a.Weights[address] = weight
	}
	return a
}

// logBuffer collects what a server logs.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// lines returns the lines that contain the text.
func (b *logBuffer) lines(text string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []string
	for line := range strings.Lines(b.text.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// serve runs a server on the address until stop is called or the test ends.
func serve(t *testing.T, address string) (s *Server, log *logBuffer, stop func()) {
	t.Helper()
	log = &logBuffer{}
	s, err := Listen(address, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Serve = %v, want nil", err)
			}
		case <-time.After(patience):
			t.Error("Serve did not end with its context")
		}
	})
	t.Cleanup(stop)
	return s, log, stop
}

func mustApply(t *testing.T, s *Server, a apply.Assignment) {
	t.Helper()
	if err := s.Apply(t.Context(), a); err != nil {
		t.Fatal(err)
	}
}

// waitFor waits until the condition holds.
func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain for: %s", patience, what)
		}
	}
}

// envoy is the client side of a state-of-the-world stream, as Envoy plays it.
type envoy struct {
	t      *testing.T
	conn   *grpc.ClientConn
	stream grpc.BidiStreamingClient[discoveryv3.DiscoveryRequest, discoveryv3.DiscoveryResponse]
	got    chan *discoveryv3.DiscoveryResponse
	ended  chan error
	node   *corev3.Node // nil once sent: Envoy sends it once
	kind   string
	nonce  string
	held   string // the last version accepted
}

func dial(t *testing.T, s *Server) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(s.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// connect opens an EDS stream.
func connect(t *testing.T, s *Server, node string) *envoy {
	t.Helper()
	conn := dial(t, s)
	stream, err := endpointservice.NewEndpointDiscoveryServiceClient(conn).StreamEndpoints(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return newEnvoy(t, conn, stream, node)
}

// connectADS opens an aggregated stream.
func connectADS(t *testing.T, s *Server, node string) *envoy {
	t.Helper()
	conn := dial(t, s)
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return newEnvoy(t, conn, stream, node)
}

func newEnvoy(t *testing.T, conn *grpc.ClientConn, stream grpc.BidiStreamingClient[discoveryv3.DiscoveryRequest, discoveryv3.DiscoveryResponse], node string) *envoy {
	e := &envoy{
		t: t, conn: conn, stream: stream, node: &corev3.Node{Id: node}, kind: resourcev3.EndpointType,
		got: make(chan *discoveryv3.DiscoveryResponse, 100), ended: make(chan error, 1),
	}
	go func() {
		for {
			resp, err := stream.Recv()
			if err != nil {
				e.ended <- err
				return
			}
			e.got <- resp
		}
	}()
	return e
}

func (e *envoy) send(refusal *status.Status, services ...string) {
	e.t.Helper()
	err := e.stream.Send(&discoveryv3.DiscoveryRequest{
		Node: e.node, TypeUrl: e.kind, VersionInfo: e.held, ResponseNonce: e.nonce,
		ResourceNames: services, ErrorDetail: refusal.Proto(),
	})
	if err != nil {
		e.t.Fatal(err)
	}
	e.node = nil
}

// ask subscribes to exactly these services.
func (e *envoy) ask(services ...string) { e.t.Helper(); e.send(nil, services...) }

// ack accepts a response, and nack refuses it; services is the subscription.
func (e *envoy) ack(resp *discoveryv3.DiscoveryResponse, services ...string) {
	e.t.Helper()
	e.nonce, e.held = resp.GetNonce(), resp.GetVersionInfo()
	e.send(nil, services...)
}

func (e *envoy) nack(resp *discoveryv3.DiscoveryResponse, message string, services ...string) {
	e.t.Helper()
	e.nonce = resp.GetNonce()
	e.send(status.New(codes.InvalidArgument, message), services...)
}

// receive returns the next response, and the weights in it by service.
func (e *envoy) receive() (*discoveryv3.DiscoveryResponse, map[string][]uint32) {
	e.t.Helper()
	select {
	case resp := <-e.got:
		return resp, weightsIn(e.t, resp)
	case err := <-e.ended:
		e.t.Fatalf("the stream ended: %v", err)
	case <-time.After(patience):
		e.t.Fatal("no response")
	}
	return nil, nil
}

// end waits for the stream to end.
func (e *envoy) end() error {
	e.t.Helper()
	select {
	case err := <-e.ended:
		return err
	case <-time.After(patience):
		return errors.New("the stream is still open")
	}
}

func weightsIn(t *testing.T, resp *discoveryv3.DiscoveryResponse) map[string][]uint32 {
	t.Helper()
	weights := map[string][]uint32{}
	for _, resource := range resp.GetResources() {
		var cla endpointv3.ClusterLoadAssignment
		if err := resource.UnmarshalTo(&cla); err != nil {
			t.Fatal(err)
		}
		for _, e := range cla.GetEndpoints()[0].GetLbEndpoints() {
			weights[cla.GetClusterName()] = append(weights[cla.GetClusterName()], e.GetLoadBalancingWeight().GetValue())
		}
	}
	return weights
}
