package explain

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/synth"
	diagnosis "taper.dev/taper/internal/explain"
	"taper.dev/taper/internal/trap"
)

// pair is a trap as packets have it, and packets that nearly have it: the two differ in
// one thing, which is on either side of one threshold.
type pair struct {
	has, nearly func(*story)
	// with are other findings that are right where the trap is, instead those where it
	// nearly is.
	with, instead []string
}

// across is a pair of one story, told with a figure that is over a threshold and with one
// that is under it.
func across[T any](over, under T, tell func(*story, T)) pair {
	return pair{
		has:    func(s *story) { tell(s, over) },
		nearly: func(s *story) { tell(s, under) },
	}
}

func (p pair) alsoFound(ids ...string) pair {
	p.with = ids
	return p
}

func (p pair) foundInstead(ids ...string) pair {
	p.instead = ids
	return p
}

// pairs are by the rules' ids, and by what they are on either side of.
var pairs = []map[string]map[string]pair{credentialPairs, dnsPairs, connectionPairs, stallPairs, failurePairs, servicePairs}

// Each trap is found in packets that have it, with the packets that show it and at its
// price, and not in packets that nearly have it. Neither has findings that are not right.
// So it is in captures that tell directions and in those that do not.
func TestTraps(t *testing.T) {
	t.Parallel()
	for _, group := range pairs {
		for id, thresholds := range group {
			for name, p := range thresholds {
				t.Run(id+"/"+name, func(t *testing.T) {
					t.Parallel()
					p.check(t, id, capture.LinkSLL2)
				})
				t.Run(id+"/"+name+" without directions", func(t *testing.T) {
					t.Parallel()
					p.check(t, id, capture.LinkEthernet)
				})
			}
		}
	}
}

func (p pair) check(t *testing.T, id string, link capture.LinkType) {
	t.Helper()
	has, nearly := tell(p.has, link), tell(p.nearly, link)
	found := findings(t, has.Capture())
	if want := append([]string{id}, p.with...); !sameIDs(found, want) {
		t.Errorf("packets that have it: found %s, want %q", said(found), want)
	}
	for _, f := range found {
		if f.ID == id {
			has.check(t, &f)
		}
	}
	if found := findings(t, nearly.Capture()); !sameIDs(found, p.instead) {
		t.Errorf("packets that nearly have it: found %s, want %q", said(found), p.instead)
	}
}

// TestEveryRuleHasPairs sees that no rule is without packets, and no packets without rule.
func TestEveryRuleHasPairs(t *testing.T) {
	t.Parallel()
	var rules, told []string
	for _, r := range trap.All() {
		rules = append(rules, r.ID())
	}
	for _, group := range pairs {
		for id, thresholds := range group {
			told = append(told, id)
			if len(thresholds) == 0 {
				t.Errorf("%s has no pair of captures", id)
			}
		}
	}
	slices.Sort(rules)
	slices.Sort(told)
	if !slices.Equal(rules, told) {
		t.Errorf("there are the rules\n%q\nand pairs of captures for\n%q", rules, told)
	}
}

// check sees that a finding names the packets that show it, the first of them if they are
// many, and what requests lost to it on average.
func (s *story) check(t *testing.T, f *diagnosis.Finding) {
	t.Helper()
	want := s.numbers(t, s.signs)
	if got := f.Evidence.Packets; len(want) == 0 || !slices.Equal(got, want[:min(len(want), trap.MaxEvidence)]) {
		t.Errorf("names packets %v, and these show it: %v", got, want)
	}
	cost := s.lost / time.Duration(s.requests)
	slack := max(time.Microsecond, time.Duration(s.slack*float64(cost)))
	if got := time.Duration(f.CostMSPerRequest * float64(ms)); (got - cost).Abs() > slack {
		t.Errorf("costs a request %v, want %v ± %v", got, cost, slack)
	}
	if len(f.Title) < 20 || f.Fix == "" || f.Reference == "" {
		t.Errorf("title %q, fix %q, reference %q", f.Title, f.Fix, f.Reference)
	}
}

// numbers are those of the packets at some times, in order. Each time must have one packet.
func (s *story) numbers(t *testing.T, times []time.Duration) []uint64 {
	t.Helper()
	at := map[capture.Time][]uint64{}
	var p capture.Packet
	all := s.Capture()
	for {
		if err := all.Next(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		at[p.Time] = append(at[p.Time], p.Number)
	}
	numbers := map[uint64]bool{}
	for _, offset := range times {
		packets := at[capture.At(s.Time(offset))]
		if len(packets) != 1 {
			t.Fatalf("%d packets %v after the beginning, want the one that shows the trap", len(packets), offset)
		}
		numbers[packets[0]] = true
	}
	return slices.Sorted(maps.Keys(numbers))
}

// findings are those of a capture, read from a file.
func findings(t *testing.T, c *synth.Capture) []diagnosis.Finding {
	t.Helper()
	path := filepath.Join(t.TempDir(), "capture.pcap")
	var b bytes.Buffer
	c.Rewind()
	if _, err := c.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := diagnosis.Run(t.Context(), diagnosis.Options{Paths: []string{path}})
	if err != nil {
		t.Fatal(err)
	}
	return e.Findings
}

func sameIDs(found []diagnosis.Finding, want []string) bool {
	got := make([]string, 0, len(found))
	for _, f := range found {
		got = append(got, f.ID)
	}
	slices.Sort(got)
	return slices.Equal(got, slices.Sorted(slices.Values(want)))
}

// said are findings as people read them.
func said(found []diagnosis.Finding) string {
	var b bytes.Buffer
	for _, f := range found {
		b.WriteString("\n" + f.ID + ": " + f.Title)
	}
	return b.String()
}

// A service as it should be has no findings, with few requests at once and with many.
func TestHealthyServices(t *testing.T) {
	t.Parallel()
	for name, plan := range map[string]synth.Plan{
		"few":                  synth.Chain(0.1, 400),
		"some":                 synth.Chain(2, 400),
		"many":                 synth.Chain(5, 200),
		"the published remedy": synth.Article(time.Hour, 400),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if found := findings(t, generate(t, plan)); len(found) > 0 {
				t.Errorf("found %s", said(found))
			}
		})
	}
}

// The published story has one trap, at what its two calls to the metadata service cost.
func TestPublishedStory(t *testing.T) {
	t.Parallel()
	c := generate(t, synth.Article(15*time.Minute, 400))
	found := findings(t, c)
	if !sameIDs(found, []string{"credential-refresh"}) {
		t.Fatalf("found %s, want credential-refresh alone", said(found))
	}
	var lost time.Duration
	for _, r := range c.Truth.Requests {
		for _, call := range r.Calls {
			if call.Cause == synth.Metadata {
				lost += call.To.Sub(call.From)
			}
		}
	}
	want := float64(lost) / float64(len(c.Truth.Requests)) / float64(ms)
	if got := found[0].CostMSPerRequest; math.Abs(got/want-1) > 0.03 {
		t.Errorf("costs a request %.2f ms, want %.2f ms within 3 %%", got, want)
	}
}
