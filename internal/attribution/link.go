package attribution

import (
	"slices"

	"taper.dev/taper/internal/capture"
)

const (
	// maxCandidates bounds the requests that a call may belong to; of more that are open,
	// those that began last are looked at. No claim about single requests is made there.
	maxCandidates = 64
	// implausible is up to which probability a call that only one request can have caused
	// is not taken for one that none did: the link is certain.
	implausible = 0.01
	// fewUnits is how many units a request has room for at first.
	fewUnits = 4
	// mostProbable is the highest probability that is stated of a link that is not certain.
	mostProbable = 0.999
)

// link finds the parents of the units of a window.
func (l *Linker) link(units []*unit, horizon capture.Time) {
	for _, r := range l.requests {
		r.units = append(r.units[:0], r.settled...)
		for i, u := range r.units {
			u.order = int32(i - len(r.units)) // before all of this window
		}
		r.samples, r.childless, r.cut = 0, 0, r.end >= horizon
	}
	l.sweep(units)
	l.model.expose(units, l.requests, l.decided, horizon)
	open := make([]*unit, 0, len(units))
	for _, u := range units {
		switch {
		case len(u.candidates) == 0:
			u.decide(nil)
		case u.certain, len(u.candidates) == 1 && l.model.stray(u) < implausible:
			u.decide(u.candidates[0])
		default:
			open = append(open, u)
			if len(u.candidates) > 1 || l.model.stray(u) < 0.5 {
				u.parent = u.waitedLongest()
			}
		}
		if r := u.parent; r != nil {
			if r.units == nil {
				r.units = make([]*unit, 0, fewUnits)
			}
			r.units = append(r.units, u)
		}
	}
	if len(open) > 0 {
		l.sample(open)
	}
}

// decide ends the matter.
func (u *unit) decide(r *request) {
	u.parent, u.probability, u.certain = r, 1, true
	if r == nil {
		u.candidates = nil
	}
}

// sweep finds the requests that each unit can belong to.
func (l *Linker) sweep(units []*unit) {
	var active, slab []*request
	next := 0
	threads := map[uint32]int{}
	for _, u := range units {
		for next < len(l.requests) && l.requests[next].start <= u.start {
			active = append(active, l.requests[next])
			threads[l.requests[next].tid]++
			next++
		}
		active = slices.DeleteFunc(active, func(r *request) bool {
			if r.end < u.start {
				threads[r.tid]--
				return true
			}
			return false
		})
		from := len(slab)
		for i := len(active) - 1; i >= 0 && len(slab)-from < maxCandidates; i-- {
			if r := active[i]; !r.pod.IsValid() || !u.pod.IsValid() || r.pod == u.pod {
				slab = append(slab, r)
			}
		}
		u.candidates = slab[from:len(slab):len(slab)]
		slices.Reverse(u.candidates)
		l.keys(u, active, threads)
	}
}

// keys narrows the candidates by what ties exchanges exactly.
func (l *Linker) keys(u *unit, active []*request, threads map[uint32]int) {
	main := u.calls[len(u.calls)-1]
	if k := main.Keys; k.Trace != 0 || k.Request != 0 {
		l.byKey(u, k, active)
		return
	}
	tid := main.Process.TID
	if tid == 0 {
		return
	}
	var own *request
	for _, r := range active {
		if r.tid == tid {
			own = r
		}
	}
	if len(u.candidates) == 1 && u.candidates[0].tid != 0 {
		l.trust.thread(own != nil)
	}
	if own != nil && threads[tid] == 1 && l.trust.threads() && slices.Contains(u.candidates, own) {
		u.only(own)
	}
}

// byKey leaves the requests with the same key. Where the service hands its keys on, a
// request with another key is none for this call.
func (l *Linker) byKey(u *unit, k capture.Keys, active []*request) {
	same := func(r *request) bool {
		return k.Trace != 0 && k.Trace == r.keys.Trace || k.Request != 0 && k.Request == r.keys.Request
	}
	other := func(r *request) bool {
		return k.Trace != 0 && r.keys.Trace != 0 && k.Trace != r.keys.Trace ||
			k.Trace == 0 && k.Request != 0 && r.keys.Request != 0 && k.Request != r.keys.Request
	}
	var matching []*request
	for _, r := range active {
		if same(r) {
			matching = append(matching, r)
		}
	}
	switch {
	case len(matching) == 1:
		l.trust.key(true)
		u.only(matching[0])
	case len(matching) > 1:
		u.candidates = matching[max(0, len(matching)-maxCandidates):]
	default:
		if slices.ContainsFunc(active, other) {
			l.trust.key(false)
		}
		if l.trust.keys() {
			u.candidates = slices.DeleteFunc(u.candidates, other)
		}
	}
}

func (u *unit) only(r *request) {
	u.candidates, u.certain = []*request{r}, true
}

// waitedLongest is the candidate that is to come first if requests are served in turn:
// one that has made the fewest calls of this kind, has no call open, and did nothing for
// the longest time.
func (u *unit) waitedLongest() *request {
	var best *request
	var rank turn
	for _, r := range u.candidates {
		if t := r.turn(u); best == nil || t.before(rank) {
			best, rank = r, t
		}
	}
	return best
}

// turn says how much it is a request's turn.
type turn struct {
	same  int
	busy  bool
	since capture.Time
}

func (r *request) turn(u *unit) turn {
	t := turn{since: r.ready}
	for i := len(r.units) - 1; i >= 0 && len(r.units)-i <= maxCandidates; i-- {
		v := r.units[i]
		t.since = max(t.since, v.end)
		t.busy = t.busy || v.end > u.start
		if v.template == u.template {
			t.same++
		}
	}
	return t
}

func (t turn) before(o turn) bool {
	switch {
	case t.same != o.same:
		return t.same < o.same
	case t.busy != o.busy:
		return o.busy
	}
	return t.since < o.since
}

// trust counts how often keys and threads agreed with what was known without them.
type trust struct {
	handedOn, other uint64
	agree, disagree uint64
}

func (t *trust) key(handedOn bool) {
	if handedOn {
		t.handedOn++
	} else {
		t.other++
	}
}

// keys says whether the service hands its keys on to its calls.
func (t *trust) keys() bool { return t.handedOn > 0 && t.handedOn >= t.other/20 }

func (t *trust) thread(agree bool) {
	if agree {
		t.agree++
	} else {
		t.disagree++
	}
}

// threads says whether calls are made on the thread that reads the request.
func (t *trust) threads() bool { return t.disagree <= t.agree/50 }
