package credentials

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

const (
	credentialsPath = "/latest/meta-data/iam/security-credentials/"
	role            = "search-reader"
)

// Issuer is a metadata service that behaves as KIAM does: it asks for sessions of one
// length, serves them until little of their life is left, and then asks again. Its
// credentials are of no use to anybody.
type Issuer struct {
	delay time.Duration
	now   func() time.Time

	mu               sync.Mutex
	session, refresh time.Duration
	expires          time.Time
}

// NewIssuer serves credentials after delay.
func NewIssuer(delay, session, refresh time.Duration) *Issuer {
	return &Issuer{delay: delay, now: time.Now, session: session, refresh: refresh}
}

// Restart begins anew, with sessions of another length.
func (i *Issuer) Restart(session time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.session, i.expires = session, time.Time{}
}

// expiry is when the credentials that are served now end.
func (i *Issuer) expiry() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.now()
	if i.expires.Sub(now) < i.refresh {
		i.expires = now.Add(i.session).UTC().Truncate(time.Second)
	}
	return i.expires
}

// ServeHTTP answers as version 1 of the instance metadata service.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-time.After(i.delay):
	case <-r.Context().Done():
		return
	}
	switch r.URL.Path {
	case credentialsPath:
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte(role)) // the client's trouble if it is gone
	case credentialsPath + role:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{
			"Code": "Success", "Type": "AWS-HMAC",
			"AccessKeyId": "ASIAEXAMPLEOFNOUSE00", "SecretAccessKey": "example-of-no-use", "Token": "example-of-no-use",
			"LastUpdated": i.now().UTC().Format(time.RFC3339),
			"Expiration":  i.expiry().Format(time.RFC3339),
		})
	default:
		http.NotFound(w, r)
	}
}
