package history

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/verdict"
)

// Goal is what difference is worth telling: Share of bandwidth, Latency of latency.
type Goal struct {
	Share   float64
	Latency time.Duration
}

// Validate says what is wrong.
func (g Goal) Validate() error {
	if !(g.Share > 0 && g.Share < 1) {
		return fmt.Errorf("a difference of %v is not possible: it is a share, between 0 and 1", g.Share)
	}
	if g.Latency <= 0 {
		return fmt.Errorf("a difference of %v is not possible: it must be more than 0", g.Latency)
	}
	return nil
}

// series are the trials of one test on one path of one run.
type series struct {
	probe.ComparedTest
	trials []float64
}

// id tells series of one run apart, and finds the same in another.
type id struct {
	test         probe.Test
	direction    probe.Direction
	path         string
	messageBytes int
	streams      int
	mode         probe.Mode
}

func (s *series) id() id {
	return id{s.Test, s.Direction, s.Path, s.MessageBytes, s.Streams, s.Mode}
}

// Compare compares the trials of two runs, test by test and path by path. Trials of runs
// are not paired, so the noise floor is from both, and says nothing of what is slower than
// a run. Paths are the same if they are called the same; where none is, the first ones are
// compared.
func Compare(oldName string, old Entry, newName string, new Entry, goal Goal) (*probe.Comparison, error) {
	if old.Kind() != new.Kind() {
		return nil, fmt.Errorf("%s is a %s and %s is a %s: only runs of one kind can be compared",
			oldName, old.Kind(), newName, new.Kind())
	}
	if old.Kind() == "page load" {
		return nil, errors.New("page loads have no trials that could be compared: they are one sweep each")
	}
	c := &probe.Comparison{Old: run(oldName, old), New: run(newName, new), Tests: []probe.ComparedTest{}}
	var before, after []series
	if old.Result != nil {
		before, after = ofResult(old.Result), ofResult(new.Result)
		c.Notes = samePath(before, after)
	} else {
		before, after = ofMatrices(old.Matrix, new.Matrix)
	}
	if c.Old.From != c.New.From {
		c.Notes = append(c.Notes, fmt.Sprintf("The runs are from different places: %s and %s.", c.Old.From, c.New.From))
	}
	pairs, notes := matched(before, after)
	c.Notes = append(c.Notes, notes...)
	for _, p := range pairs {
		c.Tests = append(c.Tests, compare(p[0], p[1], goal, len(pairs)))
	}
	return c, nil
}

func run(name string, e Entry) probe.Run {
	r := probe.Run{Name: name, Started: e.Started()}
	switch {
	case e.Result != nil:
		r.From, r.To, r.Incomplete = e.Result.From, e.Result.To, e.Result.Incomplete
	case e.Matrix != nil:
		r.Incomplete = e.Matrix.Incomplete
	}
	return r
}

// matched pairs the series of two runs, in the order of the new one, and says which have
// nothing to be compared with.
func matched(before, after []series) (pairs [][2]series, notes []string) {
	var added []series
	for _, a := range after {
		i := slices.IndexFunc(before, func(b series) bool { return b.id() == a.id() })
		if i < 0 {
			added = append(added, a)
			continue
		}
		pairs = append(pairs, [2]series{before[i], a})
		before = slices.Delete(before, i, i+1)
	}
	for _, side := range []struct {
		run  string
		only []series
	}{{"old", before}, {"new", added}} {
		if len(side.only) > 0 {
			notes = append(notes, fmt.Sprintf("Only the %s run has %s.", side.run, listed(side.only)))
		}
	}
	return pairs, notes
}

// mostListed bounds what a note lists.
const mostListed = 6

func listed(all []series) string {
	var texts []string
	for _, s := range all[:min(len(all), mostListed)] {
		text := string(s.Test)
		if s.Test == probe.TCPBandwidth || s.Test == probe.UDPBandwidth {
			text += " " + string(s.Direction)
		}
		texts = append(texts, strings.TrimSpace(text)+" over "+s.Path)
	}
	if more := len(all) - mostListed; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, ", ")
}

// compare judges one test on one path; together is how many are told at once.
func compare(before, after series, goal Goal, together int) probe.ComparedTest {
	g := verdict.Goal{Share: goal.Share, LowerIsBetter: after.Test.LowerIsBetter(), Comparisons: together}
	if g.LowerIsBetter {
		g.Absolute = float64(goal.Latency) / 1e3 // µs, as trials are
	}
	t := after.ComparedTest
	t.OldTrials, t.NewTrials = len(before.trials), len(after.trials)
	t.Old, t.New = median(before.trials), median(after.trials)
	t.Verdict = probe.VerdictOf(verdict.CompareRuns(before.trials, after.trials, g))
	return t
}

// median is 0 where there is none.
func median(trials []float64) float64 {
	l, _ := verdict.Estimate(trials)
	return l.Median
}

// ofResult are the series of a result and of the paths compared with it.
func ofResult(r *probe.Result) []series {
	var all []series
	add := func(p *probe.Result) {
		for _, t := range p.Tests {
			s := series{ComparedTest: probe.ComparedTest{
				Test: t.Test, Direction: t.Direction, MessageBytes: t.MessageBytes, Streams: t.Streams, Mode: t.Mode,
				Path: cmp.Or(p.Name, string(p.Path)),
			}}
			if s.trials = t.Trials; len(s.trials) > 0 {
				all = append(all, s)
			}
		}
	}
	add(r)
	for i := range r.Others {
		add(&r.Others[i])
	}
	return all
}

// samePath finds what to compare where runs have no path in common: their first ones, of
// which the old takes the name of the new.
func samePath(before, after []series) []string {
	if len(before) == 0 || len(after) == 0 {
		return nil
	}
	for _, b := range before {
		if slices.ContainsFunc(after, func(a series) bool { return a.Path == b.Path }) {
			return nil
		}
	}
	one, two := before[0].Path, after[0].Path
	for i := range before {
		if before[i].Path == one {
			before[i].Path = two
		}
	}
	return []string{fmt.Sprintf("The first path is called %s in the old run and %s in the new one.", one, two)}
}

// place is a pair of agents on a path.
type place struct {
	from, to string
	path     probe.Path
}

// ofMatrices are the series of two matrices, of which the trials are the pairs that were
// measured in both: without a slow agent alone, a matrix would look better.
func ofMatrices(before, after *probe.Matrix) (one, two []series) {
	for _, test := range []probe.Test{probe.TCPBandwidth, probe.TCPLatency} {
		old, new := figures(before, test), figures(after, test)
		add := func(into []series, m *probe.Matrix, from map[place]float64) []series {
			paths := map[probe.Path]int{}
			for _, c := range m.Cells {
				p := place{c.From, c.To, c.Path}
				_, ok1 := old[p]
				_, ok2 := new[p]
				if !ok1 || !ok2 {
					continue
				}
				i, ok := paths[c.Path]
				if !ok {
					i = len(into)
					paths[c.Path] = i
					into = append(into, series{ComparedTest: probe.ComparedTest{Test: test, Path: string(c.Path) + ", pairs of agents"}})
				}
				into[i].trials = append(into[i].trials, from[p])
			}
			return into
		}
		one, two = add(one, before, old), add(two, after, new)
	}
	return one, two
}

// figures are the cells that have one, for a test.
func figures(m *probe.Matrix, test probe.Test) map[place]float64 {
	all := map[place]float64{}
	for _, c := range m.Cells {
		switch {
		case test == probe.TCPBandwidth && c.BytesPerS > 0:
			all[place{c.From, c.To, c.Path}] = c.BytesPerS
		case test == probe.TCPLatency && c.RTT != nil && c.RTT.P50 != nil:
			all[place{c.From, c.To, c.Path}] = *c.RTT.P50
		}
	}
	return all
}
