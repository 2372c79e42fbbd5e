// Package page draws what taper net found as one file that opens without a network.
// [Result], [Matrix], [PageLoad] and [Comparison] draw one each. What they say is from
// package answer, what all pages have from package webpage.
//
// Answers and figures are HTML, each trial a dot in it; page.js draws curves and bandwidth
// over time from the data in the page, and matrix.js the heat map.
package page

import (
	"embed"
	"html/template"
	"io"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/answer"
	"taper.dev/taper/internal/webpage"
)

//go:embed *.html page.css page.js matrix.js
var files embed.FS

// functions are what the templates call.
var functions = template.FuncMap{"unbroken": webpage.Unbroken, "size": answer.Size}

// pageOf is a page with charts.
func pageOf(name string) *webpage.Page {
	return &webpage.Page{Files: files, Template: name, Functions: functions, Styles: "page.css", Script: "page.js"}
}

// Result writes the page about a test between two places. The error is the writer's.
func Result(w io.Writer, r *probe.Result) error {
	a := answer.Result(r)
	return pageOf("result.html").Write(w, a.Headline, resultContent{r, a}, resultData(r))
}

// PageLoad writes the page about loading a page. The error is the writer's.
func PageLoad(w io.Writer, p *probe.PageLoad) error {
	a := answer.PageLoad(p)
	return pageOf("pageload.html").Write(w, a.Headline, pageLoadContent{p, a}, pageLoadData(p))
}

// Comparison writes the page about two runs. The error is the writer's.
func Comparison(w io.Writer, c *probe.Comparison) error {
	page := pageOf("comparison.html")
	page.Script = ""
	a := answer.Comparison(c)
	return page.Write(w, a.Headline, comparisonContent{c, a}, nil)
}

// comparisonContent is what comparison.html is filled with.
type comparisonContent struct {
	*probe.Comparison
	Answer answer.Answer
}

// Rows are the differences.
func (c comparisonContent) Rows() []answer.Difference { return answer.Differences(c.Comparison) }
