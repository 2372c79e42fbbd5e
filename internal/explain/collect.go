package explain

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

// Bounds of what a collector keeps. What comes after is put together under OtherName,
// so that sums stay right.
const (
	maxRoutes     = 256
	maxBackground = 256
)

// OtherName stands for what is too many to be listed one by one.
const OtherName = "(others)"

// collector makes an Explanation of requests as they are told. It keeps sums, never
// the requests themselves but for the few that are shown.
type collector struct {
	routes     map[attribution.Route]*routeStats
	kept       keeper
	background map[backgroundKey]*Background
	orphans    map[orphanKey]*Background // the latest ones' place in background
	samples    int                       // to keep of each route, for Compare
	splitter   splitter

	requests uint64
	time     time.Duration
}

type backgroundKey struct {
	cause    attribution.Cause
	peer, op string
}

// orphanKey is what calls have in common that count in the same place. It is made without
// a text of its own, for each of them.
type orphanKey struct {
	cause            attribution.Cause
	peer, op, target string
}

func newCollector(keepRequests, samples int) *collector {
	return &collector{
		routes:     map[attribution.Route]*routeStats{},
		kept:       keeper{limit: keepRequests},
		background: map[backgroundKey]*Background{},
		orphans:    map[orphanKey]*Background{},
		samples:    samples,
	}
}

// Request implements [attribution.Sink].
func (c *collector) Request(r *attribution.Request) {
	c.requests++
	c.time += r.Duration()
	c.splitter.split(r)
	route := c.route(r.Route)
	route.add(r, &c.splitter)
	c.kept.offer(r, c.splitter.parts, route)
}

// Orphan implements [attribution.Sink].
func (c *collector) Orphan(o *attribution.Orphan) {
	alike := orphanKey{o.Cause, o.Peer, o.Exchange.Op, o.Exchange.Target}
	b := c.orphans[alike]
	if b == nil {
		b = c.backgroundOf(o)
		if len(c.orphans) >= maxBackground {
			clear(c.orphans)
		}
		c.orphans[alike] = b
	}
	b.Count++
	b.TotalMS += milliseconds(o.Exchange.End().Sub(o.Exchange.Start()))
}

// backgroundOf is where a call without a request counts.
func (c *collector) backgroundOf(o *attribution.Orphan) *Background {
	key := backgroundKey{o.Cause, o.Peer, asked(o.Exchange)}
	b := c.background[key]
	if b == nil && len(c.background) >= maxBackground {
		key = backgroundKey{o.Cause, OtherName, ""}
		b = c.background[key] // one more for each cause
	}
	if b == nil {
		b = &Background{Cause: key.cause, Peer: key.peer, Op: key.op}
		c.background[key] = b
	}
	return b
}

// asked is what an exchange asked for, on one line.
func asked(x *capture.Exchange) string { return strings.TrimSpace(x.Op + " " + x.Target) }

func (c *collector) route(route attribution.Route) *routeStats {
	if s := c.routes[route]; s != nil {
		return s
	}
	if len(c.routes) >= maxRoutes {
		route = attribution.Route{Pattern: OtherName}
		if s := c.routes[route]; s != nil {
			return s
		}
	}
	s := newRouteStats(route, c.samples*manyRoutes/(manyRoutes+len(c.routes)))
	s.slowest.limit = slowestKept
	if len(c.routes) >= manyRoutes {
		s.slowest.limit = fewSlowest
	}
	c.routes[route] = s
	return s
}

// explanation is what was collected, in the order in which people want to read it.
func (c *collector) explanation() *Explanation {
	e := &Explanation{Service: []Service{}, Requests: c.kept.requests(), Routes: []Route{}, Findings: []Finding{}}
	e.RequestsOmitted = c.requests - uint64(len(e.Requests))
	for _, s := range c.routes {
		e.Routes = append(e.Routes, s.route())
	}
	slices.SortFunc(e.Routes, func(a, b Route) int {
		return cmp.Or(cmp.Compare(b.TotalMS(), a.TotalMS()), cmp.Compare(a.Name(), b.Name()), cmp.Compare(a.Protocol, b.Protocol))
	})
	for _, b := range c.background {
		e.Background = append(e.Background, *b)
	}
	slices.SortFunc(e.Background, func(a, b Background) int {
		return cmp.Or(cmp.Compare(b.TotalMS, a.TotalMS), cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.Peer, b.Peer), cmp.Compare(a.Op, b.Op))
	})
	return e
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
