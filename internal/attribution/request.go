package attribution

import (
	"time"

	"taper.dev/taper/internal/capture"
)

// Cause is what a slice of a request's time was spent on.
type Cause string

// Causes, in the order in which they win where they overlap: what is more particular
// first.
const (
	Retransmit    Cause = "retransmit" // bytes of the request or of its calls were lost
	DNS           Cause = "dns"
	Metadata      Cause = "metadata" // a cloud's metadata service
	Connect       Cause = "connect"  // TCP handshakes of its calls
	TLS           Cause = "tls"      // TLS handshakes of its calls
	Call          Cause = "call"
	ClientNetwork Cause = "client-network" // the request arrives, or the response waits for its reader
	Self          Cause = "self"           // no network activity: own work, or a wait that leaves no packet
)

// Causes lists all causes in their order.
func Causes() []Cause {
	return []Cause{Retransmit, DNS, Metadata, Connect, TLS, Call, ClientNetwork, Self}
}

// Certainty says how sure it is that calls belong to a request.
type Certainty string

// Certainties, of a single link and of a request: the worst of its links.
const (
	Certain   Certainty = "certain"   // by an exact key, or there is no other possibility
	Likely    Certainty = "likely"    // probability of at least LikelyFrom
	Ambiguous Certainty = "ambiguous" // less; no claim about this single request
)

// LikelyFrom is the least probability of a link that is called likely.
const LikelyFrom = 0.9

// Request is an exchange that the service answered, with what it caused.
type Request struct {
	// ID counts requests from 1, by the time at which they began.
	ID uint64
	*capture.Exchange
	Route Route
	// Links are the calls of the request in the order in which they began.
	Links []Link
	// Slices cover the time from Start to End without gap or overlap, in order.
	Slices []Slice
	// Certainty is that of the least sure link; Confidence its probability, 1 when there
	// are no calls and could be none.
	Certainty  Certainty
	Confidence float64
	// Open is how many requests of the service were open at once while it was, on average
	// over its time, itself included.
	Open float64
}

// Duration is from the first byte of the request to the last one of the response.
func (r *Request) Duration() time.Duration { return r.End().Sub(r.Start()) }

// Link ties a call to a request.
type Link struct {
	Exchange *capture.Exchange
	Cause    Cause // Call, Metadata, DNS, or TLS for a handshake
	// Peer is who was called, as people say it: a name where one is known, else an
	// address; with the port unless it is the protocol's own.
	Peer string
	// Probability that this call belongs to this request, 1 when certain.
	Probability float64
	Certainty   Certainty

	opened capture.Time // when the connection that was opened for it was; 0 if none was
}

// Slice is a part of a request's time with one cause.
type Slice struct {
	Cause    Cause
	Peer     string // "" for self and client-network
	From, To capture.Time
	// Link is the index of the call in Request.Links, -1 if there is none.
	Link int
	// Packets are the first and last packet that show it, zero if none does.
	Packets [2]uint64
}

// Part is the time of a request by cause and peer: the sum of Slices.
type Part struct {
	Cause    Cause
	Peer     string
	Duration time.Duration
	// Calls counts the links, or handshakes for connect, or repetitions for retransmit.
	Calls int
}

// Route is a kind of request: its method, and its target with what varies replaced.
type Route struct {
	Protocol string
	Method   string
	Pattern  string // such as /v1/{id}
}

// String is how people write it: "GET /v1/{id}".
func (r Route) String() string {
	if r.Method == "" {
		return r.Pattern
	}
	return r.Method + " " + r.Pattern
}

// Orphan is a call that no request caused, as far as the capture tells: background work,
// or a request that was not captured.
type Orphan struct {
	Exchange *capture.Exchange
	Cause    Cause
	Peer     string
}

// Sink takes what was attributed, in the order in which requests end.
type Sink interface {
	Request(*Request)
	Orphan(*Orphan)
}
