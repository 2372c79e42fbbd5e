// Package html draws results as one page that opens without a network. In comes
// a result of package report. [Experiment] draws a balancing experiment, measured or
// simulated: page.html is its structure with every figure in a table, page.css its
// looks, and page.js draws the charts from the [data] in the page. [Sweep] draws what a
// sweep found, with sweep.html as its structure. What all pages have is from package
// webpage.
package html

import (
	"embed"
	"io"

	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/webpage"
)

//go:embed page.html sweep.html page.css page.js
var files embed.FS

// Experiment writes the page about an experiment. The error is the writer's.
func Experiment(w io.Writer, e *report.Experiment) error {
	page := webpage.Page{Files: files, Template: "page.html", Styles: "page.css", Script: "page.js"}
	content := newContent(e)
	return page.Write(w, e.Verdict(), content, content.Data)
}

// content is what page.html is filled with.
type content struct {
	*report.Experiment
	// Headline is the verdict with its figures kept on one line each.
	Headline string
	Data     data
	// Columns is how many the comparison has.
	Columns int
	// ByArm is the comparison with a row for each arm; nil where they fit side by side.
	ByArm *byArm
	// Remarks are sentences below it.
	Remarks  []string
	Recorded []setting
	// Changes follows the endpoints from the first arm to each other one, the
	// arm that the verdict is about first.
	Changes []changes
}

type byArm struct {
	Columns []string
	Rows    []report.Row
}

// maxBeside is how many arms fit side by side.
const maxBeside = 4

func newContent(e *report.Experiment) content {
	c := content{
		Experiment: e, Headline: webpage.Unbroken(e.Verdict()), Data: newData(e), Remarks: append(e.Caveats(), e.Settling()...),
		Columns: len(e.Arms) + 1, Recorded: recorded(e.Settings, e.Simulation), Changes: allChanges(e),
	}
	if len(e.Arms) > maxBeside {
		columns, rows := e.ByArm()
		c.ByArm = &byArm{columns, rows}
	}
	return c
}
