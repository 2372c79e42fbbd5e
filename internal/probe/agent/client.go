package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"taper.dev/taper/internal/probe"
)

// Client is a control connection to an agent. It is safe for concurrent use; one request
// is made at a time, the others wait.
type Client struct {
	link     *link
	options  DialOptions
	peer     netip.AddrPort
	other    []netip.Addr
	instance []byte
	host     probe.Host

	// ctx ends with the connection, and its cause says why.
	ctx     context.Context
	fail    context.CancelCauseFunc
	answers chan message
	asking  chan struct{}
	running sync.WaitGroup
}

func newClient(l *link, options DialOptions, peer netip.AddrPort) *Client {
	ctx, cancel := context.WithCancelCause(context.Background())
	l.most = maxAnswerFrame
	return &Client{
		link: l, options: options, peer: peer, ctx: ctx, fail: cancel,
		answers: make(chan message), asking: make(chan struct{}, 1),
	}
}

// start listens to the agent, and asks it who it is.
func (c *Client) start(ctx context.Context) error {
	c.running.Go(c.listen)
	c.running.Go(func() { c.link.beat(c.ctx) })
	m, err := c.ask(ctx, message{Kind: kindHost}, c.link.pace.handshake)
	if err == nil && m.Host == nil {
		err = errors.New("it does not say who it is")
	}
	if err != nil {
		c.Close()
		return err
	}
	c.host = presentable(*m.Host)
	return nil
}

// presentable is a host whose names can be shown.
func presentable(h probe.Host) probe.Host {
	for _, s := range []*string{&h.Version, &h.Name, &h.Node, &h.Kernel, (*string)(&h.Path)} {
		*s = plain(*s)
	}
	h.Interfaces = presentableInterfaces(h.Interfaces)
	return h
}

func presentableInterfaces(all []probe.Interface) []probe.Interface {
	for i := range all {
		all[i].Name = plain(all[i].Name)
	}
	return all
}

// Host is who the agent is, as it said when it was dialled.
func (c *Client) Host() probe.Host { return c.host }

// Peer is the address at which the agent was reached.
func (c *Client) Peer() netip.AddrPort { return c.peer }

// Other are the addresses of the agent's name that were not used.
func (c *Client) Other() []netip.Addr { return slices.Clone(c.other) }

// Close ends the connection, and what runs over it.
func (c *Client) Close() {
	c.fail(errors.New("the control connection was closed here"))
	_ = c.link.conn.Close()
	c.running.Wait()
}

// listen passes on what the agent answers until the connection ends.
func (c *Client) listen() {
	defer c.link.conn.Close()
	for {
		m, err := c.link.receive()
		if err == nil && m.Kind == kindBye {
			err = &refusal{reason: m.Reason}
		}
		if err != nil {
			c.fail(fmt.Errorf("agent at %v: %w", c.peer, told(err)))
			return
		}
		if m.Kind == kindPing {
			continue
		}
		select {
		case c.answers <- m:
		case <-c.ctx.Done():
			return
		}
	}
}

// Interfaces are the agent's network interfaces with their counters as they are now.
func (c *Client) Interfaces(ctx context.Context) ([]probe.Interface, error) {
	done, err := c.claim(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	m, err := c.ask(ctx, message{Kind: kindInterfaces}, c.link.pace.handshake)
	if err != nil {
		return nil, c.of(err)
	}
	return presentableInterfaces(m.Interfaces), nil
}

// Delegate has the agent run a trial with another agent: it is the near end. The context's
// end calls the trial off; what there is by then is returned, as by [Client.Run].
func (c *Client) Delegate(ctx context.Context, target Target, spec probe.Spec) (probe.Trial, error) {
	if err := spec.Validate(); err != nil {
		return probe.Trial{}, err
	}
	done, err := c.claim(ctx)
	if err != nil {
		return probe.Trial{}, err
	}
	defer done()
	token := target.Token
	if token == "" {
		token = c.options.Token
	}
	c.link.setPatience(c.link.pace.patience(spec))
	defer c.link.setPatience(c.link.pace.silence)
	limit := c.options.Wait + spec.Duration + c.link.pace.overtime + c.options.Timeout
	request := message{Kind: kindDelegate, Spec: &spec, Target: target.Address, Wait: c.options.Wait, Token: token != ""}
	m, err := c.askWith(ctx, request, limit, token)
	if err != nil {
		return probe.Trial{}, c.of(err)
	}
	if m.Trial == nil {
		return probe.Trial{}, c.of(errors.New("it answered without a trial"))
	}
	m.Trial.Incomplete = plain(m.Trial.Incomplete)
	if m.Trial.FarHost != nil {
		*m.Trial.FarHost = presentable(*m.Trial.FarHost)
	}
	return *m.Trial, nil
}

// of says which agent an error is of, if it does not say so itself.
func (c *Client) of(err error) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	return fmt.Errorf("agent at %v: %w", c.peer, err)
}

// claim waits until no other request is under way.
func (c *Client) claim(ctx context.Context) (done func(), err error) {
	select {
	case c.asking <- struct{}{}:
		return func() { <-c.asking }, nil
	case <-c.ctx.Done():
		return nil, context.Cause(c.ctx)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// ask makes a request and waits for its answer.
func (c *Client) ask(ctx context.Context, m message, limit time.Duration) (message, error) {
	return c.askWith(ctx, m, limit, "")
}

// askWith is ask for a request within which the agent may want proofs for a token. When
// the context ends the request is called off, and what comes then is the answer.
func (c *Client) askWith(ctx context.Context, m message, limit time.Duration, token Token) (message, error) {
	if err := c.link.send(m); err != nil {
		return message{}, c.lastWords(err)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	calledOff := ctx.Done()
	for {
		select {
		case answer := <-c.answers:
			switch {
			case answer.Kind == kindFailed && ctx.Err() != nil:
				return message{}, context.Cause(ctx)
			case answer.Kind == kindFailed:
				return message{}, &refusal{reason: answer.Reason, busy: answer.Busy}
			case answer.Kind == kindChallenge && token != "":
				p := prove(token, answer.Digest)
				if err := c.link.send(message{Kind: kindProof, Proof: p.dialled, Expected: p.listening}); err != nil {
					return message{}, c.lastWords(err)
				}
				continue
			case answer.Kind != m.Kind && !(m.Kind == kindRun && answer.Kind == kindTicket):
				err := fmt.Errorf("it sent a %q message instead of %q", plain(string(answer.Kind)), m.Kind)
				c.fail(c.of(err))
				return message{}, err
			}
			return answer, nil
		case <-calledOff:
			calledOff = nil
			_ = c.link.send(message{Kind: kindEnd, Reason: interruption(ctx)})
			timer.Reset(c.link.pace.drain)
		case <-timer.C:
			// What comes later would be taken for the answer to another question.
			err := fmt.Errorf("it did not answer in %v", limit)
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			c.fail(c.of(err))
			return message{}, err
		case <-c.ctx.Done():
			return message{}, context.Cause(c.ctx)
		}
	}
}

// lastWords is why nothing can be sent any more: what the agent said before it hung up, if
// that was still on its way to listen, else the error of sending.
func (c *Client) lastWords(err error) error {
	timer := time.NewTimer(c.link.pace.stop)
	defer timer.Stop()
	select {
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	case <-timer.C:
		return told(err)
	}
}

// interruption says why a context ended, for people.
func interruption(ctx context.Context) string {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause.Error()
	}
	return "it was interrupted"
}
