package pageload

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"taper.dev/taper/internal/probe"
)

// Target is one way to the page.
type Target struct {
	// Name tells it from the others.
	Name string
	URL  string
	// Connect is HOST:PORT to connect to in the place of the URL's: to one server behind
	// the balancer that is asked for the same page, by the same name. Empty connects to
	// the URL's.
	Connect string
}

// Options say what is loaded, and by how many.
type Options struct {
	// Targets are the ways to the page, the first through the balancer if there is one.
	Targets []Target
	// MaxUsers is how many users there are at most, Step for how long each number of them
	// is measured.
	MaxUsers int
	Step     time.Duration
	// Timeout is how long a page may take.
	Timeout time.Duration
	// MaxObjects is how many objects of a page are loaded at most, MaxObjectBytes how much
	// of each as sent.
	MaxObjects     int
	MaxObjectBytes int64
	// OtherOrigins loads what a page references on other hosts, too.
	OtherOrigins bool
	// TLS is for connections to https URLs; nil trusts what the system trusts.
	TLS *tls.Config
	// Seed decides the order of targets; 0 takes another one each time.
	Seed uint64
}

// Defaults, where an option is 0.
const (
	DefaultMaxUsers       = 256
	DefaultStep           = 5 * time.Second
	DefaultTimeout        = 30 * time.Second
	DefaultMaxObjects     = 200
	DefaultMaxObjectBytes = 64 << 20
)

// The most that may be asked for, and the least: a step needs some bins.
const (
	mostUsers   = 1 << 14
	leastStep   = 5 * probe.BinWidth
	mostObjects = 10000
)

func (o Options) withDefaults() Options {
	o.MaxUsers = cmp.Or(o.MaxUsers, DefaultMaxUsers)
	o.Step = cmp.Or(o.Step, DefaultStep)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.MaxObjects = cmp.Or(o.MaxObjects, DefaultMaxObjects)
	o.MaxObjectBytes = cmp.Or(o.MaxObjectBytes, DefaultMaxObjectBytes)
	return o
}

// Validate says what is wrong, all at once. An option that is 0 has its default.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(o.Targets) == 0 {
		wrong("there is no page to load")
	}
	names := map[string]bool{}
	for _, t := range o.Targets {
		if names[t.Name] {
			wrong("two ways to the page are called %q: give them names of their own", t.Name)
		}
		names[t.Name] = true
		if _, err := t.parse(); err != nil {
			errs = append(errs, err)
		}
	}
	if o.MaxUsers < 1 || o.MaxUsers > mostUsers {
		wrong("%d users are not possible: there must be 1 to %d", o.MaxUsers, mostUsers)
	}
	if o.Step < leastStep || o.Step > probe.MaxDuration {
		wrong("steps of %v are not possible: they must take %v to %v", o.Step, leastStep, probe.MaxDuration)
	}
	if o.Timeout < 0 || o.Timeout > probe.MaxDuration {
		wrong("waiting %v for a page is not possible: it must be more than 0, and at most %v", o.Timeout, probe.MaxDuration)
	}
	if o.MaxObjects < 1 || o.MaxObjects > mostObjects {
		wrong("%d objects of a page are not possible: there must be 1 to %d", o.MaxObjects, mostObjects)
	}
	if o.MaxObjectBytes < 1 {
		wrong("objects of %d bytes are not possible: there must be at least 1", o.MaxObjectBytes)
	}
	return errors.Join(errs...)
}

// parse is the URL, of a kind that can be loaded.
func (t Target) parse() (*url.URL, error) {
	u, err := url.Parse(t.URL)
	if err != nil {
		// What the parser says repeats the URL, with what may be secret in it.
		return nil, fmt.Errorf("the URL of %q cannot be read: it should be like http://HOST:PORT/PATH", t.Name)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, fmt.Errorf("%q is no page: a URL is like http://HOST:PORT/PATH", u.Redacted())
	}
	if u.User != nil {
		return nil, fmt.Errorf("%s has a password in it, which would stand in reports: such pages are not loaded", u.Redacted())
	}
	if t.Connect != "" {
		if _, _, err := net.SplitHostPort(t.Connect); err != nil {
			return nil, fmt.Errorf("%q is not an address to connect to, such as 10.0.0.2:8080", t.Connect)
		}
	}
	return normal(u), nil
}

// normal is a URL as it is asked for.
func normal(u *url.URL) *url.URL {
	u.User, u.Fragment, u.RawFragment, u.Host = nil, "", "", strings.ToLower(u.Host)
	if u.Path == "" {
		u.Path = "/"
	}
	return u
}

// origin is scheme, host and port: what a browser keeps apart.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(u.Hostname(), port)
}
