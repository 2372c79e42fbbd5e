// Package page draws explanations as one file that opens without a network.
// [Explanation] draws one explanation, [Difference] that of two. What all pages have is
// from package webpage.
//
// The answer, the findings and the routes are HTML; page.js draws waterfalls and curves
// from the [data] in the page.
package page

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/explain"
	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/webpage"
)

//go:embed page.html difference.html page.css page.js
var files embed.FS

// Explanation writes the page about an explanation. The error is the writer's.
func Explanation(w io.Writer, e *explain.Explanation) error {
	page := webpage.Page{Files: files, Template: "page.html", Functions: functions, Styles: "page.css", Script: "page.js"}
	answer := e.Answer()
	return page.Write(w, answer.Headline, content{e, answer}, data{Files: e.Capture.Files, Routes: e.Routes, Requests: e.Requests})
}

// Difference writes the page about the difference of two explanations. The error is the
// writer's.
func Difference(w io.Writer, d *explain.Difference) error {
	page := webpage.Page{Files: files, Template: "difference.html", Functions: functions, Styles: "page.css"}
	content := difference{d}
	return page.Write(w, content.Headline(), content, nil)
}

// functions are what the templates call.
var functions = template.FuncMap{
	"number": report.Number, "count": report.Count, "join": strings.Join, "signed": explain.Signed,
	"capital": capital, "unbroken": webpage.Unbroken, "filter": filter, "segments": segments, "causes": attribution.Causes, "bars": bars,
}

// content is what page.html is filled with.
type content struct {
	*explain.Explanation
	Answer explain.Answer
}

// data is what page.js draws, in the page as JSON.
type data struct {
	Files    []explain.File    `json:"files"`
	Routes   []explain.Route   `json:"routes"`
	Requests []explain.Request `json:"requests"`
}

// difference is what difference.html is filled with.
type difference struct{ *explain.Difference }

// Headline is the first sentence of the page.
func (d difference) Headline() string {
	if len(d.Routes) == 0 {
		return "No requests: neither capture has any that could be compared."
	}
	return d.Verdict(&d.Routes[0])
}

// capital begins a phrase as a sentence.
func capital(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}

// filter is a display filter of Wireshark that shows the packets.
func filter(packets []uint64) string {
	texts := make([]string, len(packets))
	for i, n := range packets {
		texts[i] = strconv.FormatUint(n, 10)
	}
	return "frame.number in {" + strings.Join(texts, ", ") + "}"
}

// segment is a stretch of a bar that is barWidth long.
type segment struct {
	Cause    attribution.Cause
	X, Width float64
	Title    string
}

const barWidth = 1000

// segments are a route's time by cause, in the causes' order.
func segments(r explain.Route) []segment {
	var all []segment
	x := 0.0
	for _, cause := range attribution.Causes() {
		share, ms := 0.0, 0.0
		for _, p := range r.Parts {
			if p.Cause == cause {
				share, ms = share+p.Share, ms+p.MeanMS
			}
		}
		if share > 0 {
			all = append(all, segment{cause, x, share * barWidth, fmt.Sprintf("%s %s ms", cause, report.Number(ms))})
			x += share * barWidth
		}
	}
	return all
}

// bars are the two sides of a cause, as long as they are in the longest of the route.
func bars(r explain.RouteDifference, c explain.CauseDifference) [2]float64 {
	longest := 0.0
	for _, other := range r.Causes {
		longest = max(longest, other.AMS, other.BMS)
	}
	if longest == 0 {
		return [2]float64{}
	}
	return [2]float64{c.AMS / longest * barWidth, c.BMS / longest * barWidth}
}
