package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"taper.dev/taper/internal/lab/fleet"
)

// client sends requests over connections that are kept alive.
type client struct {
	transport *http.Transport
	timeout   time.Duration
	// requests has one for each target, never sent itself: preparing one costs
	// more than copying it.
	requests []*http.Request
	// header is the canonical form of [fleet.EndpointHeader].
	header string
}

func newClient(plan Plan) (*client, error) {
	c := &client{
		transport: &http.Transport{
			// A dial outlives the request that began it.
			DialContext: (&net.Dialer{Timeout: plan.Timeout}).DialContext,
			// Room for as many connections as there can be requests: fewer would
			// make requests pay for new connections when the service is slow.
			MaxIdleConnsPerHost: plan.MaxInFlight,
			DisableCompression:  true,
		},
		timeout: plan.Timeout,
		header:  http.CanonicalHeaderKey(fleet.EndpointHeader),
	}
	for _, target := range plan.Targets {
		req, err := http.NewRequest(http.MethodGet, "http://"+target+plan.Path, nil)
		if err != nil {
			return nil, fmt.Errorf("load: target %q, path %q: %w", target, plan.Path, err)
		}
		if plan.Host != "" {
			req.Host = plan.Host
		}
		c.requests = append(c.requests, req)
	}
	return c, nil
}

// get sends one request and reads the whole answer. It returns the endpoint
// that the answer names, which may be none. Any status but 200 is an error.
func (c *client) get(ctx context.Context, target int) (endpoint string, err error) {
	req := c.requests[target].WithContext(ctx)
	endpoint, err = c.exchange(req)
	if errors.Is(err, context.DeadlineExceeded) {
		return "", fmt.Errorf("GET %s: no answer within %v: %w", req.URL, c.timeout, err)
	}
	if err != nil {
		return "", fmt.Errorf("GET %s: %w", req.URL, err)
	}
	return endpoint, nil
}

func (c *client) exchange(req *http.Request) (endpoint string, err error) {
	// The transport alone: no redirects, cookies or proxies of the environment.
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	// Read even when the status is wrong: that keeps the connection.
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return "", fmt.Errorf("reading the body: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d, want 200", resp.StatusCode)
	}
	return resp.Header.Get(c.header), nil
}

func (c *client) close() { c.transport.CloseIdleConnections() }
