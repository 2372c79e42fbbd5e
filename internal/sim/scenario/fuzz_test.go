package scenario

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// FuzzParse begins with the shipped scenarios.
func FuzzParse(f *testing.F) {
	for _, name := range Shipped() {
		text, err := shipped.ReadFile(shippedFolder + "/" + name + ending)
		if err != nil {
			f.Fatal(err)
		}
		if name == "large" { // some 100 ms a time
			text = []byte(strings.NewReplacer("000,", "00,").Replace(string(text)))
		}
		f.Add(text)
	}
	f.Add([]byte(with("load: {trace: arrivals.csv}", "endpoints: [{distribution: empirical, file: demands.csv}]", "changes: [{kind: endpoint, down: true}]")))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parse("fuzz.yaml", strings.NewReader(string(text)), files)
		if err != nil {
			return
		}
		checkSound(t, s)
		for _, p := range Parameters {
			if varied, err := s.Vary(p.Name, 2); err == nil {
				checkSound(t, varied)
			}
		}
	})
}

// checkSound checks what the engine relies on.
func checkSound(t *testing.T, s *Scenario) {
	t.Helper()
	if len(s.Arms) == 0 || len(s.Service.Servers) == 0 || s.Service.Proxies < 1 || s.Rounds < 1 || !(s.Service.Measure > 0) {
		t.Errorf("got %+v", s)
	}
	for _, server := range s.Service.Servers {
		if mean := server.Demand.Mean(); !(mean > 0) || math.IsInf(mean, 1) || !(server.Cores > server.Idle) {
			t.Errorf("server %+v", server)
		}
	}
	for _, c := range s.Service.Changes {
		if c.Server < 0 || c.Server >= len(s.Service.Servers) {
			t.Errorf("change %+v", c)
		}
	}
	for _, a := range s.Arms {
		w := a.Weigher
		if w == nil {
			continue
		}
		if err := w.Policy.Validate(); err != nil && w.Fixed == nil {
			t.Errorf("arm %s: %v", a.Name, err)
		}
		if w.Fixed != nil && (len(w.Fixed) != len(s.Service.Servers) || slices.Contains(w.Fixed, 0)) {
			t.Errorf("arm %s has weights %v", a.Name, w.Fixed)
		}
	}
	l := s.Load()
	if math.IsNaN(l.Best) || math.IsNaN(l.Equal) || math.IsNaN(l.Fullest) || l.Best < 0 || s.Bytes() <= 0 {
		t.Errorf("load %+v, %d bytes", l, s.Bytes())
	}
}
