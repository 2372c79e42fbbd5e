package trap

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// pair is a rule's test: a story that has the trap, and stories that nearly have it.
type pair struct {
	has func(*story)
	// title is what the finding says, cost per request, severity.
	title    string
	cost     time.Duration
	severity Severity
	// confirmed is a part of what configuration says, of stories that give some.
	confirmed string
	near      map[string]func(*story)
}

// pairs are by the rules' ids.
var pairs = []map[string]pair{credentialPairs, dnsPairs, connectionPairs, failurePairs, requestPairs}

func pairOf(t *testing.T, id string) pair {
	t.Helper()
	for _, group := range pairs {
		if p, ok := group[id]; ok {
			return p
		}
	}
	t.Fatalf("%s has no pair of stories", id)
	return pair{}
}

func ruleOf(t *testing.T, id string) Rule {
	t.Helper()
	for _, r := range All() {
		if r.ID() == id {
			return r
		}
	}
	t.Fatalf("there is a pair of stories for %s, which is no rule", id)
	return nil
}

// TestPairs sees each trap found in the story that has it, and not found in those that
// nearly have it.
func TestPairs(t *testing.T) {
	t.Parallel()
	for _, rule := range All() {
		t.Run(rule.ID(), func(t *testing.T) {
			t.Parallel()
			p := pairOf(t, rule.ID())
			var s story
			p.has(&s)
			found := s.play(rule)
			if len(found) != 1 {
				t.Fatalf("%d findings, want 1: %+v", len(found), found)
			}
			p.check(t, rule.ID(), found[0], s.packet)
			if len(p.near) == 0 {
				t.Error("no story nearly has it")
			}
			for name, near := range p.near {
				var s story
				near(&s)
				if found := s.play(ruleOf(t, rule.ID())); len(found) > 0 {
					t.Errorf("%s: %+v", name, found)
				}
			}
		})
	}
}

func (p pair) check(t *testing.T, id string, f Finding, packets uint64) {
	t.Helper()
	if f.ID != id || f.Severity != p.severity {
		t.Errorf("%s, %s; want %s, %s", f.ID, f.Severity, id, p.severity)
	}
	if f.Title != p.title {
		t.Errorf("title\n%s\nwant\n%s", f.Title, p.title)
	}
	if f.Cost != p.cost {
		t.Errorf("cost %v a request, want %v", f.Cost, p.cost)
	}
	if f.Fix == "" || !strings.HasSuffix(f.Fix, ".") || f.Reference == "" {
		t.Errorf("fix %q, reference %q; want a sentence and where to read on", f.Fix, f.Reference)
	}
	if (p.confirmed == "") != (f.Confirmed == "") || !strings.Contains(f.Confirmed, p.confirmed) {
		t.Errorf("confirmed by %q, want %q", f.Confirmed, p.confirmed)
	}
	n := len(f.Evidence)
	if n == 0 || n > MaxEvidence || !slices.IsSorted(f.Evidence) || f.Evidence[0] == 0 || f.Evidence[n-1] > packets {
		t.Errorf("evidence %v of %d packets; want up to %d of them in order", f.Evidence, packets, MaxEvidence)
	}
}

// TestEveryPairHasRule finds pairs whose rule is gone.
func TestEveryPairHasRule(t *testing.T) {
	t.Parallel()
	for _, group := range pairs {
		for id := range group {
			ruleOf(t, id)
		}
	}
}

// TestAllIsFresh sees that captures do not share rules.
func TestAllIsFresh(t *testing.T) {
	t.Parallel()
	a, b := All(), All()
	seen := map[string]bool{}
	for i := range a {
		if a[i] == b[i] {
			t.Errorf("%s is one rule for all captures", a[i].ID())
		}
		if seen[a[i].ID()] {
			t.Errorf("%s is listed twice", a[i].ID())
		}
		seen[a[i].ID()] = true
	}
}
