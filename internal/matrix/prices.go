package matrix

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"taper.dev/taper/internal/probe"
)

// Prices are what machines cost.
type Prices struct {
	// Currency is as in USD.
	Currency string `yaml:"currency"`
	// PerHour is by the name of an agent, or by the type of its machine.
	PerHour map[string]float64 `yaml:"perHour"`
}

const (
	// maxPriceBytes bounds what is read from a path that may be anything.
	maxPriceBytes = 1 << 20
	maxCurrency   = 16
)

// LoadPrices reads a price list, as [ParsePrices] does. Errors name the file.
func LoadPrices(path string) (*Prices, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading prices: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxPriceBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading prices: %w", err)
	}
	if len(text) > maxPriceBytes {
		return nil, fmt.Errorf("reading prices: %s has more than %d bytes: is it the right file?", path, maxPriceBytes)
	}
	p, err := ParsePrices(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// ParsePrices reads a price list. Names that it does not know are errors.
//
//	currency: USD
//	perHour:
//	  m5.large: 0.096 # a type of machine
//	  node-7: 0.2     # or one agent, which comes first
func ParsePrices(text []byte) (*Prices, error) {
	p := &Prices{}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(p); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the price list is empty: it has a currency, and perHour with a price for each type of machine")
		}
		return nil, fmt.Errorf("the price list is not as it should be: %w", err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one YAML document: only one is read")
	}
	return p, p.check()
}

func (p *Prices) check() error {
	if p.Currency == "" || len(p.Currency) > maxCurrency || strings.ContainsFunc(p.Currency, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("currency is %q: it takes a short name, such as USD", p.Currency)
	}
	if len(p.PerHour) == 0 {
		return errors.New("perHour is empty: name at least one type of machine, or one agent")
	}
	for name, price := range p.PerHour {
		if !(price > 0) || math.IsInf(price, 1) {
			return fmt.Errorf("perHour of %q is %v: a price is a number above 0", name, price)
		}
	}
	return nil
}

// of is the price of an agent's machine; 0 if no list has it.
func (p *Prices) of(a Agent) float64 {
	if price := p.PerHour[a.Name]; price > 0 {
		return price
	}
	if a.Type == "" {
		return 0
	}
	return p.PerHour[a.Type]
}

// price adds what machines cost, per hour, and per hour and Gbit/s that they receive at the
// median, on the native path.
func (r *run) price(m *probe.Matrix) {
	if r.Prices == nil {
		return
	}
	m.Currency = r.Prices.Currency
	received := map[string][]float64{}
	for _, c := range m.Cells {
		if c.Path == r.native && c.BytesPerS > 0 {
			received[c.To] = append(received[c.To], c.BytesPerS*8/1e9)
		}
	}
	var without []string
	for i := range m.Agents {
		a := &m.Agents[i]
		if a.PricePerHour = r.Prices.of(r.rows[i].Agent); a.PricePerHour == 0 {
			without = append(without, a.Name)
			continue
		}
		if gbits := received[a.Name]; len(gbits) > 0 {
			a.PricePerGbit = a.PricePerHour / medianOf(gbits)
		}
	}
	if len(without) > 0 {
		m.Notes = append(m.Notes, fmt.Sprintf("The price list has neither the name nor the type of %s.", few(without)))
	}
}
