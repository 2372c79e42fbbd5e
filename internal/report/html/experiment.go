// Package html draws results as one page that opens without a network. In comes
// a result of package report, out goes a file with its styles, its code, its
// chart library and its data inside. [Experiment] draws a balancing experiment:
// page.html is its structure with every figure in a table, page.css its looks,
// and page.js draws the charts from the [data] in the page.
//
// The page's content security policy forbids every request, and every script
// and style but its own, which it names by hash.
package html

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"

	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/uplot"
)

//go:embed page.html page.css page.js
var files embed.FS

// Experiment writes the page about an experiment. The error is the writer's.
func Experiment(w io.Writer, e *report.Experiment) error {
	page, err := template.ParseFS(files, "page.html")
	if err != nil {
		return fmt.Errorf("parsing the page: %w", err)
	}
	content, err := newContent(e)
	if err != nil {
		return err
	}
	return page.Execute(w, content)
}

// content is what page.html is filled with.
type content struct {
	*report.Experiment
	// Headline is the verdict with its figures kept on one line each.
	Headline string
	Policy   string
	Styles   template.CSS
	Scripts  []template.JS
	Licence  string
	Data     data
	// Columns is how many the comparison has.
	Columns  int
	Recorded []setting
	// Changes follows the endpoints from the first arm to each other one, the
	// arm that the verdict is about first.
	Changes []changes
}

func newContent(e *report.Experiment) (content, error) {
	texts := map[string]string{}
	for _, name := range []string{"page.css", "page.js"} {
		text, err := files.ReadFile(name)
		if err != nil {
			return content{}, fmt.Errorf("reading the page's %s: %w", name, err)
		}
		texts[name] = string(text)
	}
	styles := uplot.Styles + "\n" + texts["page.css"]
	library, code := uplot.Script, texts["page.js"]
	return content{
		Experiment: e,
		Headline:   unbroken.Replace(e.Verdict()),
		Policy: fmt.Sprintf("default-src 'none'; style-src %s; script-src %s %s; base-uri 'none'; form-action 'none'",
			hash(styles), hash(library), hash(code)),
		Styles:  template.CSS(styles),
		Scripts: []template.JS{template.JS(library), template.JS(code)},
		Licence: uplot.Licence,
		Data:    newData(e),
		Columns: len(e.Arms) + 1, Recorded: recorded(e.Settings),
		Changes: allChanges(e),
	}, nil
}

var unbroken = strings.NewReplacer(" %", "\u00a0%", " →", "\u00a0→", "→ ", "→\u00a0", " ms", "\u00a0ms", " cores", "\u00a0cores")

// hash is how a content security policy names an inline script or style.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
