package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"taper.dev/taper/internal/probe"
)

// Run runs a trial: this process is the near end, the agent the far end. An error means
// that there was no trial: [probe.ErrBusy] if the agent was at another for as long as the options
// say. A trial that ended early, also because ctx ended or the agent is gone, has what
// there is and says so in Incomplete.
func (c *Client) Run(ctx context.Context, spec probe.Spec) (probe.Trial, error) {
	return c.run(ctx, spec, c.options.Wait)
}

func (c *Client) run(ctx context.Context, spec probe.Spec, wait time.Duration) (probe.Trial, error) {
	if err := spec.Validate(); err != nil {
		return probe.Trial{}, err
	}
	done, err := c.claim(ctx)
	if err != nil {
		return probe.Trial{}, err
	}
	defer done()
	c.link.setPatience(c.link.pace.patience(spec))
	defer c.link.setPatience(c.link.pace.silence)
	m, err := c.ask(ctx, message{Kind: kindRun, Spec: &spec, Wait: wait}, wait+c.link.pace.handshake)
	if err != nil {
		return probe.Trial{}, c.of(err)
	}
	if len(m.Ticket) != len(ticket{}) || m.Spec == nil {
		err := c.of(errors.New("it did not say how to know the data connections by"))
		c.fail(err)
		return probe.Trial{}, err
	}
	if granted := m.Spec.MaxBytes; granted > 0 && (spec.MaxBytes == 0 || granted < spec.MaxBytes) {
		spec.MaxBytes = granted
	}
	r := &running{client: c, spec: spec, started: time.Now()}
	r.meet(ctx, ticket(m.Ticket))
	return r.trial(ctx)
}

// running is a trial under way, as its near end's process sees it.
type running struct {
	client  *Client
	spec    probe.Spec
	started time.Time

	near nearEnd
	took time.Duration // of the near end
	far  *report       // nil if none came
	lost error         // why none came
}

// nearEnd is what came of the near end.
type nearEnd struct {
	trial probe.Trial
	err   error
}

// farLag is how long a near end may go on after the far end has stopped early: what was
// sent before may still be on the way.
const farLag = 500 * time.Millisecond

// meet runs the near end, and waits for both ends. Each ends early when the other does.
func (r *running) meet(ctx context.Context, t ticket) {
	c := r.client
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	near := make(chan nearEnd, 1)
	line := probe.Line{Peer: c.peer, Local: c.options.Local, Hello: dataHello(t)}
	go func() {
		trial, err := c.options.ends(r.spec.Test).near(ctx, r.spec, line)
		near <- nearEnd{trial, err}
	}()
	answers, lost := c.answers, c.ctx.Done()
	lag, overdue := time.NewTimer(0), time.NewTimer(0)
	defer lag.Stop()
	defer overdue.Stop()
	_, _ = <-lag.C, <-overdue.C // both are idle until they are set
	for near != nil || r.far == nil && r.lost == nil {
		select {
		case r.near = <-near:
			near = nil
			r.took = time.Since(r.started)
			end := message{Kind: kindEnd}
			if ctx.Err() != nil {
				end.Reason = interruption(ctx)
			}
			_ = c.link.send(end) // if it fails the connection is lost, and that shows
			overdue.Reset(c.link.pace.drain + c.link.pace.silence)
		case m := <-answers:
			answers = nil
			r.take(m)
			if r.far == nil || r.far.Incomplete != "" {
				lag.Reset(farLag)
			}
		case <-lag.C:
			stop(errors.New("the far end has stopped"))
		case <-overdue.C:
			c.fail(c.of(errors.New("the far end did not report")))
		case <-lost:
			lost = nil
			if r.lost == nil && (near != nil || r.far == nil) {
				r.lost = context.Cause(c.ctx)
			}
			stop(r.lost)
		}
	}
}

// take notes the far end's report, or that there is none.
func (r *running) take(m message) {
	switch {
	case m.Kind == kindRun && m.Report != nil:
		r.far = m.Report
		r.far.Incomplete = plain(r.far.Incomplete)
	case m.Kind == kindFailed:
		r.lost = &refusal{reason: m.Reason, busy: m.Busy}
	default:
		r.lost = fmt.Errorf("agent at %v: it sent a %q message instead of what it saw", r.client.peer, plain(string(m.Kind)))
		r.client.fail(r.lost)
	}
}

// trial puts together what both ends saw.
func (r *running) trial(ctx context.Context) (probe.Trial, error) {
	t := r.near.trial
	if t.Spec.Test == "" {
		t.Spec = r.spec
	}
	if t.Start.IsZero() {
		t.Start = r.started
	}
	if r.far != nil {
		t.Far = r.far.Side
	}
	if r.near.err != nil {
		if ctx.Err() != nil {
			return t, fmt.Errorf("measuring to %v: %w", r.client.peer, context.Cause(ctx))
		}
		return t, fmt.Errorf("measuring to %v: %s", r.client.peer, r.why(r.near.err.Error()))
	}
	switch {
	case ctx.Err() != nil:
		t.Incomplete = interruption(ctx)
	case r.lost != nil:
		t.Incomplete = r.lost.Error()
	case t.Incomplete != "" || r.far.Incomplete != "":
		t.Incomplete = r.why(t.Incomplete)
	default:
		t.Incomplete = overBytes(t)
	}
	return t, nil
}

// why says what kept the ends from each other, if that is known, else what each end says.
func (r *running) why(near string) string {
	if r.lost != nil {
		return r.lost.Error()
	}
	if r.far.Streams+r.far.Datagrams == 0 && near != "" {
		return r.nothingCame(near)
	}
	if near == r.far.Incomplete {
		return near
	}
	if r.far.Stopped {
		return fmt.Sprintf("agent at %v: %s", r.client.peer, r.far.Incomplete)
	}
	var said []string
	if near != "" {
		said = append(said, "near end: "+near)
	}
	if r.far.Incomplete != "" {
		said = append(said, "far end: "+r.far.Incomplete)
	}
	return strings.Join(said, "; ")
}

// nothingCame is for data that do not get through though control does.
func (r *running) nothingCame(near string) string {
	peer := r.client.peer
	if r.spec.Test.Datagrams() {
		within := ""
		if waited := r.took.Round(100 * time.Millisecond); waited > 0 {
			within = fmt.Sprintf(" in %v", waited)
		}
		return fmt.Sprintf("no datagram came back from %v%s, while TCP gets through: is UDP %d open? (%s)", peer, within, peer.Port(), near)
	}
	return fmt.Sprintf("no data connection to %v came to the agent with the control connection: does the address lead to several agents "+
		"(a Service needs sessionAffinity: ClientIP), or does a firewall limit connections? (%s)", peer, near)
}

// overBytes marks a trial that reached the limit though no end says so.
func overBytes(t probe.Trial) string {
	most := t.Spec.MaxBytes
	for _, s := range []probe.Side{t.Near, t.Far} {
		if most > 0 && s.SentBytes+s.ReceivedBytes >= most {
			return fmt.Sprintf("the limit of %d bytes was reached, the most that the agent allows", most)
		}
	}
	return ""
}
