package credentials

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// lifeLeft is the remaining life of the credentials that are served at now.
func lifeLeft(t *testing.T, i *Issuer, now time.Time) time.Duration {
	t.Helper()
	i.now = func() time.Time { return now }
	w := httptest.NewRecorder()
	i.ServeHTTP(w, httptest.NewRequest(http.MethodGet, credentialsPath+role, http.NoBody))
	var answer struct{ Expiration time.Time }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return answer.Expiration.Sub(now)
}

// As with KIAM, what is served has never less than the refresh time left to live, and
// never more than the session.
func TestIssuerServesAsKIAM(t *testing.T) {
	t.Parallel()
	i := NewIssuer(0, 15*time.Minute, 5*time.Minute)
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for minute, want := range map[int]time.Duration{0: 15, 4: 11, 10: 5, 11: 15, 20: 6} {
		i.expires = time.Time{}
		lifeLeft(t, i, start)
		if minute > 11 {
			lifeLeft(t, i, start.Add(11*time.Minute)) // issued anew
		}
		if got := lifeLeft(t, i, start.Add(time.Duration(minute)*time.Minute)); got != want*time.Minute {
			t.Errorf("after %d minutes there are %v left, want %d minutes", minute, got, want)
		}
	}
	i.Restart(time.Hour)
	if got := lifeLeft(t, i, start); got != time.Hour {
		t.Errorf("with longer sessions there are %v left, want an hour", got)
	}
}

func TestIssuerNamesTheRole(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]struct {
		status int
		body   string
	}{
		credentialsPath:           {http.StatusOK, role},
		credentialsPath + "other": {http.StatusNotFound, "404 page not found\n"},
		"/":                       {http.StatusNotFound, "404 page not found\n"},
	} {
		w := httptest.NewRecorder()
		NewIssuer(time.Millisecond, time.Hour, 0).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		if w.Code != want.status || w.Body.String() != want.body {
			t.Errorf("%s: %d %q, want %d %q", path, w.Code, w.Body, want.status, want.body)
		}
	}
}

func TestImpossibleOptions(t *testing.T) {
	t.Parallel()
	if err := DefaultOptions().Validate(); err != nil {
		t.Fatalf("the defaults: %v", err)
	}
	for name, change := range map[string]func(*Options){
		"a session of seconds":    func(o *Options) { o.Session = 10 * time.Second },
		"a refresh that is later": func(o *Options) { o.Refresh = o.Session },
		"no requests":             func(o *Options) { o.Rate = 0 },
		"no time":                 func(o *Options) { o.Measure = 0 },
		"answers of the past":     func(o *Options) { o.Delay = -1 },
		"no service":              func(o *Options) { o.Launcher = "" },
	} {
		o := DefaultOptions()
		change(&o)
		if o.Validate() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
