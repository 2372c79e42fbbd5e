package fleet

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/model"
)

func TestFibonacci(t *testing.T) {
	members := Fibonacci()

	byNumber := map[int]int{}
	addresses := map[string]bool{}
	for _, m := range members {
		byNumber[m.Fib]++
		addresses[m.Address] = true
	}
	if diff := cmp.Diff(map[int]int{25: 3, 26: 2, 27: 9, 29: 1}, byNumber); diff != "" {
		t.Errorf("endpoints per Fibonacci number (-want +got):\n%s", diff)
	}
	if len(addresses) != 15 {
		t.Errorf("%d different addresses, want 15", len(addresses))
	}
	want := Member{Endpoint: model.Endpoint{Address: "127.0.1.15:8080", Name: "fib-15", Capacity: 2}, Fib: 29}
	if diff := cmp.Diff(want, members[14]); diff != "" {
		t.Errorf("last member (-want +got):\n%s", diff)
	}
}
