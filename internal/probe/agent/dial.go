package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// DialOptions are how an agent is reached.
type DialOptions struct {
	// Token is what the agent was started with.
	Token Token
	// TLS is for an agent that has it; nil is openly. The server's name is that which is
	// dialled, unless it says another.
	TLS *tls.Config
	// Family is 4 or 6 for the addresses of one family alone; 0 is both.
	Family int
	// Local is where connections come from; the zero address leaves it to the kernel.
	Local netip.Addr
	// Wait is how long trials wait while the agent is at another.
	Wait time.Duration
	// Timeout is for connecting; 5 seconds if it is 0.
	Timeout time.Duration
	// Release is taper's, as the agent shows it when versions differ.
	Release string

	lookup func(ctx context.Context, host string) ([]netip.Addr, error) // nil asks the resolver
	ends   endsOf                                                       // nil is the real ones
	pace   pace                                                         // zero is the default
}

const (
	defaultDialTimeout = 5 * time.Second
	// nextAddress is after how long the next address is tried beside one that does not
	// answer (RFC 8305, section 5: Connection Attempt Delay).
	nextAddress = 250 * time.Millisecond
)

// Dial connects to an agent at host or host:port, proves to know its token and has it
// prove the same.
func Dial(ctx context.Context, address string, options DialOptions) (*Client, error) {
	var keys keyring
	if options.Token != "" {
		keys = keyringOf(options.Token)
	}
	return dial(ctx, address, options, keys, nil)
}

func dial(ctx context.Context, address string, options DialOptions, keys keyring, may allowed) (*Client, error) {
	if options.Timeout == 0 {
		options.Timeout = defaultDialTimeout
	}
	if options.ends == nil {
		options.ends = realEnds
	}
	if options.pace == (pace{}) {
		options.pace = defaultPace
	}
	host, port, err := splitAddress(address)
	if err != nil {
		return nil, fmt.Errorf("agent %q: %w", address, err)
	}
	candidates, err := options.resolve(ctx, host, port, may)
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", address, err)
	}
	conn, err := options.race(ctx, candidates)
	if err != nil {
		return nil, err
	}
	peer := plainAddr(conn.RemoteAddr().(*net.TCPAddr).AddrPort())
	client, err := greetAgent(ctx, conn, host, options, keys)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("agent at %s: %w", named(host, peer), err)
	}
	for _, c := range candidates {
		if c != peer {
			client.other = append(client.other, c.Addr())
		}
	}
	return client, nil
}

// named is an address, with the name that led to it.
func named(host string, a netip.AddrPort) string {
	if host == "" || host == a.Addr().String() {
		return a.String()
	}
	return fmt.Sprintf("%v (%s)", a, host)
}

// resolve finds the addresses to try, families in turn, those that the resolver prefers
// first.
func (o DialOptions) resolve(ctx context.Context, host, port string, may allowed) ([]netip.AddrPort, error) {
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return nil, fmt.Errorf("port %s cannot be dialled: it must be 1 to 65535", port)
	}
	lookup := o.lookup
	if lookup == nil {
		lookup = lookUp
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	all, err := lookup(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("its name cannot be resolved: %w", err)
	}
	var found []netip.AddrPort
	var refused error
	for _, a := range inTurn(all) {
		if o.Family == 4 && !a.Is4() || o.Family == 6 && !a.Is6() {
			continue
		}
		if may != nil {
			if err := may(a); err != nil {
				refused = err
				continue
			}
		}
		found = append(found, netip.AddrPortFrom(a, uint16(number)))
	}
	switch {
	case len(found) > 0:
		return found, nil
	case refused != nil:
		return nil, refused
	case o.Family != 0:
		return nil, fmt.Errorf("it has no address of IPv%d, only %v", o.Family, all)
	}
	return nil, errors.New("its name has no address")
}

// lookUp asks the resolver, unless the host is an address itself: it would lose the zone.
func lookUp(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// inTurn orders addresses so that families alternate, each once.
func inTurn(all []netip.Addr) []netip.Addr {
	var families [2][]netip.Addr
	for _, a := range all {
		a = a.Unmap()
		i := 0
		if len(families[0]) > 0 && families[0][0].Is4() != a.Is4() {
			i = 1
		}
		if !slices.Contains(families[i], a) {
			families[i] = append(families[i], a)
		}
	}
	var out []netip.Addr
	for i := range max(len(families[0]), len(families[1])) {
		for _, f := range families {
			if i < len(f) {
				out = append(out, f[i])
			}
		}
	}
	return out
}

// attempt is what became of dialling one address.
type attempt struct {
	conn *net.TCPConn
	err  error
}

// race dials the addresses one after another, the next as soon as one fails or does not
// answer for a moment; the first that connects is it (RFC 8305).
func (o DialOptions) race(ctx context.Context, candidates []netip.AddrPort) (*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	attempts := make(chan attempt, len(candidates))
	var errs []error
	begun, ended := 0, 0
	defer func() { // close those that connect too late
		go func(left int) {
			for range left {
				if a := <-attempts; a.conn != nil {
					_ = a.conn.Close()
				}
			}
		}(begun - ended)
	}()
	next := time.NewTimer(0)
	defer next.Stop()
	for ended < len(candidates) {
		select {
		case <-next.C:
			if begun < len(candidates) {
				to := candidates[begun]
				begun++
				go func() { attempts <- o.connect(ctx, to) }()
				next.Reset(nextAddress)
			}
		case a := <-attempts:
			ended++
			if a.err == nil {
				return a.conn, nil
			}
			errs = append(errs, a.err)
			next.Reset(0)
		}
	}
	return nil, errors.Join(errs...)
}

// connect dials one address. All attempts end with the context.
func (o DialOptions) connect(ctx context.Context, to netip.AddrPort) attempt {
	dialer := net.Dialer{}
	if o.Local.IsValid() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(o.Local, 0))
	}
	conn, err := dialer.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return attempt{err: o.explain(ctx, to, err)}
	}
	return attempt{conn: conn.(*net.TCPConn)}
}

// explain says what an error of connecting means, and what helps.
func (o DialOptions) explain(ctx context.Context, to netip.AddrPort, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("connecting to %v: %w", to, context.Cause(ctx))
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("connecting to %v: %w: is `taper net serve` running there, on this port?", to, syscall.ECONNREFUSED)
	case errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH):
		return fmt.Errorf("connecting to %v: %w: there is no way to it from this machine, or a firewall says so", to, errno(err))
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("connecting to %v from %v: %w: it must be an address of this machine, of the same family", to, o.Local, errno(err))
	case errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, syscall.ETIMEDOUT):
		return fmt.Errorf("connecting to %v: no answer in %v: is the machine up, and does a firewall let TCP port %d through?", to, o.Timeout, to.Port())
	}
	return fmt.Errorf("connecting to %v: %w", to, err)
}

func errno(err error) error {
	var number syscall.Errno
	if errors.As(err, &number) {
		return number
	}
	return err
}

// greetAgent exchanges greetings and proofs on a new connection.
func greetAgent(ctx context.Context, conn *net.TCPConn, host string, o DialOptions, keys keyring) (*Client, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	client, err := o.handshake(ctx, conn, host, keys)
	if !stop() && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return client, err
}

func (o DialOptions) handshake(ctx context.Context, conn *net.TCPConn, host string, keys keyring) (*Client, error) {
	_ = conn.SetDeadline(time.Now().Add(o.pace.handshake))
	if err := o.agree(conn); err != nil {
		return nil, err
	}
	var secured net.Conn = conn
	if o.TLS != nil {
		config := o.TLS.Clone()
		if config.ServerName == "" {
			config.ServerName = host
		}
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, fmt.Errorf("TLS: %w: is its certificate for this name, and its issuer among those that are trusted here?", err)
		}
		secured = secure
	}
	l := newLink(secured, o.pace)
	instance, err := introduce(ctx, l, keys)
	if err != nil {
		return nil, told(err)
	}
	client := newClient(l, o, plainAddr(conn.RemoteAddr().(*net.TCPAddr).AddrPort()))
	client.instance = instance
	if err := client.start(ctx); err != nil {
		return nil, told(err)
	}
	return client, nil
}

// agree exchanges greetings: versions and TLS must be the same.
func (o DialOptions) agree(conn net.Conn) error {
	ours := greeting{protocol: protocol, release: o.Release}
	if o.TLS != nil {
		ours.flags |= flagTLS
	}
	if _, err := conn.Write(ours.bytes()); err != nil {
		return told(err)
	}
	hello, err := readHello(conn)
	if err != nil {
		return notAnAgent(hello, err, o.pace.handshake)
	}
	theirs, err := parseGreeting(hello)
	switch {
	case err != nil:
		return notAnAgent(hello, err, o.pace.handshake)
	case theirs.flags&flagRefused != 0:
		return fmt.Errorf("it takes nothing from %v: this address is not among the peers that it was started with", conn.LocalAddr())
	case theirs.protocol != protocol:
		return fmt.Errorf("it is %v and this is %v: use the same release of taper on both sides", theirs, ours)
	case theirs.flags&flagTLS != 0 && o.TLS == nil:
		return errors.New("it has TLS and none was asked for here: give the certificate of its issuer")
	case theirs.flags&flagTLS == 0 && o.TLS != nil:
		return errors.New("it has no TLS though it was asked for: start it with a certificate, or leave TLS out here")
	}
	return nil
}

// notAnAgent says what came instead of a greeting.
func notAnAgent(b []byte, err error, waited time.Duration) error {
	if said := strings.TrimSpace(plain(string(b))); said != "" {
		return fmt.Errorf("this is no taper agent, it says %q: is the port right?", said)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("it takes connections but says nothing for %v: is this a taper agent?", waited)
	}
	return fmt.Errorf("it ended the connection without a word (%w): is this a taper agent?", told(err))
}

// Target is an agent that another one is told to measure to.
type Target struct {
	// Address is as in [Dial], seen from the other agent.
	Address string
	// Token is the target's; if it is empty, that of the agent that is told. It stays here:
	// proofs alone are passed on.
	Token Token
}
