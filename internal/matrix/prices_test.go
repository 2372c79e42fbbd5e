package matrix

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taper.dev/taper/internal/probe"
)

const priceList = "currency: USD\nperHour:\n  m5.large: 0.096\n  node-2: 0.2 # spot\n"

func TestPrices(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "prices.yaml")
	if err := os.WriteFile(path, []byte(priceList), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.bandwidth = func(_, to string, path probe.Path, _ int) float64 {
		return 1.25e9 * slow(path == probe.PodPath, 0.5) * slow(to == "node-1", 0.4)
	}
	list := agents(4, 0, probe.HostPath, probe.PodPath)
	list[1].Type, list[2].Type, list[3].Type = "m5.large", "m5.large", "c7g.large"
	o := w.options(list)
	var err error
	if o.Prices, err = LoadPrices(path); err != nil {
		t.Fatal(err)
	}
	m, _ := w.must(o)
	for i, want := range []struct{ hour, gbit float64 }{{0, 0}, {0.096, 0.024}, {0.2, 0.02}, {0, 0}} {
		a := m.Agents[i]
		if a.PricePerHour != want.hour || math.Abs(a.PricePerGbit-want.gbit) > 1e-9 {
			t.Errorf("%s: %v per hour, %v per Gbit/s, want %v", a.Name, a.PricePerHour, a.PricePerGbit, want)
		}
	}
	if m.Currency != "USD" || len(m.Notes) != 1 || !strings.Contains(m.Notes[0], "node-0, node-3") {
		t.Errorf("%q, %q", m.Currency, m.Notes)
	}
}

var wrongPrices = map[string]string{
	"":                                               "the price list is empty",
	"currency: USD":                                  "perHour is empty",
	"perHour: {a: 1}":                                `currency is ""`,
	"currency: USD\nperHour: {a: 0}":                 `perHour of "a" is 0`,
	"currency: USD\nperHour: {a: -1}":                `perHour of "a" is -1`,
	"currency: USD\nperHour: {a: .nan}":              `perHour of "a" is NaN`,
	"currency: USD\nperHour: {a: .inf}":              `perHour of "a" is +Inf`,
	"currency: USD\nperHour: {a: cheap}":             "cannot unmarshal",
	"currency: USD\nperHour: {a: 1, a: 2}":           "already defined",
	"currency: USD\nper_hour: {a: 1}":                "per_hour",
	"currency: \"\\e[31m\"\nperHour: {a: 1}":         "currency is",
	"currency: USD\nperHour: {a: 1}\n---\nb: 1":      "more than one YAML document",
	"currency: " + strings.Repeat("x", 99) + "\n":    "currency is",
	"currency: USD\nperHour: {a: 1}\n---\n{{{{ bad:": "more than one YAML document",
}

func TestWrongPrices(t *testing.T) {
	t.Parallel()
	for text, want := range wrongPrices {
		if _, err := ParsePrices([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", text, err, want)
		}
	}
	dir := t.TempDir()
	if _, err := LoadPrices(filepath.Join(dir, "none")); err == nil || !strings.Contains(err.Error(), "reading prices: open") {
		t.Error(err)
	}
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, make([]byte, maxPriceBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadPrices(large); err == nil || !strings.Contains(err.Error(), "is it the right file?") {
		t.Error(err)
	}
	wrong := filepath.Join(dir, "wrong")
	if err := os.WriteFile(wrong, []byte("currency: USD\nprices: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadPrices(wrong); err == nil || !strings.Contains(err.Error(), wrong) || !strings.Contains(err.Error(), "line 2") {
		t.Error(err)
	}
}

func FuzzPrices(f *testing.F) {
	f.Add([]byte(priceList))
	for text := range wrongPrices {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ParsePrices(text)
		if err != nil {
			return
		}
		for name := range p.PerHour {
			if price := p.of(Agent{Name: name}); !(price > 0) || math.IsInf(price, 1) {
				t.Errorf("%q costs %v", name, price)
			}
		}
	})
}
