package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

const module = "taper.dev/taper/"

// pkg is what the check needs to know of a package.
type pkg struct {
	// Path is relative to the module: internal/model.
	Path string
	// Doc is the first sentence of the doc comment.
	Doc string
	// Imports are full import paths, without those of tests.
	Imports []string
}

// check returns what is wrong with the packages, one line each.
func check(layers []layer, packages []pkg) []string {
	var wrong []string
	for _, p := range packages {
		if p.Doc == "" {
			wrong = append(wrong, fmt.Sprintf("%s has no doc comment: say what comes in, what goes out, where to start", p.Path))
		}
		at := rowOf(layers, p.Path)
		if at < 0 {
			wrong = append(wrong, fmt.Sprintf("%s is not in the table of layers: say there where it belongs", p.Path))
			continue
		}
		for _, imported := range p.Imports {
			if why := forbidden(layers, at, p.Path, imported); why != "" {
				wrong = append(wrong, fmt.Sprintf("%s must not import %s: %s", p.Path, imported, why))
			}
		}
	}
	for _, l := range layers {
		for _, name := range l.packages {
			if !slices.ContainsFunc(packages, func(p pkg) bool { return p.Path == name }) {
				wrong = append(wrong, fmt.Sprintf("%s is in the table of layers but not in the tree", name))
			}
		}
	}
	return wrong
}

// forbidden says why a package of the row at must not import something, or
// nothing if it may.
func forbidden(layers []layer, at int, importer, imported string) string {
	own, ours := strings.CutPrefix(imported, module)
	if !ours {
		if layers[at].engine {
			return impure(imported)
		}
		return ""
	}
	below := rowOf(layers, own)
	switch {
	case below < 0:
		return "it is not in the table of layers"
	case below == at:
		return "they are in one layer, whose packages do not see each other"
	case below > at:
		return "imports point down"
	case layers[at].sees != nil && !sees(layers[at].sees, importer, own):
		return "its layer sees only " + strings.Join(layers[at].sees, ", ")
	}
	return ""
}

// impure says why an engine must not import a package from outside the module.
func impure(imported string) string {
	if first, _, _ := strings.Cut(imported, "/"); strings.Contains(first, ".") {
		return "an engine imports nothing from outside the standard library"
	}
	for _, root := range engineMayNot {
		if within(root, imported) && !slices.Contains(engineMay, imported) {
			return "an engine has no client, clock, logger, file or chance in it"
		}
	}
	return ""
}

func rowOf(layers []layer, name string) int {
	return slices.IndexFunc(layers, func(l layer) bool { return slices.Contains(l.packages, name) })
}

func sees(allowed []string, importer, imported string) bool {
	return slices.ContainsFunc(allowed, func(pattern string) bool {
		if pattern == parent {
			return imported == path.Dir(importer)
		}
		if root, all := strings.CutSuffix(pattern, "/..."); all {
			return strings.HasPrefix(imported, root+"/")
		}
		return imported == pattern
	})
}

// within tells whether name is root or below it. math/rand/v2 is within
// math/rand; network is not within net.
func within(root, name string) bool {
	return name == root || strings.HasPrefix(name, root+"/")
}

// clockReads returns where a file uses the clock, one line each.
func clockReads(set *token.FileSet, file *ast.File) []string {
	name := "" // what the file calls package time
	for _, spec := range file.Imports {
		if importedPath, _ := strconv.Unquote(spec.Path.Value); importedPath != "time" {
			continue
		}
		name = "time"
		if spec.Name != nil {
			name = spec.Name.Name
		}
	}
	if name == "." {
		return []string{fmt.Sprintf("%s imports time as ., which hides uses of the clock", set.Position(file.Package).Filename)}
	}
	var reads []string
	ast.Inspect(file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := selector.X.(*ast.Ident); ok && x.Name == name && slices.Contains(clock, selector.Sel.Name) {
			reads = append(reads, fmt.Sprintf("%s uses time.%s: an engine is told the time", set.Position(n.Pos()), selector.Sel.Name))
		}
		return true
	})
	return reads
}
