package resourcemetrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
)

const (
	// maxAnswer bounds what is read of one answer: 15,000 pods of one namespace fit.
	// Decoded it takes some ten times as much.
	maxAnswer = 8 << 20
	// maxWait ends a call of a caller who set no deadline.
	maxWait = 30 * time.Second
	// maxQuote bounds what an error quotes of an answer.
	maxQuote = 200
	// maxNamed bounds how many namespaces and causes an error names.
	maxNamed = 3
)

// client is the typed client of the API with bounds.
type client struct {
	api metricsclient.PodMetricsesGetter
}

func newClient(config *rest.Config) (*client, error) {
	own := rest.CopyConfig(config)
	// The stock limit of 5 calls a second would take minutes for a thousand namespaces.
	own.QPS, own.RateLimiter = -1, nil
	// Decoding takes a fifth of the time that it takes for JSON.
	own.ContentType = runtime.ContentTypeProtobuf
	own.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if own.Timeout <= 0 {
		own.Timeout = maxWait
	}
	own.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next} })
	api, err := metricsclient.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("a client for metrics.k8s.io: %w", err)
	}
	return &client{api: api}, nil
}

// list returns the metrics of all pods of a namespace. The API has no pages.
func (c *client) list(ctx context.Context, namespace string) (*v1beta1.PodMetricsList, error) {
	list, err := c.api.PodMetricses(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, explain(err)
	}
	return list, nil
}

// explain says what an error of the API means and what cures it.
func explain(err error) error {
	switch {
	case errors.Is(err, errTooLong):
		return errTooLong
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return causeError{"no answer in time", err}
	case apierrors.IsForbidden(err):
		return causeError{`not allowed: grant the verb "list" on "pods" of the API group "metrics.k8s.io"`, err}
	case apierrors.IsUnauthorized(err):
		return causeError{"the API server does not accept the credentials", err}
	case apierrors.IsNotFound(err):
		return causeError{"the API is not there: metrics-server is not installed", err}
	case apierrors.IsServiceUnavailable(err):
		return causeError{"metrics-server is not ready: see kubectl get apiservice v1beta1.metrics.k8s.io", err}
	}
	// The URL that net/http puts before its errors would make each one another cause.
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return causeError{firstLine(err.Error()), err}
}

// causeError says an API error in words of its own.
type causeError struct {
	text string
	err  error
}

func (e causeError) Error() string { return e.text }
func (e causeError) Unwrap() error { return e.err }

// failure is a namespace that was not read.
type failure struct {
	namespace string
	err       error
}

type failures []failure

// in puts the failures of the given number of namespaces into one error, which
// names each cause once.
func (f failures) in(namespaces int) error {
	slices.SortFunc(f, func(a, b failure) int { return strings.Compare(a.namespace, b.namespace) })
	var causes, errs = []string{}, []error{}
	affected := map[string][]string{}
	for _, one := range f {
		cause := one.err.Error()
		if affected[cause] == nil {
			causes, errs = append(causes, cause), append(errs, one.err)
		}
		affected[cause] = append(affected[cause], one.namespace)
	}
	parts := make([]string, 0, maxNamed)
	for _, cause := range causes[:min(len(causes), maxNamed)] {
		parts = append(parts, fmt.Sprintf("%s: %s", some(affected[cause]), cause))
	}
	if more := len(causes) - maxNamed; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d causes more", more))
	}
	return &partialError{
		text: fmt.Sprintf("reading metrics.k8s.io failed for %d of %d namespaces: %s", len(f), namespaces, strings.Join(parts, "; ")),
		errs: errs,
	}
}

// partialError keeps the causes beside the words for all of them.
type partialError struct {
	text string
	errs []error
}

func (e *partialError) Error() string   { return e.text }
func (e *partialError) Unwrap() []error { return e.errs }

// some shows a few of many names.
func some(names []string) string {
	shown := strings.Join(names[:min(len(names), maxNamed)], ", ")
	if more := len(names) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", shown, more)
	}
	return shown
}

// firstLine returns the first line that is not empty, bounded.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if len(line) > maxQuote {
		line = strings.ToValidUTF8(line[:maxQuote], "") + "…"
	}
	return strings.TrimSpace(line)
}

// errTooLong ends the reading of an answer.
var errTooLong = fmt.Errorf("the answer is longer than %d MiB; it is not used", maxAnswer>>20)

// bounded limits what is read of an answer, after it was decompressed: client-go
// itself reads answers of any size.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(req)
	if err == nil {
		resp.Body = &boundedBody{ReadCloser: resp.Body, left: maxAnswer}
	}
	return resp, err
}

type boundedBody struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left+1)])
	b.left -= n
	if b.left < 0 {
		return n, errTooLong
	}
	return n, err
}
