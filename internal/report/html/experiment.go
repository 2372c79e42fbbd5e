// Package html draws results as one page that opens without a network. In comes
// a result of package report. [Experiment] draws a balancing experiment:
// page.html is its structure with every figure in a table, page.css its looks,
// and page.js draws the charts from the [data] in the page. What all pages have
// is from package webpage.
package html

import (
	"embed"
	"io"

	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/webpage"
)

//go:embed page.html page.css page.js
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
	Columns  int
	Recorded []setting
	// Changes follows the endpoints from the first arm to each other one, the
	// arm that the verdict is about first.
	Changes []changes
}

func newContent(e *report.Experiment) content {
	return content{
		Experiment: e, Headline: webpage.Unbroken(e.Verdict()), Data: newData(e),
		Columns: len(e.Arms) + 1, Recorded: recorded(e.Settings), Changes: allChanges(e),
	}
}
