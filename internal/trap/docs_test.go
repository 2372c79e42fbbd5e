package trap

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// trapRow is a row with the cells trap, sign, threshold, cost, fix and more.
var trapRow = regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` (?:\\| [^|]+ ){5}\\|$")

// TestDocs sees that docs/traps.md lists the rules, each with its reference, and the
// rules of SDKs and issuers.
func TestDocs(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../docs/traps.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	var listed, want []string
	for _, row := range trapRow.FindAllStringSubmatch(text, -1) {
		listed = append(listed, row[1])
	}
	for _, r := range All() {
		want = append(want, r.ID())
		var s story
		pairOf(t, r.ID()).has(&s)
		for _, f := range s.play(r) {
			first, _, _ := strings.Cut(f.Reference, " ")
			row := text[max(0, strings.Index(text, "| `"+r.ID()+"`")):]
			row, _, _ = strings.Cut(row, "\n")
			if !strings.Contains(row, "("+strings.TrimSuffix(first, ";")+")") {
				t.Errorf("%s refers to %s, its row in docs/traps.md does not", r.ID(), first)
			}
		}
	}
	slices.Sort(listed)
	slices.Sort(want)
	if !slices.Equal(listed, want) {
		t.Errorf("docs/traps.md lists\n%v\nand there are the rules\n%v", listed, want)
	}
	for _, s := range sdks {
		if !strings.Contains(text, "`"+s.agent+"`") {
			t.Errorf("docs/traps.md does not say when %s fetches", s.agent)
		}
	}
	for _, s := range issuers {
		if !strings.Contains(text, "| "+s.name+" |") {
			t.Errorf("docs/traps.md does not say what %s serves", s.name)
		}
	}
}
