package page

import (
	"slices"
	"testing"
)

func TestMerged(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		bins  []int64
		group int
		want  []int64
	}{
		{[]int64{1, 2, 3}, 1, []int64{1, 2, 3}},
		{[]int64{1, 2, 3, 4}, 2, []int64{3, 7}},
		{[]int64{10, 20, 30, 40, 50}, 3, []int64{60, 135}}, // 40 and 50, and so on
		{nil, 3, nil},
	} {
		if got := merged(test.bins, test.group); !slices.Equal(got, test.want) {
			t.Errorf("%v by %d is %v, want %v", test.bins, test.group, got, test.want)
		}
	}
	long := chart{Lines: []line{{Bins: make([]int64, 10_001)}, {Bins: make([]int64, 2)}}}
	long.thin()
	if len(long.Lines[0].Bins) != 3334 || len(long.Lines[1].Bins) != 1 || long.BinS < .299 || long.BinS > .301 {
		t.Errorf("%d and %d bins of %v s", len(long.Lines[0].Bins), len(long.Lines[1].Bins), long.BinS)
	}
}

func TestScale(t *testing.T) {
	t.Parallel()
	if got := shortest(1234567); *got != 1235000 {
		t.Errorf("four digits of 1234567 are %v", *got)
	}
	if got := shortest(88.61234); *got != 88.61 {
		t.Errorf("four digits of 88.61234 are %v", *got)
	}
}
