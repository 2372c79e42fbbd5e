package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
)

// Remote writes to a store by the Prometheus remote write protocol, version 1.0
// (https://prometheus.io/docs/specs/prw/remote_write_spec/), such as VictoriaMetrics'
// /api/v1/write. Get one from [NewRemote].
type Remote struct {
	url    *url.URL // without user and password
	auth   string   // the header, or none
	secret []string // what must not be shown
	client *http.Client
	// first is the pause before the second attempt.
	first time.Duration
}

// RemoteOptions say where and as whom to write.
type RemoteOptions struct {
	URL string
	// TokenFile has a bearer token. PasswordFile has the password of User.
	TokenFile, User, PasswordFile string
}

const (
	// remoteWithin is how long all of it may take, attemptWithin one request.
	remoteWithin  = time.Minute
	attemptWithin = 20 * time.Second
	// attempts bounds how often a store is asked that is out of order.
	attempts   = 5
	firstPause = 500 * time.Millisecond
	mostPause  = 10 * time.Second
	// batch is how many samples a request has: stores refuse requests that are too large.
	batch = 2000
	// mostAnswer bounds what is read of a refusal, mostShown what is shown.
	mostAnswer, mostShown = 4 << 10, 200
	mostSecret            = 64 << 10
)

// NewRemote checks the options and reads the files.
func NewRemote(o RemoteOptions) (*Remote, error) {
	u, err := url.Parse(o.URL)
	// The text may have a password in it: it is not repeated.
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("--remote-write is no URL of a store: give one such as http://victoria-metrics:8428/api/v1/write")
	}
	if u.User != nil {
		return nil, errors.New("--remote-write has a user or password in it, which everybody on the machine can see: give --remote-write-user and --remote-write-password-file")
	}
	r := &Remote{url: u, first: firstPause, client: &http.Client{
		Timeout: attemptWithin,
		// A redirect would take the token elsewhere, or turn the request into another.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	switch {
	case o.TokenFile != "" && (o.User != "" || o.PasswordFile != ""):
		return nil, errors.New("--remote-write-token-file and --remote-write-user exclude each other")
	case (o.User != "") != (o.PasswordFile != ""):
		return nil, errors.New("--remote-write-user and --remote-write-password-file belong together")
	case o.TokenFile != "":
		token, err := secret(o.TokenFile)
		if err != nil {
			return nil, err
		}
		r.auth, r.secret = "Bearer "+token, []string{token}
	case o.User != "":
		password, err := secret(o.PasswordFile)
		if err != nil {
			return nil, err
		}
		var request http.Request
		request.Header = http.Header{}
		request.SetBasicAuth(o.User, password)
		r.auth = request.Header.Get("Authorization")
		r.secret = []string{password, strings.TrimPrefix(r.auth, "Basic ")}
	}
	return r, nil
}

// secret reads what a header can carry.
func secret(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading a secret for --remote-write: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mostSecret))
	if err != nil {
		return "", fmt.Errorf("reading a secret for --remote-write: %w", err)
	}
	text := strings.TrimSpace(string(b))
	if text == "" || strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return "", fmt.Errorf("there is no secret for --remote-write in %s: it is one line", path)
	}
	return text, nil
}

// where is the URL without its query, which may have a key in it.
func (r *Remote) where() string { return r.url.Scheme + "://" + r.url.Host + r.url.Path }

// Write writes the samples of a run. What a store refuses (4xx) is not tried again; what
// it cannot do now (5xx, 429) is, a few times.
func Write[T Kept](ctx context.Context, r *Remote, kept *T) error {
	ctx, cancel := context.WithTimeout(ctx, remoteWithin)
	defer cancel()
	all := samples(kept)
	for sent := 0; sent < len(all); sent += batch {
		part := prompb.WriteRequest{Timeseries: all[sent:min(sent+batch, len(all))]}
		body, err := part.Marshal()
		if err == nil {
			err = r.send(ctx, snappy.Encode(nil, body))
		}
		if err != nil {
			return fmt.Errorf("%d of %d samples were written to %s: %w", sent, len(all), r.where(), err)
		}
	}
	return nil
}

// send sends one request, again where that may help.
func (r *Remote) send(ctx context.Context, body []byte) error {
	pause := r.first
	for attempt := 1; ; attempt++ {
		retry, after, err := r.attempt(ctx, body)
		if err == nil || !retry || ctx.Err() != nil {
			return err
		}
		if attempt == attempts {
			return fmt.Errorf("given up after %d attempts: %w", attempts, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("given up after %d attempts, since time is up: %w", attempt, err)
		case <-time.After(min(max(pause, after), mostPause)):
		}
		pause *= 2
	}
}

// attempt sends one request once. after is how long the store wants to be left alone.
func (r *Remote) attempt(ctx context.Context, body []byte) (retry bool, after time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url.String(), bytes.NewReader(body))
	if err != nil {
		return false, 0, errors.New("the request cannot be made")
	}
	for name, value := range map[string]string{
		"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy",
		"X-Prometheus-Remote-Write-Version": "0.1.0", "User-Agent": "taper", "Authorization": r.auth,
	} {
		if value != "" {
			request.Header.Set(name, value)
		}
	}
	response, err := r.client.Do(request)
	if err != nil {
		var wrapped *url.Error // repeats the URL with its query
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return true, 0, err
	}
	defer response.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	code := response.StatusCode
	if code/100 == 2 {
		return false, 0, nil
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		after = time.Duration(min(seconds, int(mostPause/time.Second))) * time.Second
	}
	return code/100 == 5 || code == http.StatusTooManyRequests, after, fmt.Errorf("the store answered %d %s%s", code, http.StatusText(code), r.shown(answer))
}

// shown is the beginning of a refusal, in one line, without our secrets.
func (r *Remote) shown(answer []byte) string {
	text := strings.ToValidUTF8(string(answer), "?")
	for _, s := range append([]string{r.url.RawQuery}, r.secret...) {
		if s != "" {
			text = strings.ReplaceAll(text, s, "…")
		}
	}
	text = strings.Join(strings.Fields(text), " ")
	if text == "" {
		return ""
	}
	if runes := []rune(text); len(runes) > mostShown {
		text = string(runes[:mostShown]) + "…"
	}
	return ": " + strconv.Quote(text)
}
