package attribution

import (
	"net/netip"

	"taper.dev/taper/internal/capture"
)

const (
	// maxTemplates bounds the templates of calls, maxPeers the peers with patterns of
	// their own. Calls beyond share one per protocol.
	maxTemplates = 2000
	maxPeers     = 2000
)

// kinds names what is asked: routes of requests, templates of calls.
type kinds struct {
	routes    map[netip.AddrPort]*patterns
	peers     map[string]*patterns
	templates map[template]int32
}

// template is a kind of call.
type template struct {
	cause                       Cause
	peer, protocol, op, pattern string
}

func newKinds() *kinds {
	return &kinds{routes: map[netip.AddrPort]*patterns{}, peers: map[string]*patterns{}, templates: map[template]int32{}}
}

// route is the kind of a request.
func (k *kinds) route(x *capture.Exchange) Route {
	server := x.Server()
	p := k.routes[server]
	if p == nil {
		if len(k.routes) >= maxPeers {
			server = netip.AddrPort{}
		}
		if p = k.routes[server]; p == nil {
			p = newPatterns()
			k.routes[server] = p
		}
	}
	r := Route{Protocol: x.Protocol, Pattern: p.of(x)}
	switch x.Protocol {
	case capture.HTTP, capture.HTTP2:
		r.Method = x.Op
	case capture.TLS:
		if r.Pattern = x.Authority; r.Pattern == "" {
			r.Pattern = capture.TLS
		}
	}
	if r.Pattern == "" {
		if r.Pattern = x.Op; r.Pattern == "" {
			r.Pattern = x.Protocol
		}
	}
	return r
}

// template numbers the kind of a call, from 0.
func (k *kinds) template(c *call) int32 {
	p := k.peers[c.peer]
	if p == nil {
		peer := c.peer
		if len(k.peers) >= maxPeers {
			peer = ""
		}
		if p = k.peers[peer]; p == nil {
			p = newPatterns()
			k.peers[peer] = p
		}
	}
	t := template{c.cause, c.peer, c.Protocol, c.Op, p.of(c.Exchange)}
	if c.cause == DNS {
		t.op, t.pattern = "", asked(c.Exchange)
	}
	n, ok := k.templates[t]
	if ok {
		return n
	}
	if len(k.templates) >= maxTemplates {
		t = template{cause: c.cause, protocol: c.Protocol}
		if n, ok = k.templates[t]; ok {
			return n
		}
	}
	n = int32(len(k.templates))
	k.templates[t] = n
	return n
}
