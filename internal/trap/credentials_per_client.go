package trap

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

const (
	// sessionBurst sessions started within sessionWindow by one pod are a client each;
	// a process that shares them starts one, and a few while it changes over.
	sessionBurst  = 5
	sessionWindow = time.Minute
)

// credentialsPerClient sees that each client object of a process gets its own
// credentials: sessions with STS at start or per request, or fetches of credentials that
// would have lived long enough to be shared.
type credentialsPerClient struct {
	clients table[netip.Addr, starter]
}

func newCredentialsPerClient() Rule {
	return &credentialsPerClient{clients: newTable[netip.Addr, starter](maxClients)}
}

func (*credentialsPerClient) ID() string { return "credentials-per-client" }

// starter is what one pod asked for.
type starter struct {
	sts, served asked
	charge      charge
}

// asked counts how often something was asked for.
type asked struct {
	n           uint64
	first, last capture.Time
	burst       uint64 // most within sessionWindow
	newest      [sessionBurst]capture.Time
	what        string
	evidence    evidence
}

func (a *asked) add(x *capture.Exchange, what string) {
	now := x.Start()
	if a.n == 0 {
		a.first, a.what = now, what
	}
	a.newest[a.n%sessionBurst] = now
	a.n++
	a.last = now
	in := uint64(0)
	for _, t := range a.newest[:min(a.n, sessionBurst)] {
		if now.Sub(t) <= sessionWindow {
			in++
		}
	}
	a.burst = max(a.burst, in)
	a.evidence.add(x.Request.First.Packet, x.Response.Last.Packet)
}

func (c *credentialsPerClient) Exchange(x *capture.Exchange) {
	what, early := sessionStart(x), fetchedEarly(x)
	if what == "" && !early {
		return
	}
	row := c.clients.at(x.Client().Addr())
	switch {
	case row == nil:
	case early:
		row.served.add(x, "credentials from the "+string(x.HTTP.Metadata.Provider))
	default:
		row.sts.add(x, what)
	}
}

// sessionStart says what starts a session with STS: its action where it can be read, or
// the handshake with STS where it is closed; "" is something else.
func sessionStart(x *capture.Exchange) string {
	if x.HTTP != nil && strings.HasPrefix(x.HTTP.Action, "AssumeRole") {
		return x.HTTP.Action
	}
	if x.TLS != nil && x.Op == "handshake" && isSTS(x.Authority) {
		return "sessions with " + x.Authority
	}
	return ""
}

// isSTS says whether a name is one of the AWS Security Token Service.
func isSTS(name string) bool {
	first, domain, _ := strings.Cut(name, ".")
	if !strings.EqualFold(first, "sts") && !strings.EqualFold(first, "sts-fips") {
		return false
	}
	domain = strings.TrimSuffix(strings.ToLower(domain), ".")
	return strings.HasSuffix(domain, "amazonaws.com") || strings.HasSuffix(domain, "amazonaws.com.cn")
}

// fetchedEarly says whether credentials were served that are not close to their end.
func fetchedEarly(x *capture.Exchange) bool {
	return fetched(x) && x.HTTP.Metadata.Expires != 0 && !inVain(x)
}

func (c *credentialsPerClient) Request(r *attribution.Request) {
	for i := range r.Links {
		x := r.Links[i].Exchange
		if !startsSession(&r.Links[i]) && !fetchedEarly(x) {
			continue
		}
		if row := c.clients.rows[x.Client().Addr()]; row != nil {
			row.charge.add(spent(r, func(l *attribution.Link) bool {
				return startsSession(l) || leadsToCredentials(l)
			}, attribution.Call, attribution.TLS, attribution.Connect, attribution.Metadata))
		}
		return
	}
}

// startsSession says whether a call goes to STS: closed ones, too.
func startsSession(l *attribution.Link) bool {
	x := l.Exchange
	return x.HTTP != nil && strings.HasPrefix(x.HTTP.Action, "AssumeRole") || isSTS(x.Authority)
}

func (c *credentialsPerClient) Findings(s Scene) []Finding {
	var found []Finding
	for who, row := range c.clients.rows {
		a := &row.sts
		if a.burst < sessionBurst && !tooOften(a.n, a.first, a.last, s.Requests) {
			a = &row.served
			if !tooOften(a.n, a.first, a.last, s.Requests) {
				continue
			}
		}
		found = append(found, Finding{
			ID: c.ID(), Severity: row.charge.severity(s), Cost: row.charge.cost(s), Evidence: a.evidence.sorted(),
			Title: fmt.Sprintf("%s asked %s for %s within %s, though those it had would have lived on; %s.",
				who, count(a.n, "time", "times"), plain(a.what), span(a.last.Sub(a.first)), row.charge.atCost(s)),
			Fix:       "Make one credentials provider per process and give it to all clients; make clients once, not per request.",
			Reference: "https://github.com/aws/aws-sdk-go/issues/2980",
		})
	}
	return inOrder(found)
}
