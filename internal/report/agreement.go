package report

import (
	"encoding/json"
	"fmt"
	"io"
)

// Agreement is an experiment that was measured beside the same experiment simulated.
type Agreement struct {
	Scenario string `json:"scenario"`
	// Conditions say in phrases what was run and what the model was given.
	Conditions []string `json:"conditions"`
	// OverheadMS is what the simulation adds to every request of every arm, for what is not
	// in its model: it is taken from the lowest latencies that were measured.
	OverheadMS float64 `json:"overhead_ms"`
	// WithinPercent is how far apart figures may be.
	WithinPercent float64       `json:"within_percent"`
	Runs          int           `json:"runs"`
	Arms          []AgreementOf `json:"arms"`
}

// AgreementOf is one arm.
type AgreementOf struct {
	Name    string            `json:"name"`
	Figures []AgreementFigure `json:"figures"`
}

// AgreementFigure is one figure of an arm, measured and simulated.
type AgreementFigure struct {
	// Name is "p50", "p99" or "CPU".
	Name string `json:"name"`
	Unit string `json:"unit"`
	// Measured is the median over rounds; Low and High are the lowest and the highest round.
	Measured float64 `json:"measured"`
	Low      float64 `json:"lowest_round"`
	High     float64 `json:"highest_round"`
	// Simulated is the median over runs.
	Simulated float64 `json:"simulated"`
	// Ratio is simulated over measured.
	Ratio  float64 `json:"ratio"`
	Within bool    `json:"within"`
}

// Spread writes what was measured, with its rounds.
func (f *AgreementFigure) Spread() string {
	e := Estimate{f.Measured, f.Low, f.High}
	return e.Interval()
}

// Holds tells whether every figure is as near as was asked for.
func (a *Agreement) Holds() bool { return len(a.apart()) == 0 && len(a.Arms) > 0 }

// apart names the figures that are not.
func (a *Agreement) apart() (names []string) {
	for _, arm := range a.Arms {
		for _, f := range arm.Figures {
			if !f.Within {
				names = append(names, arm.Name+" "+f.Name)
			}
		}
	}
	return names
}

// Verdict answers in one sentence whether the simulation says what was measured.
func (a *Agreement) Verdict() string {
	figures, worst := 0, AgreementFigure{Ratio: 1}
	var of string
	for _, arm := range a.Arms {
		figures += len(arm.Figures)
		for _, f := range arm.Figures {
			if off(f.Ratio) >= off(worst.Ratio) {
				worst, of = f, arm.Name
			}
		}
	}
	apart := a.apart()
	switch {
	case figures == 0:
		return "No comparison: nothing was measured."
	case len(apart) == 0:
		return fmt.Sprintf("The simulation agrees with what was measured within %g %%: the furthest apart of %d figures is the %s of %s, at %s times.",
			a.WithinPercent, figures, worst.Name, of, Number(worst.Ratio))
	}
	return fmt.Sprintf("%d of %d figures are more than %g %% apart; the furthest is the %s of %s, simulated as %s times what was measured.",
		len(apart), figures, a.WithinPercent, worst.Name, of, Number(worst.Ratio))
}

// off is how far a ratio is from 1.
func off(ratio float64) float64 {
	if ratio >= 1 {
		return ratio - 1
	}
	return 1 - ratio
}

// WriteJSON writes the comparison for machines.
func (a *Agreement) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(a)
}
