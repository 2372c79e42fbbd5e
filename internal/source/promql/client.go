package promql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
)

const (
	// maxAnswer bounds what is read of one answer: 50,000 endpoints fit, and a
	// file server at the wrong URL does not fill the memory.
	maxAnswer = 8 << 20
	// maxWait ends a request of a caller who set no deadline.
	maxWait = 30 * time.Second
	// maxQuote bounds what an error quotes of an answer.
	maxQuote = 200
)

// client is the transport under the API's client. It exists, rather than the
// stock one, because that one reads answers of any size, follows redirects to
// login pages and does not know partial answers.
type client struct {
	base      *url.URL // without userinfo and query
	query     string
	user      *url.Userinfo
	headers   map[string]string
	tokenFile string
	http      *http.Client
}

func newClient(cfg Config) (*client, error) {
	u, err := url.Parse(cfg.URL)
	// The cause stays out: it may quote a piece of a password.
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, errors.New("the store's URL is not usable; want http://HOST:PORT or https://HOST:PORT/PATH, special characters in a password percent-encoded")
	}
	if u.User != nil && cfg.BearerTokenFile != "" {
		return nil, errors.New("the store's URL has a user and there is a bearer token file as well; want one of them")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if cfg.CAFile != "" {
		if transport.TLSClientConfig, err = trust(cfg.CAFile); err != nil {
			return nil, err
		}
	}
	return &client{
		base:      &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path},
		query:     u.RawQuery,
		user:      u.User,
		headers:   cfg.Headers,
		tokenFile: cfg.BearerTokenFile,
		http: &http.Client{
			Transport:     transport,
			Timeout:       maxWait,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func trust(caFile string) (*tls.Config, error) {
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("reading the CA file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("CA file %s has no certificate; want PEM", caFile)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// URL implements the API client's interface.
func (c *client) URL(endpoint string, _ map[string]string) *url.URL {
	u := c.base.JoinPath(endpoint)
	u.RawQuery = c.query
	return u
}

// Do implements the API client's interface. The response is returned beside an
// error too: by its status the API's client falls back from POST to GET.
func (c *client) Do(ctx context.Context, req *http.Request) (*http.Response, []byte, error) {
	req = req.WithContext(ctx)
	if err := c.authorize(req); err != nil {
		return nil, nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, nil, withoutURL(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return resp, nil, fmt.Errorf("reading the answer: %w", withoutURL(err))
	}
	if len(body) > maxAnswer {
		return resp, nil, fmt.Errorf("the answer is longer than %d MiB; want a selector that picks the service's endpoints only", maxAnswer>>20)
	}
	return resp, body, check(resp, body)
}

func (c *client) authorize(req *http.Request) error {
	for name, value := range c.headers {
		req.Header.Set(name, value)
	}
	if c.user != nil {
		password, _ := c.user.Password()
		req.SetBasicAuth(c.user.Username(), password)
	}
	if c.tokenFile != "" {
		token, err := os.ReadFile(c.tokenFile)
		if err != nil {
			return fmt.Errorf("reading the bearer token: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	return nil
}

// envelope is what surrounds every answer of the API.
type envelope struct {
	Status    string `json:"status"`
	ErrorType string `json:"errorType"`
	Error     string `json:"error"`
	// IsPartial is how VictoriaMetrics says that some of its storage did not answer.
	IsPartial bool `json:"isPartial"`
}

// check tells what is wrong with an answer, in words that lead to the cure.
func check(resp *http.Response, body []byte) error {
	var e envelope
	switch err := json.Unmarshal(body, &e); {
	case resp.StatusCode/100 == 3:
		return fmt.Errorf("the store answered %s; want the API itself, not a login page or an old address%s", resp.Status, target(resp))
	case err == nil && e.Status == "error":
		return fmt.Errorf("the store answered %s: %s: %q", resp.Status, e.ErrorType, firstLine(e.Error))
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("the store answered %s: %q%s", resp.Status, firstLine(string(body)), hint(resp.StatusCode))
	case err != nil || e.Status != "success":
		return fmt.Errorf("the answer is not one of the Prometheus API but %q: %q; is the URL's path right?", resp.Header.Get("Content-Type"), firstLine(string(body)))
	case e.IsPartial:
		return errors.New("the answer is partial: some of the store did not reply; an answer that may lack series is not used")
	}
	return nil
}

// target names where a redirect leads, without what it carries.
func target(resp *http.Response) string {
	to, err := resp.Location()
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (redirect to %s://%s%s)", to.Scheme, to.Host, to.EscapedPath())
}

func hint(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "; are the credentials right?"
	case http.StatusNotFound:
		return "; is the URL's path right? A VictoriaMetrics cluster wants /select/TENANT/prometheus"
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return "; the store or a proxy before it is not ready"
	}
	return ""
}

// explain puts an error of the API's own client, which has seen what check has
// let pass, into one line.
func explain(err error) error {
	if e, ok := errors.AsType[*v1.Error](err); ok {
		return fmt.Errorf("the answer is not one of the Prometheus API: %s", firstLine(e.Msg))
	}
	return err
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
	if len(line) > maxQuote {
		line = strings.ToValidUTF8(line[:maxQuote], "") + "…"
	}
	return strings.TrimSpace(line)
}
