package webpage

import (
	"bytes"
	"errors"
	"html/template"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"taper.dev/taper/internal/browsertest"
	"taper.dev/taper/internal/uplot"
)

// files are those of a page that draws a chart.
func files() fstest.MapFS {
	return fstest.MapFS{
		"page.html": {Data: []byte(`{{define "header"}}<p class="origin"><b>taper</b> net</p><h1>{{shout .}}</h1>{{end}}
{{define "main"}}<section><h2>Table</h2><div class="scroll"><table><thead><tr><th>name</th><th>ms</th></tr></thead>
<tbody><tr><th>a</th><td>1</td></tr></tbody></table></div></section><figure class="chart"><div class="plot"></div></figure>{{end}}`)},
		"page.css": {Data: []byte(`h1 { color: var(--accent); }`)},
		"page.js": {Data: []byte(`const {points} = JSON.parse(document.getElementById('data').textContent);
new uPlot({width: 300, height: 200, scales: {x: {time: false}}, series: [{}, {stroke: 'red', width: 3}]},
  [points.map((_, i) => i), points], document.querySelector('.plot'));`)},
	}
}

func chart() *Page {
	return &Page{
		Files: files(), Template: "page.html", Styles: "page.css", Script: "page.js",
		Functions: template.FuncMap{"shout": func(s string) string { return s + "!" }},
	}
}

func write(t testing.TB, p *Page, content string, data any) string {
	t.Helper()
	var out bytes.Buffer
	if err := p.Write(&out, "title of "+content, content, data); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestWrite(t *testing.T) {
	t.Parallel()
	data := map[string]any{"points": []int{1, 2}, "name": "</script>"}
	html := write(t, chart(), "<i>", data)
	for _, want := range []string{
		"<title>title of &lt;i&gt; — taper</title>", "<h1>&lt;i&gt;!</h1>", "<h2>Table</h2>", "h1 { color: var(--accent); }",
		template.HTMLEscapeString(uplot.Licence[:20]), uplot.Styles, `"points":[1,2]`, `"name":"\u003c/script\u003e"`,
	} {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	plain := chart()
	plain.Chartless = true
	html = write(t, plain, "figures", data)
	for _, banned := range []string{uplot.Script[:80], uplot.Styles, "<footer>"} {
		if strings.Contains(html, banned) {
			t.Errorf("a page without charts has %.40q", banned)
		}
	}
	if !strings.Contains(html, `"points":[1,2]`) || !strings.Contains(html, "new uPlot") {
		t.Error("a page without charts lacks its data or its code")
	}
	still := chart()
	still.Script = ""
	html = write(t, still, "figures", data)
	for _, banned := range []string{"<script", uplot.Styles, "<footer>"} {
		if strings.Contains(html, banned) {
			t.Errorf("a page without code has %.40q", banned)
		}
	}
	if !strings.Contains(html, "script-src &#39;none&#39;") {
		t.Error("a page without code may have some")
	}
}

func TestInBrowser(t *testing.T) {
	browser := browsertest.Start(t)
	tab := browser.File(t, []byte(write(t, chart(), "It took 3 ms", map[string]any{"points": []int{3, 1, 2}})), browsertest.View{Width: 400, Height: 800})
	tab.Drawn(".plot canvas", 1, 4)
	tab.Fits()
	tab.Darken()
	tab.Resize(1400, 900)
	tab.Fits()
	tab.Quiet()
	tab.Confined()
}

func TestErrors(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	if err := chart().Write(failing{full}, "", "", nil); !errors.Is(err, full) {
		t.Errorf("error %v, want %v", err, full)
	}
	for name, spoil := range map[string]func(*Page){
		"template": func(p *Page) { p.Template = "other.html" },
		"styles":   func(p *Page) { p.Styles = "other.css" },
		"script":   func(p *Page) { p.Script = "other.js" },
	} {
		p := chart()
		spoil(p)
		var out bytes.Buffer
		if err := p.Write(&out, "", "", nil); err == nil || !strings.Contains(err.Error(), "other.") || out.Len() > 0 {
			t.Errorf("without its %s the page has %d bytes and the error %v", name, out.Len(), err)
		}
		if name != "template" && !errors.Is(p.Write(&out, "", "", nil), fs.ErrNotExist) {
			t.Errorf("the cause of the missing %s is lost", name)
		}
	}
}

type failing struct{ err error }

func (w failing) Write([]byte) (int, error) { return 0, w.err }

func TestUnbroken(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"p99 9 ms → 3 ms, 95 % of 2 cores": "p99 9\u00a0ms\u00a0→ 3\u00a0ms, 95\u00a0% of 2\u00a0cores",
		"nothing":                          "nothing",
	} {
		if got := Unbroken(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}
