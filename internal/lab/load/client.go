package load

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"taper.dev/taper/internal/lab/fleet"
)

// idleFor is longer than any experiment: a connection that this side closes while
// it is idle would make the next request pay for a new one.
const idleFor = time.Hour

// client sends requests over connections that are kept alive. It is fasthttp's
// rather than net/http's because the load shares the machine with what it
// measures: one goroutine a request instead of three.
type client struct {
	hosts   []*fasthttp.HostClient
	host    string // the Host header; a target's own address if empty
	path    string
	timeout time.Duration
	dialer  net.Dialer

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]struct{}
}

func newClient(plan Plan) *client {
	c := &client{
		host: plan.Host, path: plan.Path, timeout: plan.Timeout,
		dialer: net.Dialer{Timeout: plan.Timeout}, open: map[net.Conn]struct{}{},
	}
	for _, target := range plan.Targets {
		c.hosts = append(c.hosts, &fasthttp.HostClient{
			Addr: target,
			Dial: c.dial,
			// Room for as many connections as there can be requests: fewer would
			// make requests wait for each other when the service is slow.
			MaxConns:                 plan.MaxInFlight,
			MaxIdleConnDuration:      idleFor,
			NoDefaultUserAgentHeader: true,
			// A failed request is a result, not something to try again.
			RetryIfErr: func(*fasthttp.Request, int, error) (resetTimeout, retry bool) { return false, false },
		})
	}
	return c
}

// get sends one request and reads the whole answer, until the deadline. It
// returns the endpoint that the answer names, which may be none. Any status but
// 200 is an error.
func (c *client) get(target int, deadline time.Time) (endpoint string, err error) {
	request, response := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(request)
	defer fasthttp.ReleaseResponse(response)
	hc := c.hosts[target]
	request.URI().SetScheme("http")
	request.URI().SetHost(hc.Addr)
	request.URI().SetPath(c.path)
	if c.host != "" {
		request.Header.SetHost(c.host)
		request.UseHostHeader = true
	}
	err = hc.DoDeadline(request, response, deadline)
	switch {
	case errors.Is(err, fasthttp.ErrTimeout):
		return "", fmt.Errorf("GET http://%s%s: no answer within %v", hc.Addr, c.path, c.timeout)
	case err != nil:
		return "", fmt.Errorf("GET http://%s%s: %w", hc.Addr, c.path, err)
	case response.StatusCode() != http.StatusOK:
		return "", fmt.Errorf("GET http://%s%s: status %d, want 200", hc.Addr, c.path, response.StatusCode())
	}
	return string(response.Header.Peek(fleet.EndpointHeader)), nil
}

// dial remembers the connection, so that close can cut off requests under way.
func (c *client) dial(address string) (net.Conn, error) {
	conn, err := c.dialer.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		conn.Close()
		return nil, net.ErrClosed
	}
	tracked := &connection{Conn: conn, client: c}
	c.open[tracked] = struct{}{}
	return tracked, nil
}

// close cuts off every request under way and lets no other connection be made.
func (c *client) close() {
	c.mu.Lock()
	c.closed = true
	open := c.open
	c.open = map[net.Conn]struct{}{}
	c.mu.Unlock()
	for conn := range open {
		conn.Close()
	}
}

// connection is one that its client forgets when it is closed.
type connection struct {
	net.Conn
	client *client
}

func (c *connection) Close() error {
	c.client.mu.Lock()
	delete(c.client.open, c)
	c.client.mu.Unlock()
	return c.Conn.Close()
}
