package emulated

import (
	"math"
	"math/rand/v2"
	"strconv"
	"sync"

	"github.com/valyala/fasthttp"

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
	address   string
	scheduler *scheduler
	// processor is the endpoint's place among the scheduler's processors.
	processor int
	answer    []byte
	demand    demand
}

func newEndpoint(m fleet.Member, s *scheduler, processor int, seed uint64) *endpoint {
	return &endpoint{
		address:   m.Address,
		scheduler: s,
		processor: processor,
		answer:    strconv.AppendUint(nil, fibonacci(m.Fib), 10),
		demand: demand{
			// One stream per endpoint: what one draws does not depend on the
			// requests that another gets.
			random: rand.New(rand.NewPCG(seed, uint64(processor))),
			mean:   meanDemand(m.Fib),
		},
	}
}

// serve answers once the request's demand has been served. As with a server that
// computes, a client that has gone meanwhile is noticed only then.
func (e *endpoint) serve(ctx *fasthttp.RequestCtx) {
	if !e.scheduler.await(e.scheduler.admit(e.processor, e.demand.draw())) {
		ctx.Error("the endpoint is closing", fasthttp.StatusServiceUnavailable)
		return
	}
	ctx.Response.Header.Set(fleet.EndpointHeader, e.address)
	ctx.SetContentType("text/plain")
	ctx.SetBody(e.answer)
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
