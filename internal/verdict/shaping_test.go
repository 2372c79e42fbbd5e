package verdict

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

const width = 100 * time.Millisecond

// recording is what one TCP connection received in each 100 ms, between two network
// namespaces of Linux, behind a queueing discipline of tc.
type recording struct {
	Name string
	Link string
	// Rate and Burst are what tbf was told, in bytes on the wire; 0 if nothing shaped, or
	// the bucket was too small to be seen.
	Rate  float64 `json:"rate_bits_per_s"`
	Burst float64 `json:"burst_bytes"`
	Bins  []int64
}

// payload is the share of an Ethernet frame that programs see, at an MTU of 1500 with TCP
// timestamps.
const payload = 1448.0 / 1514

func TestRecordedLinks(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("testdata/bins.json")
	if err != nil {
		t.Fatal(err)
	}
	var recordings []recording
	if err := json.Unmarshal(b, &recordings); err != nil {
		t.Fatal(err)
	}
	for _, r := range recordings {
		t.Run(r.Name+" "+r.Link, func(t *testing.T) {
			t.Parallel()
			s, ok := Shaping(r.Bins, width, 0)
			switch {
			case ok != (r.Rate > 0):
				t.Errorf("shaped %v: %+v", ok, s)
			case ok:
				near(t, "sustained", s.Sustained, r.Rate/8*payload, 0.03)
				near(t, "bucket", s.Bucket, r.Burst*payload, 0.15)
			}
		})
	}
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got/want-1) > within {
		t.Errorf("%s %.4g, want %.4g within %.0f %%", what, got, want, 100*within)
	}
}

// series are bins from a rate over time, bytes per second, times noise; the last one is cut
// short.
func series(n int, r *rand.Rand, jitter float64, rate func(bin int) float64) []int64 {
	bins := make([]int64, n)
	for i := range bins {
		bins[i] = int64(rate(i) * width.Seconds() * math.Exp(jitter*r.NormFloat64()))
	}
	bins[n-1] /= 3
	return bins
}

// bucket is a rate that goes on until a bucket is empty.
func bucket(burst, floor, bytes float64) func(int) float64 {
	return func(int) float64 {
		tokens := bytes / width.Seconds()
		rate := min(burst, floor+tokens)
		bytes -= (rate - floor) * width.Seconds()
		return rate
	}
}

func TestShapedLinks(t *testing.T) {
	t.Parallel()
	const mbit = 1e6 / 8
	slowStart := func(rate func(int) float64) func(int) float64 {
		return func(i int) float64 {
			if i < 3 {
				return mbit * float64(int(20)<<(2*i))
			}
			return rate(i)
		}
	}
	for _, c := range []struct {
		name   string
		bins   int
		rate   func() func(int) float64
		bucket float64
		floor  float64
	}{
		{"500 Mbit/s, 50 MB, on 2 Gbit/s", 20, func() func(int) float64 { return bucket(2000*mbit, 500*mbit, 50e6) }, 50e6, 500 * mbit},
		{"500 Mbit/s, 300 MB, on 2 Gbit/s", 100, func() func(int) float64 { return bucket(2000*mbit, 500*mbit, 300e6) }, 300e6, 500 * mbit},
		{"a small fall", 100, func() func(int) float64 { return bucket(700*mbit, 500*mbit, 100e6) }, 100e6, 500 * mbit},
		{"a cloud's: 10 Gbit/s for 5 minutes", 6000, func() func(int) float64 { return bucket(10000*mbit, 740*mbit, 347e9) }, 347e9, 740 * mbit},
		{"slow start", 100, func() func(int) float64 { return slowStart(bucket(2000*mbit, 500*mbit, 300e6)) }, 300e6, 500 * mbit},
		{"a stall in the burst", 100, func() func(int) float64 {
			filled := bucket(2000*mbit, 500*mbit, 500e6)
			return func(i int) float64 {
				if i == 8 {
					return 0 // what is not taken now stays, but for 0.1 s of tokens
				}
				return filled(i)
			}
		}, 500e6, 500 * mbit},
		{"stairs: a peak rate, then two buckets", 200, func() func(int) float64 {
			return func(i int) float64 {
				return []float64{4000, 1500, 1500, 500, 500, 500, 500, 500, 500, 500}[i/20] * mbit
			}
		}, (2 * 3500 * mbit) + (4 * 1000 * mbit), 500 * mbit},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(20) {
				r := rand.New(rand.NewPCG(seed, 1))
				s, ok := Shaping(series(c.bins, r, 0.008, c.rate()), width, 0.1)
				if !ok {
					t.Fatalf("seed %d: not seen", seed)
				}
				near(t, "sustained", s.Sustained, c.floor, 0.03)
				near(t, "bucket", s.Bucket, c.bucket, 0.15)
			}
		})
	}
}

func TestUnshapedLinks(t *testing.T) {
	t.Parallel()
	const rate = 250e6
	steady := func(*rand.Rand) func(int) float64 { return func(int) float64 { return rate } }
	// switching is a CPU that another takes a part of, now and then.
	switching := func(bins float64) func(*rand.Rand) func(int) float64 {
		return func(r *rand.Rand) func(int) float64 {
			mode := []float64{0.7, 1.3}
			at := r.IntN(2)
			return func(int) float64 {
				if r.Float64() < 1/bins {
					at = r.IntN(2)
				}
				return rate * mode[at]
			}
		}
	}
	type world struct {
		name   string
		jitter float64
		begin  func(*rand.Rand) func(int) float64
	}
	worlds := []world{
		{"steady", 0, steady}, {"quiet", 0.01, steady}, {"noisy", 0.1, steady}, {"wild", 0.5, steady},
		{"slow start", 0.02, func(*rand.Rand) func(int) float64 {
			return func(i int) float64 { return min(rate, 1e6*math.Exp2(float64(i))) }
		}},
		{"a stall", 0.02, func(r *rand.Rand) func(int) float64 {
			at := 2 + r.IntN(10)
			return func(i int) float64 {
				if i >= at && i < at+5 {
					return 0
				}
				return rate
			}
		}},
		{"it dies", 0.02, func(r *rand.Rand) func(int) float64 {
			at := 2 + r.IntN(6)
			return func(i int) float64 {
				if i >= at {
					return 0
				}
				return rate
			}
		}},
		{"declines", 0.02, func(*rand.Rand) func(int) float64 {
			return func(i int) float64 { return rate * max(0.05, 1-float64(i)/100) }
		}},
		{"grows", 0.02, func(*rand.Rand) func(int) float64 {
			return func(i int) float64 { return rate * (1 + float64(i)/50) }
		}},
		{"half of it from the start", 0.01, func(*rand.Rand) func(int) float64 {
			return func(int) float64 { return rate / 2 }
		}},
		{"less by 15 %", 0.005, func(*rand.Rand) func(int) float64 {
			return func(i int) float64 {
				if i < 8 {
					return rate
				}
				return 0.85 * rate
			}
		}},
	}
	for _, bins := range []float64{1, 3, 10, 30, 100} {
		for _, jitter := range []float64{0.05, 0.1} {
			worlds = append(worlds, world{fmt.Sprint("modes of ", bins, " bins, noise ", jitter), jitter, switching(bins)})
		}
	}
	for _, w := range worlds {
		for _, n := range []int{10, 20, 50, 100, 600} {
			t.Run(fmt.Sprint(w.name, " ", n), func(t *testing.T) {
				t.Parallel()
				seen := 0
				for seed := range uint64(*simulated) {
					r := rand.New(rand.NewPCG(seed, 2))
					if _, ok := Shaping(series(n, r, w.jitter, w.begin(r)), width, 0); ok {
						seen++
					}
				}
				// 20 of 20 runs without a false one, 98 times of 100.
				if share := float64(seen) / float64(*simulated); share > 0.001+by(0.001, *simulated) {
					t.Errorf("seen in %.2f %% of runs", 100*share)
				}
			})
		}
	}
}

func TestShapingIsNotSeen(t *testing.T) {
	t.Parallel()
	shaped := series(50, rand.New(rand.NewPCG(1, 1)), 0, bucket(250e6, 62.5e6, 100e6))
	if _, ok := Shaping(shaped, width, math.NaN()); !ok {
		t.Fatal("the example is not seen")
	}
	for name, c := range map[string]struct {
		bins    []int64
		width   time.Duration
		limited float64
	}{
		"none":                        {nil, width, 0},
		"one bin":                     {[]int64{5}, width, 0},
		"no width":                    {shaped, 0, 0},
		"the ends held it back":       {shaped, width, 0.6},
		"nothing arrived":             {make([]int64, 100), width, 0},
		"less than nothing":           {[]int64{-5, -5, -9, -9, -9, -9, -9, -9, -9, -9, -9, -9, -9, -9, -9}, width, 0},
		"too short after the fall":    {shaped[:12], width, 0},
		"the bucket outlasts it":      {shaped[:4], width, 0},
		"the bucket was empty before": {shaped[10:], width, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if s, ok := Shaping(c.bins, c.width, c.limited); ok {
				t.Errorf("seen: %+v", s)
			}
		})
	}
}

// Bins come from the other end.
func FuzzShaping(f *testing.F) {
	f.Add([]byte{200, 200, 200, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50}, int64(1e6), 0.0)
	f.Add([]byte{1, 0, 255, 3}, int64(math.MaxInt64/255), 0.4)
	f.Add([]byte{1, 0, 255, 3}, int64(math.MinInt64), math.NaN())
	f.Fuzz(func(t *testing.T, raw []byte, unit int64, limited float64) {
		bins := make([]int64, len(raw))
		for i, b := range raw {
			bins[i] = int64(b) * unit
		}
		s, ok := Shaping(bins, width, limited)
		end := time.Duration(len(bins)) * width
		if ok && !(s.Sustained > 0 && s.Burst > s.Sustained && s.Bucket > 0 && s.At >= 0 && s.At <= end) {
			t.Errorf("%v: %+v", bins, s)
		}
	})
}
