package trap

import (
	"testing"

	"taper.dev/taper/internal/attribution"
	"taper.dev/taper/internal/capture"
)

// quiet says nothing; ears listen to some facts each, and count them.
type quiet struct{ heard int }

func (*quiet) ID() string               { return "quiet" }
func (*quiet) Findings(Scene) []Finding { return []Finding{{ID: "quiet"}} }

type exchangeEar struct{ quiet }

func (e *exchangeEar) Exchange(*capture.Exchange) { e.heard++ }

type otherEar struct{ quiet }

func (e *otherEar) Stall(*capture.Stall)         { e.heard += 10 }
func (e *otherEar) Conn(*capture.Conn)           { e.heard += 100 }
func (e *otherEar) Request(*attribution.Request) { e.heard += 1000 }
func (e *otherEar) Orphan(*attribution.Orphan)   { e.heard += 10_000 }

// Each rule is told what it listens to, once.
func TestRulesTellListeners(t *testing.T) {
	t.Parallel()
	var deaf quiet
	var first exchangeEar
	var second otherEar
	r := NewRules([]Rule{&deaf, &first, &second})
	r.Exchange(&capture.Exchange{})
	r.Stall(&capture.Stall{})
	r.Conn(&capture.Conn{})
	r.Request(&attribution.Request{})
	r.Orphan(&attribution.Orphan{})
	if deaf.heard != 0 || first.heard != 1 || second.heard != 11_110 {
		t.Errorf("heard %d, %d and %d, want 0, 1 and 11110", deaf.heard, first.heard, second.heard)
	}
	if n := len(r.Findings(Scene{})); n != 3 {
		t.Errorf("%d findings of 3 rules", n)
	}
}

// A rule that listens to nothing has a method of a wrong type.
func TestRulesListen(t *testing.T) {
	t.Parallel()
	for _, rule := range All() {
		r := NewRules([]Rule{rule})
		if len(r.exchanges)+len(r.stalls)+len(r.conns)+len(r.requests)+len(r.orphans) < 1 {
			t.Errorf("%s listens to nothing", rule.ID())
		}
	}
}
