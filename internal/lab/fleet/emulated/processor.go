package emulated

import (
	"container/heap"
	"math"
)

// processor shares virtual cores between jobs: egalitarian processor sharing,
// where each of n active jobs progresses at rate min(1, cores/n).
//
// All active jobs progress alike, so one number says how far each has come: the
// service that a job present all along would have attained. A job is served
// when that number has risen by the job's demand since it arrived. Between two
// departures it rises in a straight line, which makes the schedule exact, with
// no time step.
//
// Times are in seconds since an origin of the caller's choosing, and never run
// back. A processor knows no clock: that is what makes it testable.
type processor struct {
	cores float64
	// now is the time up to which everything below is true.
	now float64
	// attained is the service that each active job has got since the processor
	// was last idle, in seconds.
	attained float64
	// used is the CPU time given to all jobs so far, in seconds.
	used float64
	jobs jobs
}

// job is one request's work.
type job struct {
	// due is the attained service at which the job is served.
	due float64
	// served is closed by the scheduler when the job has been served.
	served chan struct{}
}

// rate is how fast each active job progresses, in CPU-seconds per second.
func (p *processor) rate() float64 {
	return math.Min(1, p.cores/float64(len(p.jobs)))
}

// add admits a job of the given demand, in CPU-seconds, at the current time.
func (p *processor) add(j *job, demand float64) {
	j.due = p.attained + demand
	heap.Push(&p.jobs, j)
}

// next returns when the first job leaves if nothing else arrives, and false
// when there is none.
func (p *processor) next() (float64, bool) {
	if len(p.jobs) == 0 {
		return 0, false
	}
	return p.now + math.Max(0, p.jobs[0].due-p.attained)/p.rate(), true
}

// advance takes the processor to the given time and returns the jobs that were
// served on the way, in the order in which they left.
func (p *processor) advance(to float64) []*job {
	var served []*job
	for {
		leaves, some := p.next()
		if !some || leaves > to {
			break
		}
		p.work(leaves)
		// Rounding must not keep a job whose time has come.
		p.attained = math.Max(p.attained, p.jobs[0].due)
		served = append(served, heap.Pop(&p.jobs).(*job))
		p.rest()
	}
	p.work(to)
	return served
}

// work lets every active job progress until the given time; none leaves before.
func (p *processor) work(until float64) {
	if until <= p.now {
		return
	}
	if n := float64(len(p.jobs)); n > 0 {
		each := (until - p.now) * p.rate()
		p.attained += each
		p.used += n * each
	}
	p.now = until
}

// rest starts counting the attained service anew when the processor is idle, so
// that it keeps its precision however long the processor runs.
func (p *processor) rest() {
	if len(p.jobs) == 0 {
		p.attained = 0
	}
}

// jobs is a heap: the first to be served comes first.
type jobs []*job

func (q jobs) Len() int           { return len(q) }
func (q jobs) Less(i, k int) bool { return q[i].due < q[k].due }
func (q jobs) Swap(i, k int)      { q[i], q[k] = q[k], q[i] }
func (q *jobs) Push(x any)        { *q = append(*q, x.(*job)) }

func (q *jobs) Pop() any {
	last := len(*q) - 1
	j := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return j
}
