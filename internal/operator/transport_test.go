package operator

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// outage is a transport that fails until a time.
type outage struct {
	until time.Time
	tries int
}

func (o *outage) RoundTrip(*http.Request) (*http.Response, error) {
	o.tries++
	if time.Now().Before(o.until) {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: http.StatusOK}, nil
}

func TestWatchesWaitForTheAPIServer(t *testing.T) {
	for name, test := range map[string]struct {
		method, url string
		patience    time.Duration
		tries       int
		ok          bool
	}{
		"watch":           {http.MethodGet, "http://h/api/v1/pods?watch=true", time.Minute, 11, true},
		"watch, given up": {http.MethodGet, "http://h/api/v1/pods?watch=true", 2 * time.Second, 4, false},
		"list":            {http.MethodGet, "http://h/api/v1/pods", time.Minute, 1, false},
		"write":           {http.MethodPatch, "http://h/api/v1/pods/a?watch=true", time.Minute, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.patience-time.Millisecond)
				defer cancel()
				request, err := http.NewRequestWithContext(ctx, test.method, test.url, nil)
				if err != nil {
					t.Fatal(err)
				}
				o := &outage{until: time.Now().Add(5 * time.Second)}
				response, err := patient{o}.RoundTrip(request)
				if (err == nil) != test.ok || test.ok && response.StatusCode != http.StatusOK || o.tries != test.tries {
					t.Errorf("%v after %d tries; want success: %t, after %d", err, o.tries, test.ok, test.tries)
				}
			})
		})
	}
}
