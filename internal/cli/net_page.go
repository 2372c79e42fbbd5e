package cli

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/pageload"
)

// netPage holds the flags of `taper net page`.
type netPage struct {
	direct  []string
	ca      string
	options pageload.Options
	output  netOutput
}

func newNetPage() *cobra.Command {
	c := &netPage{}
	cmd := &cobra.Command{
		Use:   "page URL",
		Short: "Load a page with more and more users, and say which hop is full",
		Long: `Loads a page and what it references as browsers do (a new user has an empty cache
and new connections, at most six to a host, or HTTP/2), with 1, 2, 4, 8 … users until
throughput stops growing.

With --direct the servers behind the load balancer are loaded past it in turn with the
page through it. What is full is then known: the balancer, if less comes through it than
the servers give one by one; the servers; or the machine on which this runs, and then
nothing is said about the others.

This is load: ask who runs the page. It goes to the page's own host (and to those given
by --direct) only, unless --other-origins is given.`,
		Example: `  taper net page https://shop.example.com/
  taper net page http://10.0.0.1/ --direct web-1=10.0.0.2:8080 --direct web-2=10.0.0.3:8080
  taper net page https://shop.example.com/ --direct canary=https://canary.example.com/ --report page.html
  taper net serve --page :8080      # a page to try this on`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args) },
	}
	f, o := cmd.Flags(), &c.options
	f.StringArrayVar(&c.direct, "direct", nil, "[NAME=]HOST:PORT of a server behind the balancer, to be asked for the same page, or [NAME=]URL of one that has it elsewhere; can be given several times")
	f.IntVar(&o.MaxUsers, "users-max", pageload.DefaultMaxUsers, "how many users there are at most")
	f.DurationVar(&o.Step, "step", pageload.DefaultStep, "how long each number of users is measured")
	f.DurationVar(&o.Timeout, "timeout", pageload.DefaultTimeout, "how long a page may take")
	f.IntVar(&o.MaxObjects, "objects-max", pageload.DefaultMaxObjects, "how many objects of the page are loaded at most")
	f.Int64Var(&o.MaxObjectBytes, "object-bytes-max", pageload.DefaultMaxObjectBytes, "how many bytes of each are loaded at most")
	f.BoolVar(&o.OtherOrigins, "other-origins", false, "load what the page references on other hosts, too")
	f.StringVar(&c.ca, "ca", "", "file with the certificates to trust, PEM; without it the system's")
	f.Uint64Var(&o.Seed, "seed", 0, "decides the order in which page and servers take turns (default another each time)")
	c.output.flags(cmd)
	return cmd
}

func (c *netPage) run(cmd *cobra.Command, args []string) error {
	if err := c.complete(args); err != nil {
		return command.Usagef("%w; see taper net page --help", err)
	}
	if err := c.output.writable(); err != nil {
		return err
	}
	line := newProgressLine(cmd.ErrOrStderr())
	defer line.Clear()
	load, err := pageload.Run(cmd.Context(), c.options, line.Show)
	line.Clear()
	if err != nil {
		return err
	}
	if err := c.output.pageLoad(cmd, load); err != nil {
		return err
	}
	if first := load.Targets[0]; len(first.Steps) == 0 && first.Problem != "" {
		return fmt.Errorf("the page itself was not measured: %s", first.Problem)
	}
	if load.Incomplete != "" {
		return notWhole(load.Incomplete)
	}
	return nil
}

// complete checks what can be checked before anybody is asked.
func (c *netPage) complete(args []string) error {
	switch len(args) {
	case 0:
		return errors.New("no page: give its URL, such as http://10.0.0.1/")
	case 1:
	default:
		return fmt.Errorf("%d pages are given, and one is measured at a time: give servers behind it with --direct", len(args))
	}
	o := &c.options
	for _, flag := range []struct {
		name string
		zero bool
	}{
		{"--users-max", o.MaxUsers == 0}, {"--step", o.Step == 0}, {"--timeout", o.Timeout == 0},
		{"--objects-max", o.MaxObjects == 0}, {"--object-bytes-max", o.MaxObjectBytes == 0},
	} {
		if flag.zero {
			return fmt.Errorf("%s must be more than 0", flag.name)
		}
	}
	page := pageload.Target{Name: "page", URL: args[0]}
	if len(c.direct) > 0 {
		page.Name = "balancer"
	}
	o.Targets = []pageload.Target{page}
	for _, text := range c.direct {
		t, err := directTarget(text, page.URL)
		if err != nil {
			return err
		}
		o.Targets = append(o.Targets, t)
	}
	if c.ca != "" {
		var err error
		if o.TLS, err = clientTLS(c.ca); err != nil {
			return err
		}
		// Unlike agents, servers of pages may know nothing newer.
		o.TLS.MinVersion = tls.VersionTLS12
	}
	return o.Validate()
}

// directTarget reads a --direct.
func directTarget(text, page string) (pageload.Target, error) {
	name, where := "", text
	// A URL without a name may have a "=" as well, further on.
	if before, after, ok := strings.Cut(text, "="); ok && !strings.ContainsAny(before, ":/?") {
		name, where = before, after
	}
	t := pageload.Target{Name: name, URL: where}
	host := where
	if strings.Contains(where, "://") {
		if u, err := url.Parse(where); err == nil {
			host = u.Host
		}
	} else {
		t.URL, t.Connect = page, where
	}
	if where == "" {
		return t, fmt.Errorf("--direct %s names no server: it is NAME=HOST:PORT or NAME=URL", text)
	}
	if t.Name == "" {
		t.Name = host
	}
	return t, nil
}
