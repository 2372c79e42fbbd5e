package envoystats

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	// maxAnswer bounds what is read of one answer: some 50,000 hosts.
	maxAnswer = 64 << 20
	// maxWait ends a poll of an Envoy that hangs.
	maxWait = 2 * time.Second
)

// poller follows one Envoy.
type poller struct {
	name    string // the admin interface, for errors
	url     string
	cluster string
	client  *http.Client

	mu      sync.Mutex
	seen    interval
	prev    map[string]host // the last answer
	prevAt  time.Time       // its time; zero when there is none to count from
	failure error           // of the last poll
}

// interval is what one Envoy has said since the last take.
type interval struct {
	newest  time.Time     // of the answers; zero when there was none
	polls   int           // that were answered
	covered time.Duration // between answers: what requests were counted over
	hosts   map[string]counted
}

// counted sums what was said of one host over an interval.
type counted struct {
	requests uint64 // that came between answers
	active   uint64 // summed over polls
}

func newClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil // an admin interface is not behind a proxy
	transport.MaxIdleConnsPerHost = 1
	transport.MaxIdleConns = 0 // as many as there are Envoys: with fewer, each poll would dial
	return &http.Client{
		Transport: transport,
		Timeout:   maxWait,
		// What answers elsewhere is not the Envoy that is asked about.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func newPoller(admin, cluster string, client *http.Client) (*poller, error) {
	u, err := url.Parse(admin)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		// The cause stays out: it may quote a piece of a password.
		if strings.Contains(admin, "@") {
			return nil, errors.New("an Envoy's admin address with a user in it is not usable; want http://HOST:PORT, special characters in a password percent-encoded")
		}
		return nil, fmt.Errorf("admin address %q is not usable; want http://HOST:PORT", bounded(admin))
	}
	clusters := u.JoinPath("clusters")
	clusters.RawQuery = "format=json"
	return &poller{
		name:    u.Scheme + "://" + u.Host,
		url:     clusters.String(),
		cluster: cluster,
		client:  client,
	}, nil
}

// run polls, after an offset, until the context ends.
func (p *poller) run(ctx context.Context, offset, every time.Duration) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(offset):
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		hosts, at, err := p.poll(ctx)
		if ctx.Err() != nil {
			return
		}
		p.note(hosts, at, err)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// poll asks once. The time is that at which the answer began to arrive: Envoy
// has its numbers ready by then, and reading a long answer takes a while.
func (p *poller) poll(ctx context.Context) (map[string]host, time.Time, error) {
	fail := func(err error) (map[string]host, time.Time, error) {
		return nil, time.Time{}, fmt.Errorf("reading Envoy's statistics at %s: %w", p.name, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return fail(errors.New("its address is not usable"))
	}
	resp, err := p.client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the URL, which is named already
		}
		return fail(err)
	}
	at := time.Now()
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fail(err)
	case resp.StatusCode != http.StatusOK:
		return fail(fmt.Errorf("it answered %s; is this an admin interface?", bounded(resp.Status)))
	case len(body) > maxAnswer:
		return fail(fmt.Errorf("its answer is longer than %d MiB; want an Envoy with fewer clusters", maxAnswer>>20))
	}
	hosts, err := parse(body, p.cluster)
	if err != nil {
		return fail(err)
	}
	return hosts, at, nil
}

// note adds an answer, which was given at a time, to the interval.
func (p *poller) note(hosts map[string]host, at time.Time, failure error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure = failure
	if failure != nil {
		return
	}
	counting := !p.prevAt.IsZero()
	if counting {
		p.seen.covered += at.Sub(p.prevAt)
	}
	// Hosts that are gone are dropped: however long the interval, what is kept is
	// no more than one answer.
	sums := make(map[string]counted, len(hosts))
	for address, h := range hosts {
		c := p.seen.hosts[address]
		c.active += h.active
		if counting {
			c.requests += increase(p.prev[address].requests, h.requests)
		}
		sums[address] = c
	}
	p.seen.hosts = sums
	p.seen.polls++
	p.seen.newest = at
	p.prev, p.prevAt = hosts, at
}

// increase is what a counter has grown by. One that is lower than before has
// started anew: its Envoy has restarted, or its host was gone for a while. A
// host that is new has been counted from zero as well.
func increase(before, now uint64) uint64 {
	if now < before {
		return now
	}
	return now - before
}

// take ends the interval and returns it. After an interval without an answer the
// next answer is only counted from: what came before it belongs to no interval.
func (p *poller) take() interval {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := p.seen
	p.seen = interval{}
	if seen.newest.IsZero() {
		p.prev, p.prevAt = nil, time.Time{}
	}
	return seen
}

// silence says why too little was seen of this Envoy.
func (p *poller) silence(now time.Time, seen interval) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.failure != nil:
		return p.failure
	case seen.newest.IsZero():
		return fmt.Errorf("the Envoy at %s did not answer within the interval", p.name)
	}
	return fmt.Errorf("the Envoy at %s answered %d times, last %s ago; want an answer in the second half of the interval",
		p.name, seen.polls, now.Sub(seen.newest).Round(time.Millisecond))
}
