package eds

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

const (
	// maxStreams bounds the memory that clients can take. An Envoy has one stream,
	// or without ADS one for each cluster.
	maxStreams = 10_000
	// unknownAfter is how long a service may be asked for, while others are known,
	// before it is called unknown: Envoys often connect before the first Apply, and
	// services are applied one by one.
	unknownAfter = 3 * time.Second
	// wildcard asks for all resources by name.
	wildcard = "*"
)

// Status is what Envoys said of one service.
type Status struct {
	// Version is the newest one of the service, as Envoys get it; empty before the
	// first Apply.
	Version string
	// Subscribers is the number of connected Envoys that ask for the service.
	Subscribers int
	// Acked is the number of those that have accepted the newest version.
	Acked int
	// Rejected has those whose newest answer was a refusal, in the order of their
	// nodes. They go on with the weights that they had.
	Rejected []Rejection
}

// Rejection is an Envoy's refusal (NACK) of a version.
type Rejection struct {
	// Node is the Envoy's node id, which several Envoys may share.
	Node    string
	Version string
	// Message is the Envoy's reason, shortened when very long.
	Message string
}

// subscribers is the account of who asks for what and what they answered. Its key
// is the stream: node ids may be shared, and come only with the first request.
type subscribers struct {
	prefix string // of versions; their rest is a number that rises

	mu      sync.Mutex
	newest  map[string]uint64 // by service: the version in which it last changed
	begun   time.Time         // when the first service became known
	streams map[int64]*stream
}

// stream is one connected Envoy, or one of its clusters.
type stream struct {
	peer, node string
	asked      map[string]time.Time // since when
	last       response
	accepted   bool // anything yet
	// acked holds, by service, the last version accepted.
	acked map[string]uint64
	// rejected holds, by service, the refusals not followed by an acceptance.
	rejected map[string]Rejection
}

// response is what was last sent on a stream. A stream never has more than one
// under way: the next one waits for the answer.
type response struct {
	nonce, version string
	services       []string
	answered       bool
}

// verdict is an Envoy's answer to a response.
type verdict struct {
	node, peer, version string
	services            []string
	rejected            bool
	message             string // of a rejection
	first               bool   // acceptance on its stream
}

func newSubscribers(prefix string) *subscribers {
	return &subscribers{prefix: prefix, newest: map[string]uint64{}, streams: map[int64]*stream{}}
}

// publish notes that the service changes in a version.
func (s *subscribers) publish(service string, version uint64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.newest) == 0 {
		s.begun = now
	}
	s.newest[service] = version
}

// open notes a new stream, and is false when there are too many.
func (s *subscribers) open(id int64, peer string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.streams) >= maxStreams {
		return false
	}
	s.streams[id] = &stream{peer: peer, acked: map[string]uint64{}, rejected: map[string]Rejection{}}
	return true
}

func (s *subscribers) closed(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, id)
}

// request notes what the stream asks for, and returns the verdict on the last
// response if the request holds one. A request with an older nonce says nothing:
// the Envoy sent it before it saw the last response, and will send another.
func (s *subscribers) request(id int64, req *discoveryv3.DiscoveryRequest, now time.Time) (verdict, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.streams[id]
	if st == nil || st.last.nonce != "" && st.last.nonce != req.GetResponseNonce() {
		return verdict{}, false
	}
	st.node = clip(req.GetNode().GetId())
	st.subscribe(req.GetResourceNames(), now)
	if st.last.nonce == "" || st.last.answered {
		return verdict{}, false
	}
	st.last.answered = true
	v := verdict{node: st.node, peer: st.peer, version: st.last.version, services: st.last.services}
	if refusal := req.GetErrorDetail(); refusal != nil {
		v.rejected, v.message = true, clip(refusal.GetMessage())
		st.reject(v)
	} else {
		v.first = !st.accepted
		st.accept(s.number(st.last.version))
	}
	return v, true
}

// sent notes a response. What it holds is as new as its version, even when an
// Apply has come since.
func (s *subscribers) sent(id int64, resp *discoveryv3.DiscoveryResponse) {
	sent := response{nonce: resp.GetNonce(), version: resp.GetVersionInfo()}
	for _, resource := range resp.GetResources() {
		var assignment endpointv3.ClusterLoadAssignment
		if resource.UnmarshalTo(&assignment) == nil { // always: the cache marshalled it
			sent.services = append(sent.services, assignment.GetClusterName())
		}
	}
	slices.Sort(sent.services)

	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.streams[id]; st != nil {
		st.last = sent
	}
}

// status sums up what is known of one service.
func (s *subscribers) status(service string) Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	newest, known := s.newest[service]
	var out Status
	if known {
		out.Version = s.prefix + strconv.FormatUint(newest, 10)
	}
	for _, st := range s.streams {
		if !st.asks(service) {
			continue
		}
		out.Subscribers++
		if acked, ok := st.acked[service]; known && ok && acked >= newest {
			out.Acked++
		}
		if r, ok := st.rejected[service]; ok {
			out.Rejected = append(out.Rejected, r)
		}
	}
	slices.SortFunc(out.Rejected, func(a, b Rejection) int { return strings.Compare(a.Node+a.Version, b.Node+b.Version) })
	return out
}

// unknown returns the services that have been asked for in vain for a while, and
// all that are known. As long as none is known, none can be called unknown.
func (s *subscribers) unknown(now time.Time) (asked, known []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.newest) == 0 || now.Sub(s.begun) < unknownAfter {
		return nil, nil
	}
	found := map[string]bool{}
	for _, st := range s.streams {
		for service, since := range st.asked {
			if _, ok := s.newest[service]; !ok && service != wildcard && now.Sub(since) >= unknownAfter {
				found[clip(service)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(s.newest))
}

// number is the rising part of a version.
func (s *subscribers) number(version string) uint64 {
	n, _ := strconv.ParseUint(strings.TrimPrefix(version, s.prefix), 10, 64) // our own: always a number
	return n
}

// subscribe makes the names what the stream asks for. What it said of others no
// longer counts.
func (st *stream) subscribe(names []string, now time.Time) {
	asked := make(map[string]time.Time, len(names))
	for _, name := range names {
		asked[name] = now
		if since, ok := st.asked[name]; ok {
			asked[name] = since
		}
	}
	st.asked = asked
	maps.DeleteFunc(st.acked, func(service string, _ uint64) bool { return !st.asks(service) })
	maps.DeleteFunc(st.rejected, func(service string, _ Rejection) bool { return !st.asks(service) })
}

func (st *stream) asks(service string) bool {
	_, named := st.asked[service]
	_, all := st.asked[wildcard]
	return named || all
}

func (st *stream) accept(version uint64) {
	st.accepted = true
	for _, service := range st.last.services {
		if st.asks(service) {
			st.acked[service] = version
			delete(st.rejected, service)
		}
	}
}

func (st *stream) reject(v verdict) {
	for _, service := range v.services {
		if st.asks(service) {
			st.rejected[service] = Rejection{Node: v.node, Version: v.version, Message: v.message}
		}
	}
}
