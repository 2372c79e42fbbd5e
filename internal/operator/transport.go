package operator

import (
	"net/http"
	"time"
)

// watchAgain is the pause between two tries to reach an API server for a watch.
const watchAgain = 500 * time.Millisecond

// patient is a transport on which a watch waits until the API server can be reached.
// A watch that fails makes client-go back off, for ever longer: after an outage of five
// seconds a change could take a dozen more to be seen, and an endpoint that left got
// requests for as long. Few watches ask, and an API server that is not there is not
// spared by asking less.
type patient struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (p patient) RoundTrip(request *http.Request) (*http.Response, error) {
	for {
		response, err := p.RoundTripper.RoundTrip(request)
		if err == nil || request.Method != http.MethodGet || !request.URL.Query().Has("watch") {
			return response, err
		}
		select {
		case <-request.Context().Done():
			return nil, err
		case <-time.After(watchAgain):
		}
	}
}
