package credentials

import (
	"errors"
	"fmt"
	"time"
)

// Options say what is run.
type Options struct {
	// Session is how long the credentials of the first half live when they are issued,
	// and Longer those of the second. Refresh is the life left below which the issuer gets
	// new ones.
	Session, Longer, Refresh time.Duration
	// Delay is how long the metadata service takes for an answer.
	Delay time.Duration
	// Search is how long the search engine takes.
	Search time.Duration
	// Rate is the requests per second, and Measure how long each half is captured.
	Rate    float64
	Measure time.Duration
	// Keep is a folder for the captures; they are not kept if it is empty.
	Keep string
	// Launcher is the command that starts the service.
	Launcher string
}

// Launcher starts the service; tools/fetch.sh builds it.
const Launcher = "taper-offers"

// DefaultOptions are the story's: KIAM's session and refresh, answers as slow as they
// have to be for requests to be ten times slower, and a request a second. With more of
// them requests also wait for each other, since the SDK fetches for one at a time.
func DefaultOptions() Options {
	return Options{
		Session: 15 * time.Minute, Longer: time.Hour, Refresh: 5 * time.Minute,
		Delay: 85 * time.Millisecond, Search: 18 * time.Millisecond,
		Rate: 1, Measure: 20 * time.Second, Launcher: Launcher,
	}
}

// Validate says what cannot be run.
func (o Options) Validate() error {
	switch {
	case o.Session < time.Minute || o.Longer < time.Minute:
		return fmt.Errorf("sessions of %v and %v: want at least a minute", o.Session, o.Longer)
	case o.Refresh < 0 || o.Refresh >= min(o.Session, o.Longer):
		return fmt.Errorf("refreshing at %v left: want it shorter than the sessions, %v and %v", o.Refresh, o.Session, o.Longer)
	case o.Delay < 0 || o.Delay > 5*time.Second || o.Search < 0 || o.Search > 5*time.Second:
		return fmt.Errorf("answers after %v and %v: want 0 to 5s", o.Delay, o.Search)
	case !(o.Rate > 0 && o.Rate <= 200):
		return fmt.Errorf("%v requests per second: want more than 0 and at most 200", o.Rate)
	case o.Measure < time.Second || o.Measure > 10*time.Minute:
		return fmt.Errorf("capturing for %v: want 1s to 10m", o.Measure)
	case o.Launcher == "":
		return errors.New("no command for the service")
	}
	return nil
}
