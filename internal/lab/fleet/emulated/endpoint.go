package emulated

import (
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"

	"taper.dev/taper/internal/lab/fleet"
)

const (
	// fib25Seconds is the mean demand of fib(25), as the published experiment
	// measured it; each further number costs growth times as much.
	fib25Seconds = 0.00273
	growth       = 1.618
	// sigma spreads the demand of single requests around their mean: the
	// standard deviation of its logarithm.
	sigma = 0.8
)

// endpoint answers the requests to one member.
type endpoint struct {
	scheduler *scheduler
	// processor is the endpoint's place among the scheduler's processors.
	processor int
	header    http.Header
	answer    []byte
	demand    demand
}

func newEndpoint(m fleet.Member, s *scheduler, processor int, seed uint64) *endpoint {
	header := http.Header{}
	header.Set(fleet.EndpointHeader, m.Address)
	header.Set("Content-Type", "text/plain")
	return &endpoint{
		scheduler: s,
		processor: processor,
		header:    header,
		answer:    strconv.AppendUint(nil, fibonacci(m.Fib), 10),
		demand: demand{
			// One stream per endpoint: what one draws does not depend on the
			// requests that another gets.
			random: rand.New(rand.NewPCG(seed, uint64(processor))),
			mean:   meanDemand(m.Fib),
		},
	}
}

// ServeHTTP answers once the request's demand has been served, and forgets a
// request whose client has gone.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	j := e.scheduler.admit(e.processor, e.demand.draw())
	select {
	case <-j.served:
	case <-r.Context().Done():
		e.scheduler.withdraw(e.processor, j)
		return
	}
	maps.Copy(w.Header(), e.header)
	// A client that has gone meanwhile is no concern of the endpoint's.
	_, _ = w.Write(e.answer)
}

// demand draws the CPU-seconds that requests cost.
type demand struct {
	mu     sync.Mutex
	random *rand.Rand
	mean   float64
}

// draw returns the demand of one request: lognormal around the mean.
func (d *demand) draw() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mean * math.Exp(sigma*d.random.NormFloat64()-sigma*sigma/2)
}

// scale multiplies the demand of every later request.
func (d *demand) scale(factor float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mean *= factor
}

// meanDemand is the mean CPU-seconds that computing fib(n) costs.
func meanDemand(n int) float64 {
	return fib25Seconds * math.Pow(growth, float64(n-25))
}

func fibonacci(n int) uint64 {
	a, b := uint64(0), uint64(1)
	for range n {
		a, b = b, a+b
	}
	return a
}
