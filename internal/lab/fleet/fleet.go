// Package fleet says what it takes to be the endpoints of the experiment, and
// which endpoints the published experiment had.
//
// Load comes in over HTTP/1.1 at each member's address; out come responses that
// name the endpoint ([EndpointHeader]) and cumulative counters of what each
// endpoint has used ([Usage]). The children implement it: emulated shares
// virtual cores between requests, nginx computes real Fibonacci numbers. They
// do not know each other. Start with [Fleet] and [Fibonacci].
package fleet

import (
	"context"
	"fmt"
	"time"

	"taper.dev/taper/internal/model"
)

// EndpointHeader is the response header in which an endpoint names its own
// address. It survives a proxy, so a client knows who served it.
const EndpointHeader = "x-taper-endpoint"

// Member is one endpoint of the experiment.
type Member struct {
	model.Endpoint
	// Fib is the Fibonacci number that each request computes, 25..29.
	Fib int
}

// Usage is what an endpoint has used since it started: counters that only rise.
type Usage struct {
	// Address is the member's [model.Endpoint.Address].
	Address string
	// CPUSeconds includes the part already served of requests that are still active.
	CPUSeconds float64
	// Requests counts the requests answered.
	Requests uint64
	// At is when the counters were read.
	At time.Time
}

// Fleet is a running set of endpoints.
type Fleet interface {
	// Members returns the endpoints, always in the same order.
	Members() []Member
	// Usage reads the counters of every member, in the order of Members.
	Usage(ctx context.Context) ([]Usage, error)
	// Disturb multiplies the demand of one endpoint by factor, which is above 0,
	// for every request that arrives from now on. Calls compound. An unknown
	// address is an error that lists the known ones.
	Disturb(address string, factor float64) error
	// Close ends the endpoints and returns once nothing of them is left running.
	// It may be called more than once.
	Close() error
}

// Fibonacci returns the endpoints of the published experiment: fifteen of two
// cores each, whose requests cost between one and almost seven times as much.
func Fibonacci() []Member {
	numbers := []int{25, 25, 25, 26, 26, 27, 27, 27, 27, 27, 27, 27, 27, 27, 29}
	members := make([]Member, len(numbers))
	for i, fib := range numbers {
		members[i] = Member{
			Endpoint: model.Endpoint{
				Address:  fmt.Sprintf("127.0.1.%d:8080", i+1),
				Name:     fmt.Sprintf("fib-%02d", i+1),
				Capacity: 2,
			},
			Fib: fib,
		}
	}
	return members
}
