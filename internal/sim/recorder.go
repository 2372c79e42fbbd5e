package sim

// recorder measures a run.
type recorder struct {
	// begin and end are between which times requests must arrive to be measured; those are
	// waited for until patience.
	begin, end, patience float64
	// open is how many of them have no end yet.
	open uint64

	result Result
	// stepLength is that of the series' steps; current is the one that is under way.
	stepLength float64
	current    int
	stepCPU    float64 // of all servers, before this step
	before     []usage // at begin
}

// usage is what a server has done until some time.
type usage struct {
	cpu, full float64
	served    uint64
	inFlight  int
}

func newRecorder(s *Service, steps int) *recorder {
	r := &recorder{begin: s.WarmUp, end: s.WarmUp + s.Measure, patience: s.WarmUp + 2*s.Measure}
	r.result = Result{Seconds: s.Measure, Latency: NewHistogram(), Servers: make([]ServerResult, len(s.Servers))}
	r.before = make([]usage, len(s.Servers))
	for i := range r.result.Servers {
		r.result.Servers[i].Latency = newHistogram(roughBits)
	}
	r.stepLength = r.end / float64(steps)
	r.result.Series = make([]Step, steps)
	for i := range r.result.Series {
		r.result.Series[i] = Step{At: float64(i) * r.stepLength, Latency: newHistogram(roughBits)}
	}
	return r
}

// measure enters when what is measured begins and ends.
func (e *engine) measure() {
	e.agenda.add(e.begin, func() {
		for i := range e.before {
			e.before[i] = e.usage(i)
		}
	})
	e.agenda.add(e.end, e.measured)
	if len(e.result.Series) > 1 {
		e.agenda.add(e.stepLength, e.endStep)
	}
}

func (e *engine) usage(server int) usage {
	cpu := e.cpu(server) // up to now
	s := &e.servers[server]
	return usage{cpu, s.full, s.served, s.inFlight()}
}

// crowded is the part of the time in which all cores of a saturated server are in use.
const crowded = 0.995

// measured notes what servers did, and ends the last step.
func (e *engine) measured() {
	e.endStep()
	for i, before := range e.before {
		now := e.usage(i)
		r := &e.result.Servers[i]
		r.Served = now.served - before.served
		r.CPU = (now.cpu - before.cpu) / e.result.Seconds
		if now.full-before.full >= crowded*e.result.Seconds && now.inFlight > before.inFlight {
			e.result.Saturated = append(e.result.Saturated, i)
		}
	}
}

// endStep ends a step of the series.
func (e *engine) endStep() {
	var cpu float64
	inFlight := 0
	for i := range e.servers {
		cpu += e.cpu(i)
		inFlight += e.servers[i].inFlight()
	}
	s := &e.result.Series[e.current]
	s.CPU, s.InFlight = (cpu-e.stepCPU)/e.stepLength, inFlight
	e.stepCPU = cpu
	e.current++
	if e.current < len(e.result.Series)-1 {
		e.agenda.add(float64(e.current+1)*e.stepLength, e.endStep)
	}
}

// counts tells whether a request that arrived then is measured.
func (r *recorder) counts(arrived float64) bool { return arrived >= r.begin && arrived < r.end }

// begun is the arrival of a request.
func (r *recorder) begun(now float64) {
	if r.counts(now) {
		r.open++
	}
}

// attempted is an answer to an attempt.
func (r *recorder) attempted(a *attempt, now float64) {
	if r.counts(a.arrived) {
		r.result.Servers[a.server].Latency.Record(now - a.sent)
	}
}

// ended is the end of a request.
func (e *engine) ended(r request, failed bool) {
	took := e.now - r.arrived
	if e.current < len(e.result.Series) {
		s := &e.result.Series[e.current]
		s.Requests++
		if failed {
			s.Errors++
		} else {
			s.Latency.Record(took)
		}
	}
	if !e.counts(r.arrived) {
		return
	}
	e.open--
	e.result.Requests++
	if failed {
		e.result.Errors++
	} else {
		e.result.Latency.Record(took)
	}
}

// conclude counts what has no end, and returns the result.
func (e *engine) conclude() *Result {
	unused := make(map[int32]bool, len(e.unused))
	for _, i := range e.unused {
		unused[i] = true
	}
	for i := range e.attempts {
		a := &e.attempts[i]
		if unused[int32(i)] || a.abandoned || !e.counts(a.arrived) {
			continue
		}
		e.result.Left++
		e.result.Requests++
		e.result.Latency.Record(e.now - a.arrived)
	}
	if e.loop != nil {
		e.result.Decisions, e.result.Verdicts = e.loop.decided, e.loop.verdicts
	}
	for i, weight := range e.weights() {
		e.result.Servers[e.members[i]].Weight = weight
	}
	return &e.result
}
