package attribution

import (
	"cmp"

	"taper.dev/taper/internal/random"
)

const (
	// beginnings is how often sampling begins anew. One chain alone is too sure of itself: what
	// it learned suits the links that it found, and it seldom leaves them for others that
	// are as likely. In the average over several both are seen.
	beginnings = 3
	// roundsPerCandidate is for how many rounds a chain cools and learns, times the
	// requests that a unit may belong to on average, within leastRounds and mostRounds; in
	// each of them links are sampled for roundSweeps.
	roundsPerCandidate      = 3
	leastRounds, mostRounds = 4, 40
	roundSweeps             = 5
	// warmest is the inverse temperature at which a chain begins. It has cooled down after
	// one of coolPart of its rounds.
	warmest  = 0.35
	coolPart = 3
	// steadiest is the least part of what is learned that the latest sample has.
	steadiest = 0.2
	// holdSweeps after the last lesson are not counted, then samples are taken.
	holdSweeps, samples = 5, 30
	// settleSweeps follow to choose the links to tell.
	settleSweeps = 12
	// unseen is how many samples are assumed to have disagreed.
	unseen = 0.5
	// learnedWindows is how many windows teach for as long as they are sampled: after them,
	// what is known from the past says more.
	learnedWindows = 6
	// surveyRounds is how often the first window is learned from where few chains are needed.
	surveyRounds = 4
	// longRequest is how many units a request has that is left as it was first linked.
	longRequest = 200
)

// sampler samples links in proportion to their likelihood: those of small busy periods
// from all ways to link them (period.go), the others by Markov chains (Metropolis-Hastings,
// chain.go, exchange.go).
type sampler struct {
	*random.Source
	model   *model
	open    []*unit
	small   []*period
	tangled []*unit    // open units of all other busy periods
	touch   []*request // requests that a tangled unit may belong to
	walks   []*walk
	rate    []float32 // logarithm of the rate of strays by template
	all     []*request
	a, b    []*unit // proposed lists
	beta    float64 // inverse temperature: less than 1 while modes are sought
	solver  solver

	// Of the chain that is tried: the units that moved, and what the one that is out can
	// choose from.
	moved   []move
	options []option
}

// sample links the open units of a window.
func (l *Linker) sample(open []*unit) {
	s := &sampler{Source: &l.chance, model: l.model, open: open, beta: 1}
	s.prepare(l.requests)
	if s.learning() {
		s.survey()
	} else {
		s.forget(1)
		s.conclude()
	}
	s.sampleTangled()
	s.decideSmall()
	s.model.windows++
}

// sampleTangled links the tangled units by samples, which say how probable each link is.
func (s *sampler) sampleTangled() {
	if len(s.tangled) == 0 {
		return
	}
	for _, u := range s.tangled {
		u.counts = make([]float32, len(u.candidates)+1)
	}
	for _, r := range s.touch {
		s.rescore(r)
	}
	for range beginnings {
		s.improve()
		s.take()
	}
	s.settleDown()
	for _, u := range s.tangled {
		total := float32(unseen)
		for _, n := range u.counts {
			total += n
		}
		u.probability = min(mostProbable, float64(u.counts[u.candidate(u.parent)]/total))
	}
}

// learning says whether links are learned from while they are sampled.
func (s *sampler) learning() bool { return s.model.windows < learnedWindows }

// survey learns from the links, and as long as most are of small busy periods, links by
// what was learned.
func (s *sampler) survey() {
	s.learn(1)
	rounds := 1
	if s.model.windows == 0 {
		rounds = surveyRounds
	}
	for range rounds {
		if s.mostlyTangled() {
			return // chains teach more
		}
		s.drawSmall()
		s.learn(1)
	}
}

func (s *sampler) mostlyTangled() bool { return 2*len(s.tangled) >= len(s.open) }

// improve begins a chain: warm, so that it leaves the links found so far for others that
// are as likely. Meanwhile it learns from the links and links by what was learned
// (stochastic approximation of EM: Delyon, Lavielle and Moulines 1999).
func (s *sampler) improve() {
	candidates := 0
	for _, u := range s.tangled {
		candidates += len(u.candidates)
	}
	rounds := min(mostRounds, max(leastRounds, roundsPerCandidate*candidates/len(s.tangled)))
	lessons := s.learning() && s.mostlyTangled()
	if lessons {
		s.drawSmall()
	}
	for i := range rounds {
		s.beta = min(1, warmest+(1-warmest)*float64(coolPart*i)/float64(rounds))
		for range roundSweeps {
			s.sweep()
		}
		if lessons || i == rounds-1 {
			s.learn(float32(min(1, max(steadiest, 1/float64(1+i-rounds/2)))))
		}
	}
	s.beta = 1
}

// take takes samples.
func (s *sampler) take() {
	for range holdSweeps {
		s.sweep()
	}
	for range samples {
		s.sweep()
		s.record()
	}
}

// settleDown cools until the links hardly change any more. Taken one by one, the most
// frequent parents would give some requests a call twice and others none, and so lose
// time; the links of one sample agree with each other.
func (s *sampler) settleDown() {
	for i := range settleSweeps {
		s.beta = 1 + float64(i)/2
		s.sweep()
	}
}

func (s *sampler) prepare(requests []*request) {
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
	s.all = requests
	s.split()
}

// learn counts the window as it is linked now, of which so much is new, and concludes.
func (s *sampler) learn(news float32) {
	s.forget(news)
	for _, r := range s.all {
		s.model.walks[r.route].learn(r, r.units, false, news)
	}
	s.model.learnStrays(s.open, float64(news))
	s.conclude()
}

// forget leaves so much less of what was counted of windows that are not settled.
func (s *sampler) forget(part float32) {
	for _, w := range s.walks {
		w.fade(1 - part)
	}
}

// conclude computes the likelihoods from what was counted.
func (s *sampler) conclude() {
	for _, w := range s.walks {
		w.conclude()
	}
	s.rate = s.rate[:0]
	for t := range s.model.now.within {
		s.rate = append(s.rate, s.model.logStray(int32(t)))
	}
	for _, r := range s.touch {
		s.rescore(r)
	}
}

// sweep tries one chain of moves per unit, and twice as many exchanges. They begin with a
// unit drawn from all: only so is the way back of a chain, which begins where this one
// ends, as likely.
func (s *sampler) sweep() {
	for range s.tangled {
		s.chain(s.drawUnit())
		s.exchange(s.drawUnit())
		s.exchange(s.drawUnit())
	}
}

func (s *sampler) drawUnit() *unit { return s.tangled[s.Below(len(s.tangled))] }

// record notes the links of a sample.
func (s *sampler) record() {
	for _, u := range s.tangled {
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
