package promql

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	// maxAnswer bounds what is read of one answer. It is read as it arrives, so this
	// is for time rather than memory: values and times of 100,000 pods are 30 MB with
	// names of usual length.
	maxAnswer = 128 << 20
	// maxFailure bounds what is read of an answer that is none.
	maxFailure = 64 << 10
	// maxWait ends a request of a caller who set no deadline.
	maxWait = 30 * time.Second
	// maxQuote bounds what an error quotes, in bytes.
	maxQuote = 200
)

// client asks the API. It exists, rather than the API's own client, because that
// one holds whole answers in memory, several times over, follows redirects to login
// pages and does not know partial answers.
type client struct {
	base      *url.URL // without userinfo and query
	params    url.Values
	user      *url.Userinfo
	headers   map[string]string
	token     Secret
	tokenFile string
	http      *http.Client
	most      int64 // bytes of an answer
}

func newClient(cfg Config) (*client, error) {
	u, err := url.Parse(cfg.URL)
	// The cause stays out: it may quote a piece of a password.
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, errors.New("the store's URL is not usable; want http://HOST:PORT or https://HOST:PORT/PATH, special characters in a password percent-encoded")
	}
	params, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("the store's URL has a query that is not usable; want it percent-encoded, such as ?extra_label=cluster%3Da")
	}
	user, err := credentials(cfg, u.User)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if transport.TLSClientConfig, err = trust(cfg); err != nil {
		return nil, err
	}
	return &client{
		base:      address(u),
		params:    params,
		user:      user,
		headers:   cfg.Headers,
		token:     NewSecret(strings.TrimSpace(cfg.BearerToken.reveal())),
		tokenFile: cfg.BearerTokenFile,
		most:      maxAnswer,
		http: &http.Client{
			Transport:     transport,
			Timeout:       maxWait,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// address is what of a URL may be shown.
func address(u *url.URL) *url.URL {
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
}

// credentials returns the user, if that is how to authenticate.
func credentials(cfg Config, inURL *url.Userinfo) (*url.Userinfo, error) {
	if cfg.Username == "" && cfg.Password != (Secret{}) {
		return nil, errors.New("there is a password without a user; want both")
	}
	ways := 0
	for _, given := range []bool{inURL != nil, cfg.Username != "", cfg.BearerToken != (Secret{}), cfg.BearerTokenFile != ""} {
		if given {
			ways++
		}
	}
	if ways > 1 {
		return nil, errors.New("there is more than one of a user in the store's URL, a user, a bearer token and a bearer token file; want one of them")
	}
	if cfg.Username != "" {
		return url.UserPassword(cfg.Username, cfg.Password.reveal()), nil
	}
	return inURL, nil
}

// trust returns how the store's certificate is checked; nil for as usual.
func trust(cfg Config) (*tls.Config, error) {
	if len(cfg.CAPEM) == 0 && cfg.CAFile == "" && cfg.ServerName == "" {
		return nil, nil
	}
	t := &tls.Config{ServerName: cfg.ServerName, MinVersion: tls.VersionTLS12}
	pem, name := cfg.CAPEM, "the CA"
	if cfg.CAFile != "" {
		if len(cfg.CAPEM) > 0 {
			return nil, errors.New("there are both a CA and a CA file; want one of them")
		}
		var err error
		if pem, err = os.ReadFile(cfg.CAFile); err != nil {
			return nil, fmt.Errorf("reading the CA file: %w", err)
		}
		name = "CA file " + cfg.CAFile
	} else if len(pem) == 0 {
		return t, nil
	}
	t.RootCAs = x509.NewCertPool()
	if !t.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate; want PEM", name)
	}
	return t, nil
}

// query asks what the PromQL says now, by the store's own clock, which is the one
// its samples were stamped by. Each series is handed to take, with the values of
// the labels, while the answer arrives: what was taken counts only if no error is
// returned.
func (c *client) query(ctx context.Context, promql string, labels []string, take func(*series) error) (answer, error) {
	resp, err := c.ask(ctx, http.MethodPost, promql)
	// What forbids POST may allow GET, where a long query may not fit.
	if err == nil && (resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusMethodNotAllowed || resp.StatusCode == http.StatusNotImplemented) {
		resp.Body.Close()
		resp, err = c.ask(ctx, http.MethodGet, promql)
	}
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return answer{}, refusal(resp)
	}
	return c.read(resp, labels, take)
}

func (c *client) ask(ctx context.Context, method, promql string) (*http.Response, error) {
	u := c.base.JoinPath("api/v1/query")
	u.RawQuery = c.params.Encode()
	form := url.Values{"query": {promql}}
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader(form.Encode())
	} else {
		for name, values := range c.params {
			form[name] = slices.Concat(values, form[name])
		}
		u.RawQuery = form.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, withoutURL(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		// Not sent, but tells the transport to ask again when a kept connection
		// turns out to be closed: a query changes nothing.
		req.Header["Idempotency-Key"] = nil
	}
	if err := c.authorize(req); err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, withoutURL(err)
	}
	return resp, nil
}

func (c *client) authorize(req *http.Request) error {
	for name, value := range c.headers {
		req.Header.Set(name, value)
	}
	if c.user != nil {
		password, _ := c.user.Password()
		req.SetBasicAuth(c.user.Username(), password)
	}
	token := c.token.reveal()
	if c.tokenFile != "" {
		text, err := os.ReadFile(c.tokenFile)
		if err != nil {
			return fmt.Errorf("reading the bearer token: %w", err)
		}
		token = strings.TrimSpace(string(text))
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return nil
}

// read decodes what came with status 200, and tells what is wrong with it.
func (c *client) read(resp *http.Response, labels []string, take func(*series) error) (answer, error) {
	body := &body{from: resp.Body, most: c.most}
	buffered := bufio.NewReaderSize(body, 32<<10)
	start, _ := buffered.Peek(maxQuote)
	start = bytes.Clone(start)
	got, err := decode(buffered, labels, take)
	switch {
	case body.err != nil:
		return got, body.err
	case got.status == "error":
		return got, fmt.Errorf("the store answered %s: %s: %q", resp.Status, bounded(got.errorType), firstLine(got.failure))
	case got.status != "success":
		return got, fmt.Errorf("the answer is not one of the Prometheus API but %q: %q; is the URL's path right?", bounded(resp.Header.Get("Content-Type")), firstLine(string(start)))
	case err != nil:
		return got, fmt.Errorf("the answer cannot be used: %s", firstLine(err.Error()))
	}
	return got, got.complete()
}

// body bounds what is read of an answer, and keeps apart an answer that could not
// be read from one that is wrong.
type body struct {
	from io.Reader
	most int64
	got  int64
	err  error
}

func (b *body) Read(to []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.from.Read(to)
	if b.got += int64(n); b.got > b.most {
		b.err = fmt.Errorf("the answer is longer than %d MiB; want a selector that picks the services' endpoints only", b.most>>20)
		return 0, b.err
	}
	if err != nil && err != io.EOF {
		b.err = fmt.Errorf("reading the answer: %w", withoutURL(err))
		err = b.err
	}
	return n, err
}

// refusal tells why there is no answer, in words that lead to the cure.
func refusal(resp *http.Response) error {
	if resp.StatusCode/100 == 3 {
		return fmt.Errorf("the store answered %s; want the API itself, not a login page or an old address%s", resp.Status, target(resp))
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxFailure))
	if err != nil && len(text) == 0 {
		return fmt.Errorf("the store answered %s, and reading why: %w", resp.Status, withoutURL(err))
	}
	got, err := decode(bytes.NewReader(text), nil, func(*series) error { return nil })
	if err == nil && got.status == "error" {
		return fmt.Errorf("the store answered %s: %s: %q", resp.Status, bounded(got.errorType), firstLine(got.failure))
	}
	return fmt.Errorf("the store answered %s: %q%s", resp.Status, firstLine(string(text)), hint(resp.StatusCode))
}

// target names where a redirect leads, without what it carries.
func target(resp *http.Response) string {
	to, err := resp.Location()
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (redirect to %s)", bounded(address(to).String()))
}

func hint(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "; are the credentials right?"
	case http.StatusNotFound:
		return "; is the URL's path right? A VictoriaMetrics cluster wants /select/TENANT/prometheus"
	case http.StatusRequestURITooLong:
		return "; a proxy forbids POST, and the query does not fit into a URL"
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return "; the store or a proxy before it is not ready"
	}
	return ""
}

// withoutURL drops the URL that net/http puts before its errors: what it shows
// of a query may be secret, and the caller names the store already.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// firstLine returns the first line that is not empty, bounded.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(bounded(line))
}

func bounded(text string) string {
	if len(text) <= maxQuote {
		return text
	}
	return strings.ToValidUTF8(text[:maxQuote], "") + "…"
}
