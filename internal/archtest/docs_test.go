package archtest

import (
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestDocsLinks(t *testing.T) {
	makefile, err := os.ReadFile(root + "/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := checkDocs(os.DirFS(root), rules(string(makefile)))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range wrong {
		t.Error(line)
	}
}

// checkDocs returns what is wrong with the Markdown files below tree, one line each.
func checkDocs(tree fs.FS, targets map[string]bool) ([]string, error) {
	documents, err := readDocuments(tree)
	if err != nil {
		return nil, err
	}
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(documents)) {
		for _, link := range documents[name].links {
			if why := dead(tree, documents, name, link); why != "" {
				wrong = append(wrong, fmt.Sprintf("%s: link to %s: %s", name, link, why))
			}
		}
		for _, target := range documents[name].targets {
			if !targets[target] {
				wrong = append(wrong, fmt.Sprintf("%s: make %s: the Makefile has no such target", name, target))
			}
		}
	}
	return wrong, nil
}

// readDocuments reads all Markdown files but those of others and of hidden folders.
func readDocuments(tree fs.FS) (map[string]document, error) {
	documents := map[string]document{}
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			hidden := name != "." && strings.HasPrefix(entry.Name(), ".")
			if hidden || entry.Name() == "third_party" || entry.Name() == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".md" {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		documents[name] = parseMarkdown(string(text))
		return err
	})
	return documents, err
}

// dead says why a link leads nowhere, or nothing if it is sound or leads out of
// the repository by an address of its own.
func dead(tree fs.FS, documents map[string]document, from, link string) string {
	u, err := url.Parse(link)
	if err != nil {
		return err.Error()
	}
	if u.Scheme != "" || u.Host != "" {
		return ""
	}
	target := from
	if u.Path != "" {
		target = path.Join(path.Dir(from), u.Path)
		if _, err := fs.Stat(tree, target); err != nil {
			return "there is no " + target
		}
	}
	if d, ok := documents[target]; ok && u.Fragment != "" && !d.anchors[u.Fragment] {
		return fmt.Sprintf("%s has no heading #%s", target, u.Fragment)
	}
	return ""
}

func TestCheckDocs(t *testing.T) {
	makefile := "# x: comment\n.PHONY: demo\nX := 1\ndemo: build\n\tcommand:\nbuild: ## Build\n"
	tests := []struct {
		name, readme string
		want         []string
	}{
		{"sound", "# A\n[file](docs/a.md) [part](docs/a.md#two-words) [here](#a) ![image](docs/i.png) [dir](docs)\n", nil},
		{"elsewhere", "[x](https://example.com/none) [y](mailto:x@example.com)\n", nil},
		{"no file", "[x](docs/b.md)\n", []string{"README.md: link to docs/b.md: there is no docs/b.md"}},
		{"no image", "[![x](i.png)](docs/a.md)\n", []string{"README.md: link to i.png: there is no i.png"}},
		{"no anchor", "[x](docs/a.md#three)\n", []string{"README.md: link to docs/a.md#three: docs/a.md has no heading #three"}},
		{"no anchor here", "# A\n[x](#b)\n", []string{"README.md: link to #b: README.md has no heading #b"}},
		{"out of the tree", "[x](../secret)\n", []string{"README.md: link to ../secret: there is no ../secret"}},
		{"reference", "[x][1]\n\n[1]: docs/b.md\n", []string{"README.md: link to docs/b.md: there is no docs/b.md"}},
		{"html", `<img src="docs/b.png">`, []string{"README.md: link to docs/b.png: there is no docs/b.png"}},
		{"code is not a link", "`[x](b)`\n```\n[x](b)\n# not a heading\n```\n[y](docs/a.md)\n", nil},
		{"headings in code", "```\n# A\n```\n[x](#a)\n", []string{"README.md: link to #a: README.md has no heading #a"}},
		{"targets", "```sh\nmake demo # make nothing\nX=1 make -j2 build Y=2 && make demo\n```\n`make build`, and make sure\n", nil},
		{"no target in a block", "```sh\nmake build && make x # demo\n```\n", []string{"README.md: make x: the Makefile has no such target"}},
		{"no target in prose", "Run `make command`.\n", []string{"README.md: make command: the Makefile has no such target"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree := fstest.MapFS{
				"README.md":             {Data: []byte(tt.readme)},
				"docs/a.md":             {Data: []byte("# One\n## Two `words`!\n")},
				"docs/i.png":            {},
				".tools/x.md":           {Data: []byte("[x](none)")},
				"x/third_party/read.md": {Data: []byte("[x](none)")},
			}
			got, err := checkDocs(tree, rules(makefile))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("checkDocs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnchorOf(t *testing.T) {
	for heading, want := range map[string]string{
		"See it: `taper lab balance`":  "see-it-taper-lab-balance",
		"[Unreleased](https://x.test)": "unreleased",
		"Déjà vu, 1.0":                 "déjà-vu-10",
		"snake_case and kebab-case":    "snake_case-and-kebab-case",
		"A & B":                        "a--b",
	} {
		if got := anchorOf(heading); got != want {
			t.Errorf("anchorOf(%q) = %q, want %q", heading, got, want)
		}
	}
	d := parseMarkdown("# Same\n# Same\n<a id=\"own\"></a>\n")
	if diff := cmp.Diff(map[string]bool{"same": true, "same-1": true, "own": true}, d.anchors); diff != "" {
		t.Errorf("anchors (-want +got):\n%s", diff)
	}
}
