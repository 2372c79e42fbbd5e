package pageload

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func base(t testing.TB) *url.URL {
	t.Helper()
	u, err := url.Parse("http://shop.example/list/index.html")
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// texts are the references, style sheets marked.
func texts(found []reference) []string {
	var list []string
	for _, r := range found {
		text := r.url.String()
		if r.style {
			text = "style " + text
		}
		list = append(list, strings.Replace(text, "http://shop.example", "", 1))
	}
	return list
}

func TestDocumentReferences(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, html string
		want       []string
	}{
		{"script", `<script src="/app.js"></script><script>src="no.js"</script>`, []string{"/app.js"}},
		{"old browsers' script", `<script nomodule src=old.js></script><script type=module src=new.js></script>`, []string{"/list/new.js"}},
		{"style", `<LINK REL="StyleSheet" HREF=' a.css '>`, []string{"style /list/a.css"}},
		{"another style", `<link rel="alternate stylesheet" href=a.css><link rel=stylesheet disabled href=b.css>`, nil},
		{"icon, preloads", `<link rel="shortcut icon" href=i.png><link rel=preload as=font href=f.woff2><link rel=modulepreload href=m.js>`,
			[]string{"/list/i.png", "/list/f.woff2", "/list/m.js"}},
		{"nothing to load", `<link rel=canonical href=/x><a href=/y>y</a><iframe src=/z></iframe>`, nil},
		{"image", `<img src=a.png><img src="?q=1&amp;r=2">`, []string{"/list/a.png", "/list/index.html?q=1&r=2"}},
		{"each once", `<img src=a.png#x><img src=./a.png>`, []string{"/list/a.png"}},
		{"base", `<base href="/static/"><base href="/no/"><img src=a.png>`, []string{"/static/a.png"}},
		{"another origin", `<script src=//cdn.example/a.js></script>`, []string{"http://cdn.example/a.js"}},
		{"no network", `<img src="data:image/png;base64,AA"><img src="#x"><img src=""><img src="javascript:a"><img src="http://u:p@x/">`, nil},
		{"what is inside", `<style>@import "a.css"; p { background: url(b.png) }</style><p style="background:url('c.png')">`,
			[]string{"style /list/a.css", "/list/b.png", "/list/c.png"}},
		{"what is hidden", `<noscript><img src=a.png></noscript><template><img src=b.png></template><!-- <img src=c.png> --><img src=d.png>`, []string{"/list/d.png"}},
		{"in a script", `<script>"<img src=a.png>"</script><textarea><img src=b.png></textarea>`, nil},
		{"broken", `<img src=a.png <img></p></style></noscript><img src="b.png`, []string{"/list/a.png"}},
		{"broken URL", `<img src="http://[::1"><img src="%zz"><img src=a.png>`, []string{"/list/a.png"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := texts(documentReferences([]byte(test.html), base(t))); !slices.Equal(got, test.want) {
				t.Errorf("%s\ngives %q\nwant  %q", test.html, got, test.want)
			}
		})
	}
}

func TestStyleReferences(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, css string
		want      []string
	}{
		{"picture", `p { background: red url( "a.png" ) no-repeat, url(b.png) }`, []string{"/list/a.png", "/list/b.png"}},
		{"font", `@font-face { src: URL('f.woff2') format("woff2") }`, []string{"/list/f.woff2"}},
		{"imports", `@charset "utf-8"; @import 'a.css'; @import url(b.css) screen;`, []string{"style /list/a.css", "style /list/b.css"}},
		{"an import that is none", `@import ; p { content: "a.css" } @media print { q { content: "b.css" } }`, nil},
		{"comment", `/* url(a.png) */ p { background: url(b.png) } /* @import "c.css"`, []string{"/list/b.png"}},
		{"in a string", `p { content: "url(a.png)"; quotes: '\'' "\"url(b.png)" }`, nil},
		{"another function", `p { a: my-url(a.png) url-prefix(b.png) curl(c.png) }`, nil},
		{"escapes", `p { a: u\72l(a.png); b: url(b\).png); c: url("\63 .png") }`, []string{"/list/a.png", "/list/b).png", "/list/c.png"}},
		{"a string that is broken off", "p { content: \"a\n; background: url(b.png) }", []string{"/list/b.png"}},
		{"an end too early", `p { background: url(a.png`, []string{"/list/a.png"}},
		{"marks", `p { filter: url(#f) url(data:,x) }`, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := texts(styleReferences([]byte(test.css), base(t))); !slices.Equal(got, test.want) {
				t.Errorf("%s\ngives %q\nwant  %q", test.css, got, test.want)
			}
		})
	}
}

func TestOnePictureOfASetIsChosen(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ set, plain, want string }{
		{"", "a.png", "a.png"},
		{"b.png 2x", "a.png", "a.png"},
		{"b.png 2x, c.png 1.5x", "", "c.png"},
		{"b.png 0.5x", "", "b.png"},
		{"s.png 640w, m.png 1280w, l.png 2560w", "a.png", "m.png"},
		{"s.png 320w,\n m.png 640w", "a.png", "m.png"},
		{"l.png 4000w, m.png 2000w", "", "m.png"},
		{"b.png, c.png 2x", "", "b.png"},
		{"data:,x 1x, b.png 3x", "", "data:,x"},
		{", ,b.png nonsense, c.png -1x, d.png NaNx", "a.png", "a.png"},
		{"b.png x, c.png w", "", ""},
	} {
		if got := chooseCandidate(test.set, test.plain); got != test.want {
			t.Errorf("of %q and %q, %q is chosen, want %q", test.set, test.plain, got, test.want)
		}
	}
}

// What many references take does not grow with how long a document makes them.
func TestReferencesAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<19)
	many := strings.Repeat("<img src=a><style>p { a: url(", 20000)
	for _, html := range []string{
		`<base href="/` + long + `/">` + strings.Repeat("<img src=a>", 100000),
		`<img src=` + long + `>` + many,
		`<img srcset="` + strings.Repeat("a 1x,", 100000) + `">` + many,
		`<style>` + strings.Repeat(`@import "a`, 100000) + strings.Repeat(`/*`, 100000) + strings.Repeat(`url(\`, 100000),
		strings.Repeat("<noscript><template>", 50000) + strings.Repeat("<p style='a: url(b)' ", 50000),
	} {
		size := 0
		found := documentReferences([]byte(html), base(t))
		for _, r := range found {
			size += len(r.url.String())
		}
		if len(found) > mostReferences || size > len(html) {
			t.Errorf("%d references of %d bytes in %.40s…", len(found), size, html)
		}
	}
	var html strings.Builder
	for i := range 2 * mostReferences {
		fmt.Fprintf(&html, "<img src=%d>", i)
	}
	if found := documentReferences([]byte(html.String()), base(t)); len(found) != mostReferences {
		t.Errorf("%d references are kept of %d", len(found), 2*mostReferences)
	}
}

// What is read from outside never makes references that cannot be asked for, nor more
// than are allowed.
func FuzzReferences(f *testing.F) {
	for _, seed := range []string{
		document, `<img srcset="a.png 1x, b.png 2x" src=c.png>`, `<style>@import "a.css"`, `<base href="//x"><img src=a>`,
		`@import url(a.css); p { background: url("\`, `<link rel=stylesheet href="&#x68;ttp://x">`, `/*/`, `url(`, `@import`, `"\`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, read := range []func([]byte, *url.URL) []reference{documentReferences, styleReferences} {
			found := read(b, base(t))
			if len(found) > mostReferences || len(found) > len(b) {
				t.Fatalf("%d references in %d bytes", len(found), len(b))
			}
			for _, r := range found {
				if again, err := url.Parse(r.url.String()); err != nil || again.Host == "" || origin(again) == "" {
					t.Errorf("%q cannot be asked for: %v", r.url, err)
				}
			}
		}
	})
}
