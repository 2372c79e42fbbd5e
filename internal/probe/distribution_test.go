package probe

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

func TestPercentilesAreToldOnlyWithEnoughSamplesBeyond(t *testing.T) {
	t.Parallel()
	d := NewDistribution()
	for i := range 1000 {
		d.Record(time.Duration(i+1) * time.Microsecond)
	}
	for _, test := range []struct {
		percent float64
		want    time.Duration // 0: not told
	}{
		{50, 500 * time.Microsecond},
		{99, 990 * time.Microsecond}, // ten beyond
		{99.1, 0},
		{99.9, 0},
	} {
		got, ok := d.Percentile(test.percent)
		if ok != (test.want != 0) {
			t.Errorf("p%v of 1,000: told = %v", test.percent, ok)
		}
		if ok && math.Abs(float64(got-test.want)) > float64(test.want)/500 {
			t.Errorf("p%v is %v, want %v", test.percent, got, test.want)
		}
	}
	if _, ok := NewDistribution().Percentile(50); ok {
		t.Error("an empty distribution has a median")
	}
	if NewDistribution().Summary() != nil {
		t.Error("an empty distribution has a summary")
	}
}

func TestDistributionsKeepWhatLiesOutsideTheirBounds(t *testing.T) {
	t.Parallel()
	d := NewDistribution()
	d.Record(-time.Second)
	d.Record(2 * Longest)
	if d.Count() != 2 {
		t.Fatalf("%d of 2 are kept", d.Count())
	}
	if got := d.Max(); math.Abs(float64(got-Longest)) > float64(Longest)/500 {
		t.Errorf("what is too long counts as %v, want %v", got, Longest)
	}
}

func TestDistributionsTravel(t *testing.T) {
	t.Parallel()
	d := NewDistribution()
	for _, v := range []time.Duration{time.Nanosecond, 57 * time.Microsecond, 3 * time.Second} {
		d.Record(v)
	}
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var back Distribution
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if back.Count() != 3 || back.Max() != d.Max() || back.Mean() != d.Mean() {
		t.Errorf("came back as %d up to %v, mean %v", back.Count(), back.Max(), back.Mean())
	}
	back.Add(d)
	if back.Count() != 6 {
		t.Errorf("adding 3 to 3 gives %d", back.Count())
	}
}

func FuzzDistribution(f *testing.F) {
	d := NewDistribution()
	d.Record(time.Millisecond)
	good, err := json.Marshal(d)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`""`))
	f.Add([]byte(`"HISTFAAAAA=="`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var d Distribution
		if json.Unmarshal(b, &d) != nil {
			return
		}
		d.Record(time.Second)
		if d.Count() < 1 || d.Summary() == nil {
			t.Errorf("a distribution that was read cannot be used: %s", strings.ToValidUTF8(string(b), "?"))
		}
	})
}
