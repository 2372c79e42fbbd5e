package explain

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/report"
)

// Difference is what differs between two explanations, A and B: positive where B takes
// longer. Its JSON is a contract: fields are added, never renamed or removed.
type Difference struct {
	A      string            `json:"a"` // what they are called
	B      string            `json:"b"`
	Routes []RouteDifference `json:"routes"`
	// Notes say what one has to know of the captures to believe the rest: which claims
	// they cannot carry, and what they lack.
	Notes []string `json:"notes,omitempty"`
}

// RouteDifference is what differs in one route.
type RouteDifference struct {
	Protocol string `json:"protocol"`
	Route    string `json:"route"` // "GET /v1/{id}"
	// A and B are null where there are no such requests.
	A      *Side             `json:"a"`
	B      *Side             `json:"b"`
	Delta  *Delta            `json:"delta_ms"` // null unless both are there
	Causes []CauseDifference `json:"causes"`
}

// Side is a route in one of the explanations.
type Side struct {
	Count  uint64  `json:"count"`
	Failed uint64  `json:"failed"`
	MeanMS float64 `json:"mean_ms"`
	P50MS  float64 `json:"p50_ms"`
	P90MS  float64 `json:"p90_ms"`
	P99MS  float64 `json:"p99_ms"`
}

// Delta is the difference of durations, in ms.
type Delta struct {
	P50    float64  `json:"p50"`
	P99    float64  `json:"p99"`
	Mean   float64  `json:"mean"`
	MeanCI Interval `json:"mean_ci"`
}

// CauseDifference is the difference of the mean time spent on a cause.
type CauseDifference struct {
	Cause   attribution.Cause `json:"cause"`
	Peer    string            `json:"peer"`
	AMS     float64           `json:"a_ms"`
	BMS     float64           `json:"b_ms"`
	DeltaMS float64           `json:"delta_ms"`
	CIMS    Interval          `json:"ci_ms"`
}

// Interval holds a difference of means, in ms, with 95 % confidence: its low and its
// high end, or nothing where there are too few requests to tell.
type Interval []float64

// Apart says whether the interval tells that there is a difference.
func (i Interval) Apart() bool { return len(i) == 2 && (i[0] > 0 || i[1] < 0) }

// String is "[−1.2, 3.4]".
func (i Interval) String() string {
	if len(i) != 2 {
		return "[unknown]"
	}
	return "[" + Signed(i[0]) + ", " + Signed(i[1]) + "]"
}

// negative is the interval of what has the other sign.
func (i Interval) negative() Interval {
	if len(i) != 2 {
		return i
	}
	return Interval{-i[1], -i[0]}
}

// Signed writes a number with the minus sign that people read.
func Signed(v float64) string {
	if text := report.Number(math.Abs(v)); v < 0 && strings.Trim(text, "0.") != "" {
		return "−" + text
	}
	return report.Number(math.Abs(v))
}

// WriteJSON writes the difference as indented JSON. The error is the writer's.
func (d *Difference) WriteJSON(w io.Writer) error { return writeJSON(w, d) }

// Compare tells what differs between two explanations, route by route, the largest
// difference in time first. Both must have been made with [Options.KeepSamples].
func Compare(nameA string, a *Explanation, nameB string, b *Explanation) *Difference {
	d := &Difference{A: nameA, B: nameB, Routes: []RouteDifference{}}
	for i := range a.Routes {
		d.Routes = append(d.Routes, compareRoutes(&a.Routes[i], b.routeLike(&a.Routes[i])))
	}
	for i := range b.Routes {
		if a.routeLike(&b.Routes[i]) == nil {
			d.Routes = append(d.Routes, compareRoutes(nil, &b.Routes[i]))
		}
	}
	slices.SortStableFunc(d.Routes, func(p, q RouteDifference) int { return cmp.Compare(q.weight(), p.weight()) })
	d.Notes = append(a.notes(nameA), b.notes(nameB)...)
	return d
}

func (e *Explanation) notes(name string) []string {
	var notes []string
	for _, refusal := range e.Refusals {
		notes = append(notes, name+": "+refusal)
	}
	if lacks := e.Capture.Lacks(); lacks != "" {
		notes = append(notes, name+" lacks: "+lacks)
	}
	return notes
}

func (e *Explanation) routeLike(r *Route) *Route {
	for i := range e.Routes {
		if s := &e.Routes[i]; s.Method == r.Method && s.Route == r.Route && s.Protocol == r.Protocol {
			return s
		}
	}
	return nil
}

// weight orders differences: by how much time they make for the requests there are.
// Routes that only one side has come last.
func (r *RouteDifference) weight() float64 {
	if r.Delta == nil {
		return -1
	}
	return math.Abs(r.Delta.Mean) * float64(min(r.A.Count, r.B.Count))
}

func compareRoutes(a, b *Route) RouteDifference {
	r := RouteDifference{A: a.side(), B: b.side(), Causes: []CauseDifference{}}
	for _, route := range []*Route{a, b} {
		if route != nil {
			r.Protocol, r.Route = route.Protocol, route.Name()
		}
	}
	if a == nil || b == nil {
		return r
	}
	keys := partKeys(a, b)
	spread := bootstrap(a.samples, b.samples, keys)
	mean := b.MeanMS - a.MeanMS
	r.Delta = &Delta{P50: b.P50MS - a.P50MS, P99: b.P99MS - a.P99MS, Mean: mean, MeanCI: spread.whole.around(mean)}
	for i, key := range keys {
		from, to := a.spent(key), b.spent(key)
		r.Causes = append(r.Causes, CauseDifference{
			Cause: key.cause, Peer: key.peer, AMS: from, BMS: to, DeltaMS: to - from,
			CIMS: spread.parts[i].around(to - from),
		})
	}
	slices.SortStableFunc(r.Causes, func(p, q CauseDifference) int {
		return cmp.Compare(math.Abs(q.DeltaMS), math.Abs(p.DeltaMS))
	})
	return r
}

func (r *Route) side() *Side {
	if r == nil {
		return nil
	}
	return &Side{r.Count, r.Failed, r.MeanMS, r.P50MS, r.P90MS, r.P99MS}
}

// partKeys are the parts of both.
func partKeys(a, b *Route) []partKey {
	var keys []partKey
	for _, r := range []*Route{a, b} {
		for _, p := range r.Parts {
			if key := (partKey{p.Cause, p.Peer}); !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

func (r *Route) spent(key partKey) float64 {
	for _, p := range r.Parts {
		if p.Cause == key.cause && p.Peer == key.peer {
			return p.MeanMS
		}
	}
	return 0
}

// Verdict says in one sentence what differs in the route.
func (d *Difference) Verdict(r *RouteDifference) string {
	switch {
	case r.A == nil:
		return fmt.Sprintf("%s is only in %s: %s, p50 %s ms, p99 %s ms.", r.Route, d.B, requests(r.B.Count), report.Number(r.B.P50MS), report.Number(r.B.P99MS))
	case r.B == nil:
		return fmt.Sprintf("%s is only in %s: %s, p50 %s ms, p99 %s ms.", r.Route, d.A, requests(r.A.Count), report.Number(r.A.P50MS), report.Number(r.A.P99MS))
	case r.Delta.MeanCI == nil:
		return fmt.Sprintf("%s: %s in %s and %s in %s are too few to compare: %s and %s ms on average.",
			r.Route, requests(r.A.Count), d.A, requests(r.B.Count), d.B, report.Number(r.A.MeanMS), report.Number(r.B.MeanMS))
	case !r.Delta.MeanCI.Apart():
		return fmt.Sprintf("%s takes as long in %s as in %s, as far as %s and %s tell: %s and %s ms on average, difference %s.",
			r.Route, d.B, d.A, requests(r.A.Count), requests(r.B.Count),
			report.Number(r.B.MeanMS), report.Number(r.A.MeanMS), r.Delta.MeanCI)
	}
	direction := "slower"
	if r.Delta.Mean < 0 {
		direction = "faster"
	}
	verdict := fmt.Sprintf("%s is %s ms %s in %s", r.Route, report.Number(math.Abs(r.Delta.Mean)), direction, d.B)
	if why := r.why(); why != "" {
		verdict += ": " + why
	}
	return verdict + "."
}

// why lists the causes that make the difference, the largest with its interval.
func (r *RouteDifference) why() string {
	var all []string
	for i := range r.Causes {
		c := &r.Causes[i]
		if !c.CIMS.Apart() || len(all) == 3 || math.Abs(c.DeltaMS) < math.Abs(r.Delta.Mean)/100 {
			continue
		}
		direction, ci := " more ", c.CIMS
		if c.DeltaMS < 0 {
			direction, ci = " less ", ci.negative()
		}
		phrase := report.Number(math.Abs(c.DeltaMS))
		if len(all) == 0 {
			phrase += " ms " + ci.String()
		}
		phrase += direction + string(c.Cause)
		if c.Cause == attribution.Call && c.Peer != "" {
			phrase += " to " + c.Peer
		}
		all = append(all, phrase)
	}
	return enumerate(all)
}
