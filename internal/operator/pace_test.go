package operator

import (
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	t.Parallel()
	p := pace{every: 100 * time.Millisecond, atOnce: 3}
	for i, test := range []struct{ now, want time.Duration }{
		{0, 0}, // three come at once
		{0, 0},
		{0, 0},
		{0, 100 * time.Millisecond}, // the next keep their distance
		{0, 200 * time.Millisecond},
		{50 * time.Millisecond, 300 * time.Millisecond},
		{time.Minute, time.Minute}, // a pause gives back three, not hundreds
		{time.Minute, time.Minute},
		{time.Minute, time.Minute},
		{time.Minute, time.Minute + 100*time.Millisecond},
	} {
		if got := p.next(noon.Add(test.now)); !got.Equal(noon.Add(test.want)) {
			t.Errorf("%d: asked at %s: got %s, want %s", i, test.now, got.Sub(noon), test.want)
		}
	}
}
