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
	peers     map[string]*peerKinds
	templates map[template]int32
}

// template is a kind of call.
type template struct {
	cause                       Cause
	peer, protocol, op, pattern string
}

// peerKinds are the kinds of calls of a peer, and the call that was asked about last, with
// what it asked for in place of its pattern: mostly the next one is alike.
type peerKinds struct {
	patterns *patterns
	newest   template
	number   int32 // of its template
}

func newKinds() *kinds {
	return &kinds{routes: map[netip.AddrPort]*patterns{}, peers: map[string]*peerKinds{}, templates: map[template]int32{}}
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
	p := k.peer(c.peer)
	call := template{c.cause, c.peer, c.Protocol, c.Op, c.Target}
	if p.newest != call {
		p.newest, p.number = call, k.number(c, p.patterns)
	}
	return p.number
}

// peer is what is known of a peer's calls.
func (k *kinds) peer(name string) *peerKinds {
	if p := k.peers[name]; p != nil {
		return p
	}
	if len(k.peers) >= maxPeers {
		name = ""
	}
	p := k.peers[name]
	if p == nil {
		p = &peerKinds{patterns: newPatterns()}
		k.peers[name] = p
	}
	return p
}

func (k *kinds) number(c *call, p *patterns) int32 {
	t := template{cause: c.cause, peer: c.peer, protocol: c.Protocol}
	if c.cause == DNS {
		t.pattern = asked(c.Exchange)
	} else {
		t.op, t.pattern = c.Op, p.of(c.Exchange)
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
