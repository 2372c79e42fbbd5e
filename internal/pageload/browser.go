package pageload

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"sync"
	"time"
)

const (
	// perHost is how many connections browsers open to a host with HTTP/1.
	perHost = 6
	// perConnection is how many requests they send at once on one of HTTP/2.
	perConnection = 100
	// mostRedirects is half of where browsers give up: a page under test has few.
	mostRedirects = 10
	// dialTimeout and handshakeTimeout make it plain what a page that takes too long waits for.
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	// mostHeader bounds what is kept of a response's header.
	mostHeader = 256 << 10
	// accepted is what documents are asked for by; for the rest it makes no difference.
	accepted = "text/html,application/xhtml+xml,*/*;q=0.8"
	// readBytes is how much of a body is read at once.
	readBytes = 128 << 10
	// mostName bounds what a server may call itself.
	mostName = 64
)

// browser loads objects as one user's browser does, from one target. It is to be closed.
type browser struct {
	transport *http.Transport
	// maxBytes bounds an object, as sent.
	maxBytes int64
	// home is the origin that the page is of; others are asked only if that was wished.
	home   string
	others bool
}

// newBrowser has an empty cache and no connection. It uses no proxy, whatever the environment
// says: that would be what is measured.
func newBrowser(t *target, o *Options) *browser {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.TLS != nil {
		config = o.TLS.Clone()
	}
	b := &browser{
		transport: &http.Transport{
			DialContext: t.dial, TLSClientConfig: config, TLSHandshakeTimeout: handshakeTimeout,
			MaxConnsPerHost: perHost, MaxIdleConnsPerHost: perHost,
			// Bodies are counted as they were sent.
			DisableCompression: true, MaxResponseHeaderBytes: mostHeader,
			Protocols: new(http.Protocols),
		},
		maxBytes: o.MaxObjectBytes, home: t.home, others: o.OtherOrigins,
	}
	b.transport.Protocols.SetHTTP1(true)
	b.transport.Protocols.SetHTTP2(true)
	return b
}

func (b *browser) Close() { b.transport.CloseIdleConnections() }

// dial connects to a host of the page. When the connection is closed it is reset: all that
// came over it was read by then, and a machine that loads pages would run out of ports
// otherwise, as each stays reserved for a minute.
func (t *target) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if t.connect != "" && address == t.address {
		address = t.connect
	}
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	t.once.Do(func() {
		if local, err := netip.ParseAddrPort(conn.LocalAddr().String()); err == nil {
			t.device = deviceTo(local.Addr())
		}
	})
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it, ports may run out, which is an error of its own
	}
	return conn, nil
}

// sink takes a response's body: from whom it came is known first.
type sink func(served string, response *http.Response) io.Writer

// fetch loads an object and follows redirects. It returns the last response, its body
// read, and where it came from.
func (b *browser) fetch(ctx context.Context, u *url.URL, to sink) (*http.Response, *url.URL, error) {
	for range mostRedirects + 1 {
		response, err := b.request(ctx, u, to)
		if err != nil {
			return nil, nil, err
		}
		if !redirects(response.StatusCode) {
			if response.StatusCode < 200 || response.StatusCode > 299 {
				return nil, nil, fmt.Errorf("%s: %s", u, response.Status)
			}
			return response, u, nil
		}
		location := response.Header.Get("Location")
		next, err := u.Parse(location)
		if err != nil || len(location) > mostURL || next.Scheme != "http" && next.Scheme != "https" || next.Hostname() == "" {
			return nil, nil, fmt.Errorf("%s: %s to nowhere", u, response.Status)
		}
		next = normal(next)
		if !b.others && origin(next) != b.home {
			return nil, nil, fmt.Errorf("%s redirects to %s, another origin: name that page, or allow other origins", u, origin(next))
		}
		u = next
	}
	return nil, nil, fmt.Errorf("%s: more than %d redirects", u, mostRedirects)
}

func redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// request asks for one URL and reads the body. Only what a 2xx brings goes to the sink.
func (b *browser) request(ctx context.Context, u *url.URL, to sink) (*http.Response, error) {
	// A connection that the server has just closed is replaced by another one without a
	// word; that is seen by there being two.
	connections, remote := 0, ""
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		connections++
		remote = i.Conn.RemoteAddr().String()
	}})
	request := (&http.Request{
		Method: http.MethodGet, URL: u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Accept": {accepted}, "Accept-Encoding": {"gzip"}, "User-Agent": {"taper"}},
	}).WithContext(ctx)
	response, err := b.transport.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", u, err)
	}
	defer response.Body.Close()
	into := io.Discard
	if response.StatusCode >= 200 && response.StatusCode < 300 {
		into = to(servedBy(response, remote), response)
	}
	if err := drain(response.Body, into, b.maxBytes); err != nil {
		return nil, fmt.Errorf("%s: %w", u, err)
	}
	if connections > 1 {
		return nil, fmt.Errorf("%s: the connection was closed when it was asked for, and it came over another", u)
	}
	return response, nil
}

// servedBy is who sent a response.
func servedBy(response *http.Response, remote string) string {
	name := response.Header.Get(AgentHeader)
	if name == "" {
		return remote
	}
	return name[:min(len(name), mostName)]
}

var buffers = sync.Pool{New: func() any { b := make([]byte, readBytes); return &b }}

// drain reads a body into a buffer that is used again, and shows its parts.
func drain(body io.Reader, to io.Writer, most int64) error {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	var got int64
	for {
		n, err := body.Read(*buffer)
		if got += int64(n); got > most {
			return fmt.Errorf("it has more than %d bytes", most)
		}
		if _, failed := to.Write((*buffer)[:n]); failed != nil {
			return failed
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
