package explain

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/synth"
)

const ms = time.Millisecond

// story is a capture of a service that gets requests, one after the other, and does with
// each what a test says.
type story struct {
	*synth.Script
	client *synth.Talk
	now    time.Duration // when the next request comes
	gap    time.Duration // from an answer to the next request
	ports  uint16
	names  int

	// What is true of the trap: the times of the packets that show it, and what requests
	// lost to it, known to that share of it.
	requests int
	signs    []time.Duration
	lost     time.Duration
	slack    float64
}

// tell writes a story, as a capture of some link.
func tell(what func(*story), link capture.LinkType) *story {
	s := &story{Script: synth.NewScript(), now: 100 * ms, gap: time.Second}
	s.Link = link
	s.client = s.Dial(0, ms, netip.MustParseAddrPort("10.9.0.7:40000"), synth.ServiceAddr)
	what(s)
	return s
}

// request is the next one: do is told its time and says how long it took.
func (s *story) request(do func(at time.Duration) (took time.Duration)) {
	at := s.now
	s.requests++
	s.client.Send(at, capture.Client, synth.Get("GET", "/v1/items", host, "curl/8", nil))
	took := do(at)
	s.client.Send(at+took, capture.Server, synth.Answer(200, []byte("{}")))
	s.client.Acknowledge(at+took+ms, capture.Client)
	s.now = at + took + s.gap
}

// quiet is so many requests that are answered at once.
func (s *story) quiet(requests int) {
	for range requests {
		s.request(func(time.Duration) time.Duration { return 3 * ms })
	}
}

// shows says at which times the packets are that show the trap.
func (s *story) shows(times ...time.Duration) { s.signs = append(s.signs, times...) }

// lose says what the present request lost to the trap.
func (s *story) lose(d time.Duration) { s.lost += d }

// own is an address of the service with a port that was not used yet.
func (s *story) own() netip.AddrPort {
	s.ports++
	return netip.AddrPortFrom(synth.ServiceAddr.Addr(), 42000+s.ports)
}

// dial opens a connection, whose round trip is 1 ms.
func (s *story) dial(at time.Duration, to netip.AddrPort) *synth.Talk {
	return s.Dial(at, ms, s.own(), to)
}

// pooled is a connection that was open before the first request.
func (s *story) pooled(to netip.AddrPort) *synth.Talk { return s.dial(10*ms, to) }

// newName is one that nobody asked for.
func (s *story) newName() string {
	s.names++
	return fmt.Sprintf("peer-%d.example", s.names)
}

// asks sends a small question.
func asks(t *synth.Talk, at time.Duration) {
	t.Send(at, capture.Client, synth.Get("GET", "/search", "backend", "client/1", nil))
}

// call asks on a connection, and has the answer after a time.
func call(t *synth.Talk, at, took time.Duration) {
	asks(t, at)
	t.Send(at+took, capture.Server, synth.Answer(200, bytes.Repeat([]byte("x"), 200)))
	t.Acknowledge(at+took+ms/2, capture.Client)
}

// hangUp has the client close a connection.
func hangUp(t *synth.Talk, at time.Duration) {
	t.Finish(at, capture.Client)
	t.Finish(at+ms/10, capture.Server)
	t.Acknowledge(at+ms/5, capture.Client)
}

// host is how clients call the service.
const host = "shop.example"

var (
	backend  = netip.MustParseAddrPort("10.1.0.1:9200")
	outside  = netip.MustParseAddrPort("93.184.216.34:80")
	metadata = netip.MustParseAddrPort("169.254.169.254:80")
	found    = backend.Addr()
)

// A connection that was opened shortly before a request came carries its call all the
// same.
func TestConnectionOpenedAhead(t *testing.T) {
	t.Parallel()
	s := tell(func(s *story) {
		for range 3 {
			s.request(func(at time.Duration) time.Duration {
				call(s.dial(at-10*ms, backend), at+2*ms, 5*ms)
				return 10 * ms
			})
		}
	}, capture.LinkSLL2)
	all := explain(t, s.Capture())
	for _, r := range all.requests {
		if len(r.Links) != 1 {
			t.Errorf("request %d has %d links, want one", r.ID, len(r.Links))
		}
	}
	if len(all.requests) != 3 || len(all.orphans) > 0 {
		t.Errorf("%d requests and %d orphans, want 3 and none", len(all.requests), len(all.orphans))
	}
}
