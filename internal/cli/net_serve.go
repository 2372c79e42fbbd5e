package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/pageload"
	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/agent"
)

// netServe holds the flags of `taper net serve`.
type netServe struct {
	listen         string
	tokenFile      string
	cert, key      string
	peerTLS        bool
	peerCA         string
	duration       time.Duration
	bytes          int64
	sessions       int
	peers, targets []string
	node, path     string
	page           string
	pageBytes      int
	verbose        bool
}

func newNetServe() *cobra.Command {
	c := &netServe{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "The far end of measurements: an agent, until Ctrl-C",
		Long: `Runs an agent: the far end of what taper net test and taper net matrix measure. It
takes one port, for TCP and UDP, and measures for one at a time.

Who asks must know its token, which is never sent; without a token it listens on the
loopback only. Duration, bytes, sessions and peers are limited, so that it can be left
running.`,
		Example: `  openssl rand -hex 16 > token
  taper net serve --token-file token
  taper net serve --listen 127.0.0.1:4000            # for this machine only
  taper net serve --token-file token --peers 10.0.0.0/8 --max-duration 10s
  taper net serve --token-file token --page :8080    # and a page for taper net page`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&c.listen, "listen", "", "HOST:PORT to listen on (default :4000 with a token, 127.0.0.1:4000 without)")
	f.StringVar(&c.tokenFile, "token-file", "", "file with the token (else the environment variable "+tokenVariable+")")
	f.StringVar(&c.cert, "tls-cert", "", "file with the certificate for the control connection, PEM")
	f.StringVar(&c.key, "tls-key", "", "file with its key, PEM")
	f.BoolVar(&c.peerTLS, "peer-tls", false, "reach other agents with TLS, when told to measure to them")
	f.StringVar(&c.peerCA, "peer-ca", "", "file with the certificates to trust then, PEM; without it the system's")
	f.DurationVar(&c.duration, "max-duration", 10*time.Minute, "the longest trial")
	f.Int64Var(&c.bytes, "max-bytes", 1e12, "the most bytes that a trial may carry")
	f.IntVar(&c.sessions, "max-sessions", 64, "how many may be connected at once")
	f.StringSliceVar(&c.peers, "peers", nil, "addresses that may ask, such as 10.0.0.0/8 (default all)")
	f.StringSliceVar(&c.targets, "targets", nil, "addresses to which the agent may be told to measure (default all)")
	f.StringVar(&c.node, "node", "", "name of the node, where that is not the host's name")
	f.StringVar(&c.path, "path", string(probe.HostPath), "what leads here: host, pod, service or balancer")
	f.StringVar(&c.page, "page", "", "HOST:PORT to serve a page on, for taper net page; whoever reaches it may load it")
	f.IntVar(&c.pageBytes, "page-script-bytes", pageload.DefaultScriptBytes, "size of the page's script, as compressed")
	f.BoolVar(&c.verbose, "verbose", false, "log each trial")
	return cmd
}

func (c *netServe) run(cmd *cobra.Command) error {
	options, err := c.options(cmd)
	if err != nil {
		return command.Usagef("%w; see taper net serve --help", err)
	}
	page, err := c.listenPage(options.Host.Node)
	if err != nil {
		return err
	}
	server, err := agent.Listen(cmd.Context(), options)
	if err != nil {
		page.close()
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "Listening on %s, TCP and UDP; Ctrl-C ends it\n", server.Addr())
	if page == nil {
		return server.Serve(cmd.Context())
	}
	fmt.Fprintf(cmd.OutOrStdout(), "Serving a page on http://%s/\n", page.listener.Addr())
	// One does not go on without the other.
	all, ctx := errgroup.WithContext(cmd.Context())
	all.Go(func() error { return server.Serve(ctx) })
	all.Go(func() error { return pageload.Serve(ctx, page.listener, page.handler) })
	return all.Wait()
}

// servedPage is a page, and where it is served.
type servedPage struct {
	listener net.Listener
	handler  http.Handler
}

func (p *servedPage) close() {
	if p != nil {
		_ = p.listener.Close() // nobody was let in yet
	}
}

// listenPage is nil if no page is asked for.
func (c *netServe) listenPage(name string) (*servedPage, error) {
	if c.page == "" {
		if c.pageBytes != pageload.DefaultScriptBytes {
			return nil, command.Usagef("--page-script-bytes is for --page; see taper net serve --help")
		}
		return nil, nil
	}
	if name == "" {
		name, _ = os.Hostname() // without a name its address tells it from others
	}
	handler, err := pageload.Page(pageload.PageOptions{Name: name, ScriptBytes: c.pageBytes})
	if err != nil {
		return nil, command.Usagef("%w; see taper net serve --help", err)
	}
	listener, err := net.Listen("tcp", c.page)
	if err != nil {
		return nil, fmt.Errorf("listening for the page: %w; --page names another address", err)
	}
	return &servedPage{listener, handler}, nil
}

func (c *netServe) options(cmd *cobra.Command) (agent.Options, error) {
	level := slog.LevelWarn
	if c.verbose {
		level = slog.LevelInfo
	}
	o := agent.Options{
		Address: c.listen,
		Limits:  agent.Limits{Duration: c.duration, Bytes: c.bytes, Sessions: c.sessions},
		Logger:  slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level})),
		Host:    probe.Host{Version: command.Version(version), Node: c.node},
	}
	for _, limit := range []struct {
		name  string
		value int64
	}{{"--max-duration", int64(c.duration)}, {"--max-bytes", c.bytes}, {"--max-sessions", int64(c.sessions)}} {
		if limit.value <= 0 {
			return o, fmt.Errorf("%s must be more than 0", limit.name)
		}
	}
	var err error
	if o.Token, err = readToken(c.tokenFile); err != nil {
		return o, err
	}
	if o.Address == "" {
		o.Address = "127.0.0.1:4000"
		if o.Token != "" {
			o.Address = ":4000"
		}
	}
	if o.Host.Path, err = parsePath(c.path); err != nil {
		return o, err
	}
	if o.Limits.Peers, err = parsePrefixes("--peers", c.peers); err != nil {
		return o, err
	}
	if o.Limits.Targets, err = parsePrefixes("--targets", c.targets); err != nil {
		return o, err
	}
	if o.TLS, err = serverTLS(c.cert, c.key); err != nil {
		return o, err
	}
	if c.peerCA != "" && !c.peerTLS {
		return o, errors.New("--peer-ca is for --peer-tls")
	}
	if c.peerTLS {
		o.PeerTLS, err = clientTLS(c.peerCA)
	}
	return o, err
}

func parsePath(name string) (probe.Path, error) {
	for _, p := range probe.Paths {
		if name == string(p) {
			return p, nil
		}
	}
	return "", fmt.Errorf("there is no path %q: the paths are %v", name, probe.Paths)
}

// parsePrefixes reads addresses with or without the length of a prefix.
func parsePrefixes(flag string, texts []string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil {
			prefixes = append(prefixes, netip.PrefixFrom(a, a.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is no address and no prefix such as 10.0.0.0/8", flag, text)
		}
		prefixes = append(prefixes, p)
	}
	return prefixes, nil
}

func serverTLS(cert, key string) (*tls.Config, error) {
	if cert == "" && key == "" {
		return nil, nil
	}
	if cert == "" || key == "" {
		return nil, errors.New("--tls-cert and --tls-key go together")
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}}, nil
}

func clientTLS(ca string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	if ca == "" {
		return config, nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("reading the certificates to trust: %w", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("there is no PEM certificate in %s", ca)
	}
	return config, nil
}
