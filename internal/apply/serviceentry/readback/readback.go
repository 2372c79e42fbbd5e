package readback

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// maxAnswer bounds what is read: some 100,000 endpoints, each known from two
	// sources, fit.
	maxAnswer = 256 << 20
	// maxWait ends a request of a caller who set no deadline.
	maxWait = 30 * time.Second
	// maxQuote bounds what an error quotes of an answer.
	maxQuote = 200
)

// Service is one that is asked for.
type Service struct {
	Namespace string
	// Host is the service's name in the mesh, such as fib.demo.svc.cluster.local.
	Host string
}

// Weights are what istiod serves from a service's ServiceEntries: by the name of the
// port, then by address. They are empty when istiod knows the service and no entry.
type Weights map[string]map[string]uint32

// Reader asks one istiod. It is safe for concurrent use.
type Reader struct {
	url   string
	token func(context.Context) (string, error)
	http  *http.Client
}

// New makes a Reader of the istiod at the base URL, such as
// http://istiod.istio-system:15014. The token goes with each request; nil is for an
// istiod that this process shares a host with, which asks for none.
func New(base string, token func(context.Context) (string, error)) (*Reader, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.User != nil || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, errors.New("the URL of istiod is not usable; want http://HOST:PORT or https://HOST:PORT, without a user")
	}
	return &Reader{
		url:   u.JoinPath("debug/endpointz").String(),
		token: token,
		http: &http.Client{
			Timeout:       maxWait,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Read returns what istiod serves for each of the services. One that istiod does not
// know is absent.
func (r *Reader) Read(ctx context.Context, services ...Service) (map[Service]Weights, error) {
	served, err := r.read(ctx, services)
	if err != nil {
		return nil, fmt.Errorf("reading from istiod at %s: %w", r.url, err)
	}
	return served, nil
}

func (r *Reader) read(ctx context.Context, services []Service) (map[Service]Weights, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return nil, err
	}
	if r.token != nil {
		token, err := r.token(ctx)
		if err != nil {
			return nil, fmt.Errorf("getting the token: %w", err)
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	}
	response, err := r.http.Do(request)
	if err != nil {
		return nil, withoutURL(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, refusal(response)
	}
	body := &bounded{from: response.Body, left: maxAnswer}
	served, err := decode(body, services)
	if err != nil {
		return nil, withoutURL(err)
	}
	return served, nil
}

// refusal says what an answer's status means, and what to do.
func refusal(response *http.Response) error {
	if response.StatusCode/100 == 3 { // what it says may lead elsewhere, with a secret
		return fmt.Errorf("it answered %s; want istiod itself, not a login page", response.Status)
	}
	hint := ""
	switch response.StatusCode {
	case http.StatusUnauthorized:
		hint = `; it wants a service account's token for the audience istio-ca`
	case http.StatusForbidden:
		hint = `; its debug interface is for the namespace of istiod itself and those in its variable DEBUG_ENDPOINT_AUTH_ALLOWED_NAMESPACES: add the operator's`
	case http.StatusNotFound:
		hint = `; is this the port 15014 of an istiod, and not ENABLE_DEBUG_ON_HTTP false?`
	}
	quote, _ := io.ReadAll(io.LimitReader(response.Body, maxQuote)) // what there is of it
	line, _, _ := strings.Cut(strings.TrimSpace(string(quote)), "\n")
	return fmt.Errorf("it answered %s: %q%s", response.Status, strings.ToValidUTF8(line, ""), hint)
}

// withoutURL drops the URL that net/http puts before its errors: the caller's error
// names it already.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// errTooLong is the end of an answer that is longer than allowed.
var errTooLong = fmt.Errorf("the answer is longer than %d MiB", maxAnswer>>20)

// bounded reads at most so many bytes, and fails beyond them rather than end.
type bounded struct {
	from io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
