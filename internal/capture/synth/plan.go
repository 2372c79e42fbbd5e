package synth

import (
	"fmt"
	"net/netip"
	"time"

	"taper.dev/taper/internal/capture"
)

// Plan says what a service does, and how it is captured.
type Plan struct {
	Seed     uint64
	Start    time.Time
	Requests int
	// Open is how many requests are open at once on average; arrivals are random
	// (Poisson) at the rate that makes it so.
	Open   float64
	Routes []Route
	// Background are calls that no request causes.
	Background []Background

	// Keys puts a traceparent on requests and on the calls that they cause.
	Keys bool
	// Clients is how many connections requests arrive on; an arrival that finds all of
	// them busy opens another. 0: a connection for each request.
	Clients int
	// RoundTrip is the time to peers and back.
	RoundTrip time.Duration

	// Link is how packets begin; by default as in "any" captures of today (SLL2).
	Link capture.LinkType
	// Loss is the fraction of segments with data that are lost once: those of peers
	// before the capture sees them, those of the service after it.
	Loss float64
	// Missed is the fraction of packets that arrived and that the capture lacks.
	Missed float64
	// Doubled is the fraction of packets that the capture has twice, from a second
	// interface.
	Doubled float64
	// Snap cuts packets to so many bytes; 0 is none.
	Snap int
}

// Route is one kind of request.
type Route struct {
	Method, Path string // "%d" in the path becomes a number that varies
	// Often is how often it is asked for, relative to the other routes; 0 is 1.
	Often float64
	// Steps are walked in turn, then the answer follows after Finish.
	Steps  []Step
	Finish Dist
	// Status is the answer's; 0 is 200.
	Status int
}

// Step is a call on the way.
type Step struct {
	// Pause is the service's own work before the call: from the end of the step before, or
	// from its start if it is Beside that one.
	Pause  Dist
	Beside bool
	Call   Call
	// Skip is the probability that the step is left out, as with a cache.
	Skip float64
	// Times is how often it is called, one after the other; 0 is 1.
	Times int
}

// Call is what is called.
type Call struct {
	Peer               netip.AddrPort
	Host, Method, Path string
	Took               Dist
	// Sent and Got are the sizes of the bodies.
	Sent, Got int
	// Fresh opens a connection for each call, instead of using those that are there.
	Fresh bool
	// Resolve asks DNS for Host before, ResolveTook each question; Search are suffixes
	// that are tried in vain before the bare name.
	Resolve     bool
	ResolveTook Dist
	Search      []string
	// Credentials makes the answer that of a metadata service, with credentials that live
	// so long from then on.
	Credentials time.Duration
	// UserAgent is the client's.
	UserAgent string
}

// Background is a call at random moments.
type Background struct {
	Every time.Duration
	Call  Call
}

// The service's address and the resolver's in every capture.
var (
	ServiceAddr  = netip.MustParseAddrPort("172.17.36.147:8080")
	ResolverAddr = netip.MustParseAddrPort("10.96.0.10:53")
)

// Took is how long a request of the route takes on average, without queueing for
// connections and without losses.
func (p Plan) took(r Route) time.Duration {
	var sum, before time.Duration
	for _, s := range r.Steps {
		call := s.Pause.Mean + p.callTook(s.Call)
		if s.Beside {
			// It begins with the step before: what counts is by how much it ends later.
			sum += max(0, call-before)
			continue
		}
		times := max(1, s.Times)
		before = p.callTook(s.Call)
		sum += time.Duration((1 - s.Skip) * float64(times) * float64(call))
	}
	return sum + r.Finish.Mean
}

func (p Plan) callTook(c Call) time.Duration {
	took := c.Took.Mean + p.RoundTrip
	if c.Fresh {
		took += p.RoundTrip
	}
	if c.Resolve {
		// Both families at once, a suffix at a time.
		took += time.Duration(1+len(c.Search)) * (c.ResolveTook.Mean + p.RoundTrip)
	}
	return took
}

// between is the mean time between arrivals.
func (p Plan) between() time.Duration {
	var took, often float64
	for _, r := range p.Routes {
		took += r.oftenness() * float64(p.took(r))
		often += r.oftenness()
	}
	return time.Duration(took / often / p.Open)
}

func (r Route) oftenness() float64 {
	if r.Often == 0 {
		return 1
	}
	return r.Often
}

func (p Plan) check() error {
	switch {
	case p.Requests <= 0 || len(p.Routes) == 0:
		return fmt.Errorf("a plan needs requests and routes, not %d and %d", p.Requests, len(p.Routes))
	case p.Open <= 0:
		return fmt.Errorf("a plan needs requests open at once, not %v", p.Open)
	case p.between() <= 0:
		return fmt.Errorf("the routes of a plan need to take time")
	}
	return nil
}

// Chain is the service by which links are judged: three calls in a row, as in the
// published simulation. How regular its pauses and calls are is not published; with these
// the two simplest ways to link come to what is published of them: the latest request
// that is open gets .93 .74 .59 .36 .22 of the calls right at .25 1 2 5 10 open (.92 .75
// .58 .34 .22), and first come first served, position by position, .99 .95 .90 .78 .62
// (.985 .95 .91 .74 .63).
func Chain(open float64, requests int) Plan {
	pause, took := Gamma(2*time.Millisecond, 6), Gamma(8*time.Millisecond, 1)
	peer := func(i byte) netip.AddrPort { return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, 0, i}), 9200) }
	step := func(i byte, path string) Step {
		return Step{
			Pause: pause,
			Call:  Call{Peer: peer(i), Host: "backend-" + string('a'+rune(i)-1), Method: "GET", Path: path, Took: took, Got: 300},
		}
	}
	return Plan{
		Seed: 1, Requests: requests, Open: open, Clients: 64,
		Routes: []Route{{
			Method: "GET", Path: "/v1/items/%d", Finish: pause,
			Steps: []Step{step(1, "/a/%d"), step(2, "/b/%d"), step(3, "/c/%d")},
		}},
	}
}

// Article is the published story: each request fetches credentials, in two calls, before
// it asks a search engine. With sessions of an hour, which last, they are fetched once in
// a while instead.
func Article(session time.Duration, requests int) Plan {
	metadata := netip.MustParseAddrPort("169.254.169.254:80")
	fetch := func(path string, life time.Duration) Step {
		s := Step{
			Pause: Gamma(time.Millisecond, 4),
			Call: Call{
				Peer: metadata, Host: "169.254.169.254", Method: "GET", Path: "/latest/meta-data/iam/security-credentials/" + path,
				Took: Gamma(42*time.Millisecond, 20), Got: 20, Credentials: life, UserAgent: "aws-sdk-java/1.11.500 Linux/4.14 OpenJDK_64-Bit_Server_VM/11.0.2",
			},
		}
		if session > 30*time.Minute {
			s.Skip = 0.999
		}
		return s
	}
	return Plan{
		Seed: 2, Requests: requests, Open: 0.1, Clients: 4,
		Routes: []Route{{
			Method: "GET", Path: "/v1/offers/%d", Finish: Gamma(500*time.Microsecond, 4),
			Steps: []Step{fetch("", 0), fetch("search-reader", session), {
				Pause: Gamma(500*time.Microsecond, 4),
				Call: Call{
					Peer: netip.MustParseAddrPort("10.2.0.9:9200"), Host: "search.internal", Method: "POST", Path: "/offers/_search",
					Took: Gamma(18*time.Millisecond, 10), Sent: 400, Got: 4000,
				},
			}},
		}},
	}
}
