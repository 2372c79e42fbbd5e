package explain

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

const (
	// maxParts bounds how many causes and peers of a route are told apart while
	// collecting, shownParts how many are listed.
	maxParts   = 256
	shownParts = 24
)

// routeStats sums up the requests of a route.
type routeStats struct {
	key       attribution.Route
	durations distribution
	total     time.Duration
	count     uint64
	failed    uint64
	open      float64 // weighted by time
	links     map[attribution.Certainty]uint64
	parts     []partStats
	index     map[partKey]int // into parts
	at        []int           // of a request's parts in parts, used again for each
	slowest   slowest
	samples   *samples
}

type partKey struct {
	cause attribution.Cause
	peer  string
}

type partStats struct {
	partKey
	total    time.Duration
	calls    uint64
	target   commonTarget
	provider capture.MetadataProvider
}

func newRouteStats(key attribution.Route, keepSamples int) *routeStats {
	s := &routeStats{key: key, links: map[attribution.Certainty]uint64{}, index: map[partKey]int{}}
	if keepSamples > 0 {
		s.samples = newSamples(keepSamples)
	}
	return s
}

func (s *routeStats) add(r *attribution.Request, split *splitter) {
	d := r.Duration()
	s.durations.add(d)
	s.total += d
	s.count++
	if r.Failed {
		s.failed++
	}
	s.open += r.Open * float64(d)
	s.links[r.Certainty]++
	slot := s.samples.slot()
	slot.begin(r.Start(), d)
	s.at = s.at[:0]
	for i := range split.parts {
		p := &split.parts[i]
		at := s.part(partKey{p.Cause, p.Peer}, i)
		s.at = append(s.at, at)
		s.parts[at].total += p.Duration
		s.parts[at].calls += uint64(p.Calls)
		slot.add(at, p.Duration)
	}
	for i := range r.Links {
		s.parts[s.at[split.ofLink[i]]].asked(r.Links[i].Exchange)
	}
}

// part is the index of a cause and peer in s.parts; hint is where it may be, since
// requests of one route are much alike.
func (s *routeStats) part(key partKey, hint int) int {
	if hint < len(s.parts) && s.parts[hint].partKey == key {
		return hint
	}
	at, known := s.index[key]
	if !known && len(s.parts) >= maxParts {
		key.peer = OtherName // one more for each cause
		at, known = s.index[key]
	}
	if !known {
		at = len(s.parts)
		s.parts = append(s.parts, partStats{partKey: key})
		s.index[key] = at
	}
	return at
}

// asked notes what a call asked for.
func (p *partStats) asked(x *capture.Exchange) {
	p.target.add(x.Target)
	if x.HTTP != nil && x.HTTP.Metadata != nil {
		p.provider = x.HTTP.Metadata.Provider
	}
}

// route is the sum. Parts are those with the most time; the others of a cause are
// put together.
func (s *routeStats) route() Route {
	quantiles := s.durations.at(.5, .9, .99)
	r := Route{
		Protocol: s.key.Protocol, Method: s.key.Method, Route: s.key.Pattern,
		Count: s.count, Failed: s.failed,
		MeanMS: s.mean(s.total), MaxMS: milliseconds(s.durations.max),
		P50MS: milliseconds(quantiles[0]), P90MS: milliseconds(quantiles[1]), P99MS: milliseconds(quantiles[2]),
		Links: s.links, Parts: []RoutePart{}, Percentiles: s.durations.percentiles(),
	}
	if s.total > 0 {
		r.Open = s.open / float64(s.total)
	}
	names := make([]partKey, len(s.parts))
	for _, p := range s.listed(names) {
		r.Parts = append(r.Parts, s.routePart(p))
	}
	if s.samples != nil {
		s.samples.names, s.samples.population = names, s.count
		r.samples = s.samples
	}
	return r
}

// listed are the parts to show. It fills in under which name each of s.parts goes.
func (s *routeStats) listed(names []partKey) []partStats {
	order := make([]int, len(s.parts))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		p, q := &s.parts[a], &s.parts[b]
		return cmp.Or(cmp.Compare(q.total, p.total), cmp.Compare(p.cause, q.cause), cmp.Compare(p.peer, q.peer))
	})
	var shown []partStats
	at := map[partKey]int{}
	for _, i := range order {
		p := s.parts[i]
		if len(shown) >= shownParts {
			p.partKey = partKey{p.cause, OtherName}
		}
		names[i] = p.partKey
		if j, known := at[p.partKey]; known {
			shown[j].total += p.total
			shown[j].calls += p.calls
			shown[j].target = commonTarget{}
			continue
		}
		at[p.partKey] = len(shown)
		shown = append(shown, p)
	}
	return shown
}

func (s *routeStats) routePart(p partStats) RoutePart {
	part := RoutePart{
		Cause: p.cause, Peer: p.peer, MeanMS: s.mean(p.total),
		Calls: float64(p.calls) / float64(s.count), Target: p.target.String(), Provider: p.provider,
	}
	if s.total > 0 {
		part.Share = float64(p.total) / float64(s.total)
	}
	return part
}

func (s *routeStats) mean(total time.Duration) float64 {
	return float64(total) / float64(s.count) / float64(time.Millisecond)
}

// commonTarget is what the targets of calls have in common: the path as far as all
// have the same segments.
type commonTarget struct {
	text    string
	seen    bool
	differs bool
}

func (c *commonTarget) add(target string) {
	if !c.seen {
		c.text, c.seen = target, true
		return
	}
	if target == c.text {
		return
	}
	if c.differs && strings.HasPrefix(target, c.text) {
		return
	}
	n := 0
	for n < len(c.text) && n < len(target) && c.text[n] == target[n] {
		n++
	}
	c.differs = true
	c.text = c.text[:strings.LastIndexAny(c.text[:n], "/. ")+1]
}

// String is the common part, with "…" for what differs; "" when nothing is common.
func (c *commonTarget) String() string {
	if !c.differs {
		return c.text
	}
	if c.text == "" || c.text == "/" {
		return ""
	}
	return c.text + "…"
}
