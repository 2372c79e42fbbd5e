package html

import (
	"io"

	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/webpage"
)

// Sweep writes the page about a sweep. The error is the writer's.
func Sweep(w io.Writer, s *report.Sweep) error {
	page := webpage.Page{Files: files, Template: "sweep.html", Styles: "page.css", Script: "page.js"}
	content := newSweep(s)
	return page.Write(w, s.Verdict(), content, content.Data)
}

// sweep is what sweep.html is filled with.
type sweep struct {
	*report.Sweep
	Headline string
	Data     data
	Tables   []table
	Remarks  []string
	Recorded []setting
}

// table has a row for each arm and a column for each value.
type table struct {
	Title string
	Rows  []report.Row
}

func newSweep(s *report.Sweep) sweep {
	c := sweep{
		Sweep: s, Headline: webpage.Unbroken(s.Verdict()), Data: data{Arms: []arm{}, Lines: overValues(s)},
		Remarks: s.Remarks(), Recorded: recorded(s.Settings, &s.Simulation),
	}
	for _, a := range s.Arms {
		c.Data.Arms = append(c.Data.Arms, arm{Name: a.Name, Curve: newCurve(nil), Endpoints: []endpoint{}, Decisions: []decision{}})
	}
	for _, q := range report.Quantities {
		c.Tables = append(c.Tables, table{q.Name + ", " + q.Unit, s.Rows(q)})
	}
	if failed := s.Failures(); failed != nil {
		c.Tables = append(c.Tables, table{"errors", failed})
	}
	return c
}
