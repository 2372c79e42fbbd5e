package synth

import "taper.dev/taper/internal/capture"

// Cause is what a call is, in the words of package attribution.
type Cause string

// Causes of true calls.
const (
	DNS      Cause = "dns"
	Connect  Cause = "connect"
	Metadata Cause = "metadata"
	Called   Cause = "call"
)

// Request is what truly happened because of one request.
type Request struct {
	// Packet is the number of the packet in which it began: what attribution shows of the
	// same request begins with it too.
	Packet     uint64
	Start, End capture.Time
	Route      int // index in Plan.Routes
	Calls      []TrueCall
}

// TrueCall is something that the service did on the wire.
type TrueCall struct {
	Cause Cause
	// Packet is the one in which it began.
	Packet   uint64
	From, To capture.Time
	Step     int // index in Route.Steps
}

// Truth are all requests of a capture in the order in which they ended, and the first
// packets of calls that no request caused.
type Truth struct {
	Requests   []Request
	Background []uint64
}
