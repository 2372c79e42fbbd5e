package attribution

import (
	"cmp"
	"math"
	"slices"
)

const (
	// firstRounds and laterRounds are how often what was learned and the links are
	// improved in turn, in the firstWindows and in later ones, and once in those after
	// learnedWindows; in each round links are sampled for roundSweeps.
	firstWindows, learnedWindows = 1, 6
	firstUnits                   = 1500
	firstRounds, laterRounds     = 24, 3
	roundSweeps                  = 5
	// heats is how often sampling begins anew, heatSweeps how long it then cools down from
	// an inverse temperature (coolest to warmest, candidates/crowd), and heatSamples how many samples are taken then.
	heats, heatSweeps, heatSamples = 3, 14, 12
	coolest, warmest, crowd        = 0.2, 0.6, 50
	heatHold                       = 4 // sweeps after it has cooled, before samples count
	// coolSweeps follow to choose the links to tell.
	coolSweeps = 12
	// unseen is how many samples are assumed to have disagreed, where others did or the busy
	// period is long: samples of one cooling are alike.
	unseen = 1
	// smallPeriod is how many open units a busy period has that is soon sampled enough, and
	// tinyPeriod one for which earlySamples are, without heat.
	smallPeriod, tinyPeriod = 24, 8
	earlySamples            = 12
	// maxExchanged bounds how many units two requests swap at once, but for all.
	maxExchanged = 9
	// longRequest is how many units a request has that is left as it was first linked.
	longRequest = 200
)

// sampler samples links in proportion to their likelihood (Metropolis-Hastings). All its
// proposals are symmetric: the reverse one is as likely.
type sampler struct {
	*random
	model *model
	open  []*unit
	touch []*request // requests that an open unit may belong to
	walks []*walk
	rate  []float32 // logarithm of the rate of strays by template
	all   []*request
	a, b  []*unit // proposed lists
	beta  float64 // inverse temperature: less than 1 while modes are sought

	// Of the chain that is tried: the units that moved, and what the one that is out can
	// choose from.
	moved   []move
	options []option
}

// sample links the open units of a window.
func (l *Linker) sample(open []*unit) {
	s := &sampler{random: &l.random, model: l.model, open: open, beta: 1}
	s.prepare(l.requests)
	s.improve()
	s.take(earlySamples)
	s.leaveUnanimous(tinyPeriod)
	for heat := 0; heat < heats && len(s.open) > 0; heat++ {
		s.heat()
		s.take(heatSamples)
		s.leaveUnanimous(smallPeriod)
	}
	s.settleDown()
	for _, u := range s.open {
		u.doubt = unseen
	}
	for _, u := range open {
		total := u.doubt
		for _, n := range u.counts {
			total += n
		}
		u.probability = min(mostProbable, float64(u.counts[u.candidate(u.parent)]/total))
	}
}

// improve learns from the links and links by what was learned, in turn. In the first
// window it begins hot, so that what the first links had wrong is not learned for good,
// and with a part of the window, which is enough to learn from.
func (s *sampler) improve() {
	s.learn(1)
	if s.model.windows < firstWindows {
		all, requests := s.open, s.all
		s.open = s.open[:min(len(s.open), firstUnits)]
		last := s.open[len(s.open)-1].start
		for len(s.all) > 1 && s.all[len(s.all)-1].start > last {
			s.all = s.all[:len(s.all)-1]
		}
		for i := range firstRounds {
			s.beta = min(1, 1.4*float64(i+firstRounds/4)/float64(firstRounds))
			s.round()
		}
		s.open, s.all = all, requests
	}
	s.model.windows++
	s.beta = 1
	rounds := laterRounds
	if s.model.windows > learnedWindows {
		rounds = 1
	}
	for range rounds {
		s.round()
	}
}

// round samples links for a while and learns from them.
func (s *sampler) round() {
	for range roundSweeps {
		s.sweep()
	}
	s.learn(1)
}

// heat leaves the links found so far, so that other ones are found that are as likely:
// samples would seldom pass from the ones to the others by themselves.
//
// The more requests a unit may belong to, the more ways there are to go wrong and the
// longer it takes to come back: then it is heated less.
func (s *sampler) heat() {
	candidates := 0
	for _, u := range s.open {
		candidates += len(u.candidates)
	}
	from := min(warmest, max(coolest, float64(candidates)/float64(len(s.open))/crowd))
	for i := range heatSweeps {
		s.beta = min(1, from+(1-from)*float64(i)/(heatSweeps-heatHold))
		s.sweep()
	}
}

// take takes samples.
func (s *sampler) take(n int) {
	for range n {
		s.sweep()
		s.record()
	}
}

// leaveUnanimous goes on without the busy periods of at most so many units in which all
// samples agree about all links: more samples would say the same.
func (s *sampler) leaveUnanimous(small int) {
	var left []*unit
	for len(s.open) > 0 {
		n := s.busyPeriod()
		period := s.open[:n]
		s.open = s.open[n:]
		if n > small || slices.ContainsFunc(period, func(u *unit) bool { return !u.unanimous() }) {
			left = append(left, period...)
		}
	}
	s.open = left
	s.findTouched()
}

// busyPeriod is how many of the open units come before a moment at which none of the
// requests that they may belong to is open.
func (s *sampler) busyPeriod() int {
	until := s.open[0].start
	for i, u := range s.open {
		if u.start > until {
			return i
		}
		for _, r := range u.candidates {
			until = max(until, r.end)
		}
	}
	return len(s.open)
}

func (u *unit) unanimous() bool {
	voted := 0
	for _, n := range u.counts {
		if n > 0 {
			voted++
		}
	}
	return voted == 1
}

// settleDown cools until the links hardly change any more. Taken one by one, the most
// frequent parents would give some requests a call twice and others none, and so lose
// time; the links of one sample agree with each other.
func (s *sampler) settleDown() {
	for i := range min(coolSweeps, coolSweeps*len(s.open)) {
		s.beta = 1 + float64(i)/2
		s.sweep()
	}
}

func (s *sampler) prepare(requests []*request) {
	for _, u := range s.open {
		u.counts = make([]float32, len(u.candidates)+1)
	}
	seen := make([]bool, len(s.model.walks))
	for _, r := range requests {
		w := s.model.walks[r.route]
		if !seen[r.route] {
			seen[r.route] = true
			s.walks = append(s.walks, w)
		}
		for _, u := range r.units {
			w.place(u.template)
		}
	}
	for _, u := range s.open {
		for _, r := range u.candidates {
			s.model.walks[r.route].place(u.template)
		}
	}
	s.findTouched()
	s.all = requests
}

// findTouched lists the requests that an open unit may belong to.
func (s *sampler) findTouched() {
	touched := map[*request]bool{}
	s.touch = s.touch[:0]
	for _, u := range s.open {
		for _, r := range u.candidates {
			if !touched[r] {
				touched[r] = true
				s.touch = append(s.touch, r)
			}
		}
	}
}

// learn counts the window as it is linked now, of which so much is new, and concludes.
func (s *sampler) learn(news float32) {
	for _, w := range s.walks {
		w.fade(1 - news)
	}
	for _, r := range s.all {
		s.model.walks[r.route].learn(r, r.units, false, news)
	}
	for _, w := range s.walks {
		w.conclude()
	}
	s.model.learnStrays(s.open, float64(news))
	s.rate = s.rate[:0]
	for t := range s.model.now.within {
		s.rate = append(s.rate, s.model.logStray(int32(t)))
	}
	for _, r := range s.touch {
		r.likelihood = s.model.walks[r.route].score(r, r.units)
	}
}

// draw chooses a unit to begin a change with.
func (s *sampler) draw() *unit { return s.open[s.below(len(s.open))] }

// sweep tries one chain per unit, and twice as many exchanges.
func (s *sampler) sweep() {
	for range s.open {
		s.chain(s.draw())
		s.exchange(s.draw())
		s.exchange(s.draw())
	}
}

// exchange lets two requests swap all their units from one on: the next one, two or
// three, or all.
func (s *sampler) exchange(u *unit) {
	from := u.parent
	to := u.candidates[s.below(len(u.candidates))]
	n := 1 + s.below(maxExchanged)
	if n == maxExchanged {
		n = 2 * longRequest
	}
	if from == nil || from == to || from.long() || to.long() {
		return
	}
	s.a, s.b = s.a[:0], s.b[:0]
	i, j := 0, 0
	for i < len(from.units) || j < len(to.units) {
		v, mine := s.next(from, to, &i, &j)
		swaps := v.order >= u.order && n > 0
		if swaps {
			n--
			other := from
			if mine {
				other = to
			}
			if v.certain || !v.may(other) {
				return
			}
		}
		if mine != swaps {
			s.a = append(s.a, v)
		} else {
			s.b = append(s.b, v)
		}
	}
	if !s.accept(s.gain(from, s.a) + s.gain(to, s.b)) {
		return
	}
	for _, v := range s.a {
		v.parent = from
	}
	for _, v := range s.b {
		v.parent = to
	}
	s.commit(from, to)
}

// next is the next unit of two requests, by start, and whether it is the first one's.
func (s *sampler) next(from, to *request, i, j *int) (*unit, bool) {
	if *j == len(to.units) || *i < len(from.units) && from.units[*i].before(to.units[*j]) {
		*i++
		return from.units[*i-1], true
	}
	*j++
	return to.units[*j-1], false
}

// gain is what a request's likelihood would rise by with other units.
func (s *sampler) gain(r *request, units []*unit) float64 {
	if r == nil {
		return 0
	}
	r.proposed = s.model.walks[r.route].score(r, units)
	return r.proposed - r.likelihood
}

func (s *sampler) accept(gain float64) bool {
	return gain >= 0 || s.unit() < math.Exp(s.beta*gain)
}

// commit makes the proposed lists those of two requests.
func (s *sampler) commit(from, to *request) {
	if from != nil {
		from.units, s.a = s.a, from.units
		from.likelihood = from.proposed
	}
	if to != nil {
		to.units, s.b = s.b, to.units
		to.likelihood = to.proposed
	}
}

// record notes the links of a sample.
func (s *sampler) record() {
	for _, u := range s.open {
		u.counts[u.candidate(u.parent)]++
	}
	for _, r := range s.touch {
		r.samples++
		if len(r.units) == 0 {
			r.childless++
		}
	}
}

// candidate is the place of a request among the candidates; none is the last.
func (u *unit) candidate(r *request) int {
	for i, c := range u.candidates {
		if c == r {
			return i
		}
	}
	return len(u.candidates)
}

func (u *unit) may(r *request) bool { return r == nil || u.candidate(r) < len(u.candidates) }

// before is the order in which units began; settled ones of earlier windows come first.
func (u *unit) before(v *unit) bool { return u.order < v.order }

func (r *request) long() bool { return r != nil && len(r.units) > longRequest }

func byOrder(a, b *unit) int { return cmp.Compare(a.order, b.order) }

// without appends units but for one; it may write over the units.
func without(out, units []*unit, u *unit) []*unit {
	for _, v := range units {
		if v != u {
			out = append(out, v)
		}
	}
	return out
}
