package answer

import (
	"fmt"
	"math"
	"strings"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/report"
)

// mostTold bounds the differences that a headline names.
const mostTold = 3

// Comparison says what got worse, then what got better.
func Comparison(c *probe.Comparison) Answer {
	var worse, better []string
	within := len(c.Tests) > 0
	for i := range c.Tests {
		t := &c.Tests[i]
		switch t.Verdict.Outcome {
		case probe.Worse:
			worse = append(worse, moved(t))
		case probe.Better:
			better = append(better, moved(t))
		}
		within = within && t.Verdict.Within
	}
	var parts []string
	for _, side := range []struct {
		word string
		list []string
	}{{"worse", worse}, {"better", better}} {
		if len(side.list) == 0 {
			continue
		}
		text := side.word + ": " + strings.Join(side.list[:min(len(side.list), mostTold)], ", ")
		if more := len(side.list) - mostTold; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		parts = append(parts, text)
	}
	a := Answer{Headline: capital(strings.Join(parts, "; "))}
	switch {
	case len(c.Tests) == 0:
		a.Headline = "Nothing can be compared: the runs have no test in common"
	case len(parts) == 0 && within:
		a.Headline = "No difference worth telling"
	case len(parts) == 0:
		a.Headline = "No difference can be told from noise"
	}
	for _, run := range []probe.Run{c.Old, c.New} {
		if run.Incomplete != "" {
			a.Rest = append(a.Rest, run.Name+" is incomplete: "+full(run.Incomplete))
		}
	}
	for _, note := range c.Notes {
		a.Rest = append(a.Rest, full(note))
	}
	return a
}

func moved(t *probe.ComparedTest) string {
	return fmt.Sprintf("%s over %s %s → %s (%s)", label(t), t.Path, Value(t.Test, t.Old), Value(t.Test, t.New), change(t.Verdict.Ratio))
}

func label(t *probe.ComparedTest) string {
	return key{t.Test, t.Direction, t.MessageBytes, t.Streams, t.Mode}.label(nil)
}

// change writes a ratio as what was added or taken away.
func change(ratio float64) string {
	if !measured(ratio) {
		return report.Missing
	}
	sign, by := "+", ratio-1
	if by < 0 {
		sign = "-"
	}
	return sign + report.Number(100*math.Abs(by)) + " %"
}

// Difference is one row of a comparison.
type Difference struct {
	Test, Path, Old, New, Change, Interval, Trials string
	Outcome                                        probe.Outcome
	Verdict                                        string
}

// Differences are the rows of a comparison.
func Differences(c *probe.Comparison) []Difference {
	var rows []Difference
	for i := range c.Tests {
		t := &c.Tests[i]
		row := Difference{
			Test: label(t), Path: t.Path, Old: Value(t.Test, t.Old), New: Value(t.Test, t.New),
			Change: change(t.Verdict.Ratio), Interval: report.Missing, Outcome: t.Verdict.Outcome,
			Verdict: strings.ReplaceAll(Verdict(&t.Verdict), "round", "trial"),
			Trials:  fmt.Sprintf("%d, %d", t.OldTrials, t.NewTrials),
		}
		if t.MessageBytes > 0 && several(c, t) {
			row.Test += " " + message(t.MessageBytes)
		}
		if ci := t.Verdict.CI; ci != nil {
			row.Interval = strings.TrimSuffix(change(ci[0]), " %") + ".." + strings.TrimSuffix(change(ci[1]), " %")
		}
		rows = append(rows, row)
	}
	return rows
}

// several tells whether the test was done with other sizes of messages, too.
func several(c *probe.Comparison, t *probe.ComparedTest) bool {
	for i := range c.Tests {
		if o := &c.Tests[i]; o.Test == t.Test && o.MessageBytes != t.MessageBytes {
			return true
		}
	}
	return false
}
