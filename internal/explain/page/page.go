// Package page draws explanations as one file that opens without a network: its styles,
// its code, its chart library and its data are inside. [Explanation] draws one
// explanation, [Difference] that of two.
//
// The answer, the findings and the routes are HTML; page.js draws waterfalls and curves
// from the [data] in the page. The content security policy forbids every request, and
// every script and style but the page's own, which it names by hash.
package page

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
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
	"taper.dev/taper/internal/uplot"
)

//go:embed page.html difference.html page.css page.js
var files embed.FS

// Explanation writes the page about an explanation. The error is the writer's.
func Explanation(w io.Writer, e *explain.Explanation) error {
	frame, err := newFrame(uplot.Script, "page.js")
	if err != nil {
		return err
	}
	return execute(w, "page.html", content{
		frame: frame, Explanation: e, Answer: e.Answer(), Licence: uplot.Licence,
		Data: data{Files: e.Capture.Files, Routes: e.Routes, Requests: e.Requests},
	})
}

// Difference writes the page about the difference of two explanations. The error is the
// writer's.
func Difference(w io.Writer, d *explain.Difference) error {
	frame, err := newFrame()
	if err != nil {
		return err
	}
	return execute(w, "difference.html", difference{frame: frame, Difference: d})
}

func execute(w io.Writer, name string, content any) error {
	page, err := template.New(name).Funcs(functions).ParseFS(files, name)
	if err != nil {
		return fmt.Errorf("parsing %s: %w", name, err)
	}
	return page.Execute(w, content)
}

// functions are what the templates call.
var functions = template.FuncMap{
	"number": report.Number, "count": report.Count, "join": strings.Join, "signed": explain.Signed,
	"capital": capital, "unbroken": unbroken.Replace, "filter": filter, "segments": segments, "causes": attribution.Causes, "bars": bars,
}

// frame is what every page has.
type frame struct {
	Policy  string
	Styles  template.CSS
	Scripts []template.JS
}

// newFrame takes scripts as they are, and those of this package by name.
func newFrame(scripts ...string) (frame, error) {
	css, err := files.ReadFile("page.css")
	if err != nil {
		return frame{}, fmt.Errorf("reading the page's styles: %w", err)
	}
	f := frame{Styles: template.CSS(css)}
	if len(scripts) > 0 {
		f.Styles = template.CSS(uplot.Styles) + "\n" + f.Styles
	}
	allowed := "'none'"
	for i, script := range scripts {
		if i == 0 {
			allowed = ""
		}
		if strings.HasSuffix(script, ".js") {
			text, err := files.ReadFile(script)
			if err != nil {
				return frame{}, fmt.Errorf("reading the page's code: %w", err)
			}
			script = string(text)
		}
		f.Scripts = append(f.Scripts, template.JS(script))
		allowed += " " + hash(script)
	}
	f.Policy = fmt.Sprintf("default-src 'none'; style-src %s; script-src %s; base-uri 'none'; form-action 'none'",
		hash(string(f.Styles)), allowed)
	return f, nil
}

// hash is how a content security policy names an inline script or style.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// content is what page.html is filled with.
type content struct {
	frame
	*explain.Explanation
	Answer  explain.Answer
	Licence string
	Data    data
}

// data is what page.js draws, in the page as JSON.
type data struct {
	Files    []explain.File    `json:"files"`
	Routes   []explain.Route   `json:"routes"`
	Requests []explain.Request `json:"requests"`
}

type difference struct {
	frame
	*explain.Difference
}

// Headline is the first sentence of the page.
func (d difference) Headline() string {
	if len(d.Routes) == 0 {
		return "No requests: neither capture has any that could be compared."
	}
	return d.Verdict(&d.Routes[0])
}

// unbroken keeps figures and their units on one line.
var unbroken = strings.NewReplacer(" ms", "\u00a0ms")

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
