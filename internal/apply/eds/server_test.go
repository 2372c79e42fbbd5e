package eds

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	endpointservice "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type weights = map[string][]uint32

func expect(t *testing.T, got, want weights) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("weights received (-want +got):\n%s", diff)
	}
}

func expectStatus(t *testing.T, s *Server, service string, want Status) {
	t.Helper()
	var diff string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if diff = cmp.Diff(want, s.Status(service)); diff == "" {
			return
		}
	}
	t.Fatalf("status of %s (-want +got):\n%s", service, diff)
}

func TestPushesOnlyWhatChanged(t *testing.T) {
	for name, open := range map[string]func(*testing.T, *Server, string) *envoy{"eds": connect, "ads": connectADS} {
		t.Run(name, func(t *testing.T) {
			s, _, _ := serve(t, "127.0.0.1:0")
			mustApply(t, s, assignment("a", 1, 2))
			mustApply(t, s, assignment("b", 3, 4))
			e := open(t, s, "e")
			e.ask("a", "b")
			resp, got := e.receive()
			expect(t, got, weights{"a": {1, 2}, "b": {3, 4}})
			e.ack(resp, "a", "b")

			mustApply(t, s, assignment("b", 30, 4))
			resp, got = e.receive()
			expect(t, got, weights{"b": {30, 4}})
			e.ack(resp, "a", "b")

			mustApply(t, s, assignment("c", 5)) // nobody asks for it
			mustApply(t, s, assignment("a", 1, 2))
			mustApply(t, s, assignment("b", 30, 4))
			mustApply(t, s, assignment("a", 10, 2, 3))
			resp, got = e.receive() // the equal ones before it gave no response
			expect(t, got, weights{"a": {10, 2, 3}})
			e.ack(resp, "a", "b")
			expectStatus(t, s, "a", Status{Version: resp.GetVersionInfo(), Subscribers: 1, Acked: 1})
			if status := s.Status("b"); status.Acked != 1 {
				t.Errorf("status of b = %+v, want it acked still", status)
			}
		})
	}
}

// An Envoy that learns nothing keeps what it has, and a fresh one waits.
func TestSilentBeforeFirstApply(t *testing.T) {
	for name, held := range map[string]string{"fresh envoy": "", "envoy that knows another run": "2025-01-01T00:00:00Z/7"} {
		t.Run(name, func(t *testing.T) {
			s, _, _ := serve(t, "127.0.0.1:0")
			e := connect(t, s, "e")
			e.held = held
			e.ask("a", "b")
			expectStatus(t, s, "a", Status{Subscribers: 1})

			mustApply(t, s, assignment("b", 1))
			resp, got := e.receive() // the first response is the first assignment
			expect(t, got, weights{"b": {1}})
			e.ack(resp, "a", "b")
			expectStatus(t, s, "b", Status{Version: resp.GetVersionInfo(), Subscribers: 1, Acked: 1})

			mustApply(t, s, assignment("a", 2))
			_, got = e.receive()
			expect(t, got, weights{"a": {2}})
		})
	}
}

func TestSubscriptionChanges(t *testing.T) {
	s, _, _ := serve(t, "127.0.0.1:0")
	mustApply(t, s, assignment("a", 1))
	mustApply(t, s, assignment("b", 2))
	e := connect(t, s, "e")
	e.ask() // nothing, which is not everything
	e.ask("a")
	resp, got := e.receive()
	expect(t, got, weights{"a": {1}})
	e.ack(resp, "a")

	e.ask("a", "b")
	// The last version that e accepted is newer than b's, yet b was not in it.
	expectStatus(t, s, "b", Status{Version: resp.GetVersionInfo(), Subscribers: 1})
	resp, got = e.receive()
	expect(t, got, weights{"b": {2}})
	e.ack(resp, "b")
	expectStatus(t, s, "b", Status{Version: resp.GetVersionInfo(), Subscribers: 1, Acked: 1})
	if status := s.Status("a"); status.Subscribers != 0 || status.Acked != 0 {
		t.Errorf("status of a = %+v, want no subscriber after it was dropped", status)
	}

	e.ask("a", "b") // a again: what e said of it before no longer counts
	_, got = e.receive()
	expect(t, got, weights{"a": {1}})
	if status := s.Status("a"); status.Subscribers != 1 || status.Acked != 0 {
		t.Errorf("status of a = %+v, want it asked for and not acked again yet", status)
	}
	e.conn.Close()
	expectStatus(t, s, "a", Status{Version: s.Status("a").Version})

	all := connectADS(t, s, "all")
	all.ask("*")
	_, got = all.receive()
	expect(t, got, weights{"a": {1}, "b": {2}})
	if status := s.Status("a"); status.Subscribers != 1 {
		t.Errorf("status of a = %+v, want the subscriber of everything", status)
	}
}

// A client of our own refuses here, since a real Envoy takes whatever passes Apply
// (see TestRealEnvoyTakesWhatApplyTakes), unless it lacks something of its own, such
// as a kernel with IPv6.
func TestRejection(t *testing.T) {
	s, log, _ := serve(t, "127.0.0.1:0")
	mustApply(t, s, assignment("a", 1))
	good, bad := connect(t, s, "same-id"), connect(t, s, "same-id")
	good.ask("a")
	bad.ask("a")
	resp, _ := good.receive()
	good.ack(resp, "a")
	refused, _ := bad.receive()
	bad.nack(refused, "no such luck", "a")

	rejected := []Rejection{{Node: "same-id", Version: refused.GetVersionInfo(), Message: "no such luck"}}
	expectStatus(t, s, "a", Status{Version: resp.GetVersionInfo(), Subscribers: 2, Acked: 1, Rejected: rejected})

	// The refused version is not sent again: the next response has new weights.
	mustApply(t, s, assignment("a", 1))
	mustApply(t, s, assignment("a", 2))
	resp, got := bad.receive()
	expect(t, got, weights{"a": {2}})
	expectStatus(t, s, "a", Status{Version: resp.GetVersionInfo(), Subscribers: 2, Rejected: rejected})
	bad.ack(resp, "a")
	expectStatus(t, s, "a", Status{Version: resp.GetVersionInfo(), Subscribers: 2, Acked: 1})

	if lines := log.lines("envoy rejected weights"); len(lines) != 1 || !strings.Contains(lines[0], "no such luck") ||
		!strings.Contains(lines[0], "node=same-id") || !strings.Contains(lines[0], refused.GetVersionInfo()) {
		t.Errorf("log of the rejection = %q, want one line with node, version and message", lines)
	}
	if lines := log.lines("envoy accepted weights"); len(lines) != 2 {
		t.Errorf("log of the acceptances = %q, want the first of each stream", lines)
	}
}

func TestRejectionIsLoggedOncePerNodeAndVersion(t *testing.T) {
	s, log, _ := serve(t, "127.0.0.1:0")
	mustApply(t, s, assignment("a", 1))
	long := strings.Repeat("é", maxText)
	for range 3 { // the same Envoy, back again
		e := connect(t, s, "stubborn")
		e.ask("a")
		resp, _ := e.receive()
		e.nack(resp, long, "a")
		waitFor(t, "the rejection", func() bool { return len(s.Status("a").Rejected) == 1 })
		if got := s.Status("a").Rejected[0].Message; len(got) > maxText+len("…") || !strings.HasPrefix(got, "éé") {
			t.Errorf("message has %d bytes, want it shortened to %d", len(got), maxText)
		}
		e.conn.Close()
		expectStatus(t, s, "a", Status{Version: resp.GetVersionInfo()})
	}
	if lines := log.lines("envoy rejected weights"); len(lines) != 1 {
		t.Errorf("logged %d times, want once", len(lines))
	}
}

func TestStaleAnswerCountsForNothing(t *testing.T) {
	s, _, _ := serve(t, "127.0.0.1:0")
	mustApply(t, s, assignment("a", 1))
	e := connect(t, s, "e")
	e.ask("a")
	first, _ := e.receive()
	e.ack(first, "a")
	mustApply(t, s, assignment("a", 2))
	second, _ := e.receive()
	e.ask("a", "b") // sent before the second response was seen: neither yes nor no to it
	e.nack(second, "no", "a", "b")
	expectStatus(t, s, "b", Status{Subscribers: 1})
	expectStatus(t, s, "a", Status{Version: second.GetVersionInfo(), Subscribers: 1,
		Rejected: []Rejection{{Node: "e", Version: second.GetVersionInfo(), Message: "no"}}})

	e.ask("b") // what e said of a counts no longer, also when it comes back
	e.ask("a", "b")
	third, _ := e.receive()
	expectStatus(t, s, "a", Status{Version: third.GetVersionInfo(), Subscribers: 1})
}

func TestWarnsOfUnknownService(t *testing.T) {
	t.Parallel()
	s, log, _ := serve(t, "127.0.0.1:0")
	mustApply(t, s, assignment("fib", 1))
	connect(t, s, "e").ask("fib.demo", "fib")
	waitFor(t, "the warning", func() bool { return len(log.lines("asked=fib.demo known=fib")) == 1 })
}

func TestStopAndRestart(t *testing.T) {
	s, _, stop := serve(t, "127.0.0.1:0")
	mustApply(t, s, assignment("a", 1))
	e := connect(t, s, "e")
	e.ask("a")
	resp, _ := e.receive()
	e.ack(resp, "a")
	expectStatus(t, s, "a", Status{Version: resp.GetVersionInfo(), Subscribers: 1, Acked: 1})
	stop()
	if err := e.end(); err != io.EOF {
		t.Errorf("stream ended with %v, want a regular end: it was cut", err)
	}
	select {
	case resp := <-e.got:
		t.Errorf("the stopping server sent %v, want nothing", resp)
	default:
	}
	expectStatus(t, s, "a", Status{Version: resp.GetVersionInfo()})

	again, _, _ := serve(t, s.Addr())
	mustApply(t, again, assignment("a", 9))
	back := connect(t, again, "e")
	back.held = resp.GetVersionInfo()
	back.ask("a")
	newer, got := back.receive()
	expect(t, got, weights{"a": {9}})
	if newer.GetVersionInfo() == resp.GetVersionInfo() {
		t.Errorf("both runs call their first version %q", newer.GetVersionInfo())
	}
}

func TestServeEndsThoughClientsDoNot(t *testing.T) {
	t.Parallel()
	s, _, stop := serve(t, "127.0.0.1:0")
	mute, err := net.Dial("tcp", s.Addr()) // never speaks HTTP/2
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	e := connect(t, s, "e")
	e.ask("a")
	expectStatus(t, s, "a", Status{Subscribers: 1})
	stop()
}

func TestServeWithEndedContextGivesTheAddressBack(t *testing.T) {
	s, err := Listen("127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Serve(ctx); err != nil {
		t.Fatal(err)
	}
	serve(t, s.Addr())
}

func TestListenErrors(t *testing.T) {
	s, _, _ := serve(t, "127.0.0.1:0")
	for address, want := range map[string]string{
		s.Addr():        "listening for Envoys on " + s.Addr() + ": address already in use: stop the process that holds it, or choose another address",
		"nonsense":      `"nonsense" (want host:port of this machine)`,
		"127.0.0.1:-1":  "invalid port",
		"192.0.2.1:100": "192.0.2.1:100",
	} {
		_, err := Listen(address, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Listen(%q) = %v, want one line with %q", address, err, want)
		}
	}
}

func TestRefusesWhatIsNotServed(t *testing.T) {
	s, log, _ := serve(t, "127.0.0.1:0")
	for range 2 {
		e := connectADS(t, s, "wants-clusters")
		e.kind = resourcev3.ClusterType
		e.ask()
		if err := e.end(); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "eds_config") {
			t.Errorf("clusters: %v, want InvalidArgument with the cure", err)
		}
	}
	if lines := log.lines(resourcev3.ClusterType); len(lines) != 1 {
		t.Errorf("refusal of clusters logged as %q, want once", lines)
	}

	conn := dial(t, s)
	delta, err := endpointservice.NewEndpointDiscoveryServiceClient(conn).DeltaEndpoints(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := delta.Recv(); status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "DELTA_GRPC") {
		t.Errorf("delta: %v, want Unimplemented with the cure", err)
	}
	ads, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ads.Recv(); status.Code(err) != codes.Unimplemented {
		t.Errorf("aggregated delta: %v, want Unimplemented", err)
	}
	if lines := log.lines("DELTA_GRPC"); len(lines) != 1 {
		t.Errorf("refusal of delta logged as %q, want once", lines)
	}
}

func TestRefusesHugeRequests(t *testing.T) {
	s, _, _ := serve(t, "127.0.0.1:0")
	e := connect(t, s, "e")
	e.ask(strings.Repeat("x", maxRequestBytes))
	if err := e.end(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("stream ended with %v, want ResourceExhausted", err)
	}
}

func TestConcurrentApply(t *testing.T) {
	s, _, _ := serve(t, "127.0.0.1:0")
	const services, updates, clients = 4, 25, 3
	var names []string
	for i := range services {
		names = append(names, fmt.Sprint("s", i))
	}
	for i := range clients {
		e := connect(t, s, fmt.Sprint("e", i))
		e.ask(names...)
		done := make(chan struct{})
		t.Cleanup(func() { e.conn.Close(); <-done })
		go func() {
			defer close(done)
			for {
				select {
				case resp := <-e.got:
					e.nonce, e.held = resp.GetNonce(), resp.GetVersionInfo()
					_ = e.stream.Send(&discoveryv3.DiscoveryRequest{
						TypeUrl: e.kind, VersionInfo: e.held, ResponseNonce: e.nonce, ResourceNames: names,
					})
				case <-e.ended:
					return
				}
			}
		}()
	}
	var wg sync.WaitGroup
	for _, name := range names {
		wg.Go(func() {
			for i := range updates {
				if err := s.Apply(context.Background(), assignment(name, uint32(i+1), 7)); err != nil {
					t.Error(err)
				}
				s.Status(name)
			}
		})
	}
	wg.Wait()
	for _, name := range names {
		waitFor(t, "all clients to accept the last version of "+name, func() bool {
			status := s.Status(name)
			return status.Subscribers == clients && status.Acked == clients
		})
	}
	last := fmt.Sprint("/", services*updates)
	found := false
	for _, name := range names {
		found = found || strings.HasSuffix(s.Status(name).Version, last)
	}
	if !found {
		t.Errorf("no service has the version %s of the last update", last)
	}
}
