package predict

import (
	"bytes"
	"math"
	"testing"
)

// Whatever was measured, there is a prediction that can be written, or one line that says
// why not.
func FuzzPredict(f *testing.F) {
	f.Add(0.3, 0.7, 100.0, 100.0, 0.5, 8.0, uint8(5), uint8(3))
	f.Add(1.99, 1.99, 1e-6, 1e6, 1e-9, 1e-9, uint8(3), uint8(0))
	f.Add(1e-12, 2.0, 1e9, 1.0, 10.0, 1e5, uint8(4), uint8(1))
	f.Add(0.5, 0.0, 10.0, 0.0, 0.0, 0.0, uint8(9), uint8(7))
	f.Add(0.5, 0.6, 0.0, 0.0, 5.0, 50.0, uint8(6), uint8(2))
	f.Fuzz(func(t *testing.T, cpu1, cpu2, rate1, rate2, p50, p99 float64, windows, missing uint8) {
		s := even(int(windows%12), sample(cpu1, rate1), sample(cpu2, rate2), sample(cpu1/2, rate1), sample(cpu2/3, rate1))
		if len(s.Windows) > 0 {
			delete(s.Windows[int(missing)%len(s.Windows)].Samples, "a")
		}
		if p99 > 0 {
			s.Today = &Latency{P50: p50 / 1000, P99: p99 / 1000}
		}
		s.Proxies = int(missing) % 4
		o := DefaultOptions()
		o.Draws, o.requests = 10, 100
		p, err := Predict(t.Context(), s, o, silent)
		if err != nil {
			if bytes.ContainsRune([]byte(err.Error()), '\n') {
				t.Errorf("more than one line: %q", err)
			}
			return
		}
		var out bytes.Buffer
		if err := p.WriteJSON(&out); err != nil {
			t.Fatal(err)
		}
		for _, a := range p.Arms {
			if !(a.CPU.Low <= a.CPU.Median && a.CPU.Median <= a.CPU.High) || a.CPU.Low < 0 || math.IsInf(a.CPU.High, 1) {
				t.Errorf("%s uses %+v cores", a.Name, a.CPU)
			}
		}
	})
}
