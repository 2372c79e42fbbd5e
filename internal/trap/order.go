package trap

import (
	"cmp"
	"fmt"
	"slices"
)

// maxFindings bounds the findings of a rule: a capture of a node has hundreds of pods
// with one trap.
const maxFindings = 10

// inOrder sorts the findings of a rule, the most expensive first: one capture always has
// one answer, though rules keep what they saw in maps. The last one says how many are
// left out.
func inOrder(found []Finding) []Finding {
	slices.SortFunc(found, func(a, b Finding) int {
		if c := cmp.Compare(b.Cost, a.Cost); c != 0 {
			return c
		}
		return cmp.Compare(a.Title, b.Title)
	})
	if more := len(found) - maxFindings; more > 0 {
		found = found[:maxFindings]
		found[maxFindings-1].Title += fmt.Sprintf(" %s like it left out.", count(uint64(more), "more finding", "more findings"))
	}
	return found
}
