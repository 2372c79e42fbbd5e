// Package webpage makes pages of one file that open without a network: styles, code,
// chart library and data are inside. In comes what a page has of its own, a [Page]; its
// Write adds what all pages have: head, content security policy, looks and licence.
//
// frame.html is what all pages have around their templates, and frame.css gives them
// fonts, colours, light and dark, sections, tables and the place of charts. The policy
// forbids every request, and every script and style but the page's own, which it names
// by hash.
package webpage

import (
	"crypto/sha256"
	_ "embed" // for the frame
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"strings"

	"taper.dev/taper/internal/uplot"
)

// Page is what one kind of page has of its own.
type Page struct {
	// Files has the files that are named here.
	Files fs.FS
	// Template defines "header" and "main", which are filled with the content.
	Template string
	// Functions are what the template calls.
	Functions template.FuncMap
	// Styles are added to those of all pages.
	Styles string
	// Script, if any, runs after the chart library, which defines uPlot, and drawing.js, which
	// defines drawing. It finds the page's data as JSON in the element with the id data.
	Script string
	// Chartless is set if the script draws no charts: the page does not carry the library.
	Chartless bool
}

// frame is what frame.html is filled with.
type frame struct {
	Title, Policy string
	Styles        template.CSS
	Scripts       []template.JS
	Licence       string
	Content, Data any
}

var (
	//go:embed frame.html
	frameTemplate string

	//go:embed frame.css
	frameStyles string

	//go:embed drawing.js
	drawing string
)

// Write writes the page. Data is for its script, and ignored if it has none. The error is
// the writer's, unless a file or template of the page is wrong.
func (p *Page) Write(w io.Writer, title string, content, data any) error {
	page, err := template.New("frame.html").Funcs(p.Functions).Parse(frameTemplate)
	if err == nil {
		page, err = page.ParseFS(p.Files, p.Template)
	}
	if err != nil {
		return fmt.Errorf("parsing %s: %w", p.Template, err)
	}
	styles, err := fs.ReadFile(p.Files, p.Styles)
	if err != nil {
		return fmt.Errorf("reading the page's styles: %w", err)
	}
	f := frame{Title: title, Content: content, Styles: template.CSS(frameStyles + string(styles))}
	if p.Script != "" {
		script, err := fs.ReadFile(p.Files, p.Script)
		if err != nil {
			return fmt.Errorf("reading the page's code: %w", err)
		}
		f.Scripts, f.Data = []template.JS{template.JS(script)}, data
		if !p.Chartless {
			f.Styles = template.CSS(uplot.Styles) + "\n" + f.Styles
			f.Scripts = append([]template.JS{template.JS(uplot.Script), template.JS(drawing)}, f.Scripts...)
			f.Licence = uplot.Licence
		}
	}
	f.Policy = policy(f.Styles, f.Scripts)
	return page.Execute(w, f)
}

// policy allows these styles and scripts and nothing else.
func policy(styles template.CSS, scripts []template.JS) string {
	allowed := []string{"'none'"}
	if len(scripts) > 0 {
		allowed = nil
	}
	for _, script := range scripts {
		allowed = append(allowed, hash(string(script)))
	}
	return fmt.Sprintf("default-src 'none'; style-src %s; script-src %s; base-uri 'none'; form-action 'none'",
		hash(string(styles)), strings.Join(allowed, " "))
}

// hash is how a content security policy names an inline script or style.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

var unbroken = strings.NewReplacer(" %", "\u00a0%", " →", "\u00a0→", " ms", "\u00a0ms", " cores", "\u00a0cores")

// Unbroken keeps the figures of a headline and their units on one line each.
func Unbroken(headline string) string { return unbroken.Replace(headline) }
