package attribution

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"taper.dev/taper/internal/capture"
)

// world makes exchanges with known causes.
type world struct {
	dice   *rand.Rand
	all    []*capture.Exchange
	parent map[*capture.Exchange]*capture.Exchange // nil of calls without a request
	packet uint64
	conns  uint64
}

func newWorld(seed uint64) *world {
	return &world{dice: rand.New(rand.NewPCG(seed, 1)), parent: map[*capture.Exchange]*capture.Exchange{}}
}

const (
	ms = capture.Time(time.Millisecond)
	t0 = capture.Time(1_700_000_000_000_000_000)
)

var (
	service = netip.MustParseAddrPort("10.0.0.1:8080")
	client  = netip.MustParseAddrPort("10.0.0.9:40000")
)

func (w *world) mark(t capture.Time) capture.Mark {
	w.packet++
	return capture.Mark{Time: t, Packet: w.packet}
}

// exchange is one over an established connection.
func (w *world) exchange(from, to netip.AddrPort, local [2]bool, op, target string, start, end capture.Time) *capture.Exchange {
	w.conns++
	x := &capture.Exchange{
		Conn:     &capture.Conn{ID: w.conns, Transport: capture.TCP, Addr: [2]netip.AddrPort{from, to}, Local: local, Mid: true},
		Protocol: capture.HTTP, Op: op, Target: target, Index: 7, Status: 200,
	}
	m := w.mark(start)
	x.Request = capture.Span{First: m, Last: m, Bytes: 100}
	m = w.mark(end)
	x.Response = capture.Span{First: m, Last: m, Bytes: 100}
	w.all = append(w.all, x)
	return x
}

func (w *world) request(target string, start, end capture.Time) *capture.Exchange {
	return w.exchange(client, service, [2]bool{false, true}, "GET", target, start, end)
}

func (w *world) call(r *capture.Exchange, peer string, start, end capture.Time) *capture.Exchange {
	x := w.exchange(netip.MustParseAddrPort("10.0.0.1:50000"), netip.MustParseAddrPort("10.0.1.1:80"), [2]bool{true, false}, "GET", "/", start, end)
	x.Authority = peer
	w.parent[x] = r
	return x
}

// gamma is a number of that distribution with mean 1 (Marsaglia and Tsang 2000).
func (w *world) gamma(shape float64) float64 {
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := w.dice.NormFloat64()
		v := math.Pow(1+c*x, 3)
		if v > 0 && math.Log(w.dice.Float64()) < 0.5*x*x+d-d*v+d*math.Log(v) {
			return d * v / shape
		}
	}
}

// answer is what a Linker told.
type answer struct {
	requests []*Request
	orphans  []*Orphan
	summary  Summary
}

func (a *answer) Request(r *Request) { a.requests = append(a.requests, r) }
func (a *answer) Orphan(o *Orphan)   { a.orphans = append(a.orphans, o) }

// line is an exchange as it is told, and the moment before which all are known then.
type line struct {
	x     *capture.Exchange
	until capture.Time
}

// script puts the exchanges in the order in which a capture tells them: when they end.
func (w *world) script() []line {
	all := slices.Clone(w.all)
	slices.SortStableFunc(all, func(a, b *capture.Exchange) int { return cmp.Compare(a.End(), b.End()) })
	told := make([]line, len(all))
	oldest := maxTime
	for i := len(all) - 1; i >= 0; i-- {
		told[i] = line{all[i], min(all[i].End(), oldest)}
		oldest = min(oldest, all[i].Start())
	}
	return told
}

// tell has the exchanges attributed.
func (w *world) tell(o Options) *answer {
	a := &answer{}
	l := New(o, a)
	for _, e := range w.script() {
		l.Exchange(e.x)
		l.Advance(e.until)
	}
	a.summary = l.Finish()
	return a
}

// score compares an answer with the truth: the share of calls linked right, and how often
// links were right by stated probability, in tenths; certain ones have the last place.
type score struct {
	right, calls  int
	stated        [11]float64
	told, correct [11]int
}

func (w *world) score(a *answer) score {
	var s score
	for _, r := range a.requests {
		for _, k := range r.Links {
			ok := w.parent[k.Exchange] == r.Exchange
			i := min(int(k.Probability*10), 9)
			if k.Certainty == Certain {
				i = 10
			}
			s.calls++
			s.told[i]++
			s.stated[i] += k.Probability
			if ok {
				s.right++
				s.correct[i]++
			}
		}
	}
	for _, o := range a.orphans {
		s.calls++
		if w.parent[o.Exchange] == nil {
			s.right++
		}
	}
	return s
}

func (s score) share() float64 { return float64(s.right) / float64(s.calls) }

func (s score) String() string {
	out := fmt.Sprintf("%.3f of %d right", s.share(), s.calls)
	for i, n := range s.told {
		if n > 0 {
			out += fmt.Sprintf("; %.2f: %.2f of %d", s.stated[i]/float64(n), float64(s.correct[i])/float64(n), n)
		}
	}
	return out
}
