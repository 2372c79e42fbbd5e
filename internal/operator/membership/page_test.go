package membership

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// pages answers lists of n pods by the limit; after failing pages it fails.
func pages(t *testing.T, n, failing int) func(context.Context, metav1.ListOptions) (runtime.Object, error) {
	asked := 0
	return func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
		if asked++; asked > failing {
			return nil, errors.New("gone")
		}
		if o.Limit <= 0 || o.ResourceVersion != "" {
			t.Errorf("a list with limit %d of version %q: everything comes in one piece", o.Limit, o.ResourceVersion)
		}
		first, _ := strconv.Atoi(o.Continue) // none is 0
		end := min(first+int(o.Limit), n)
		list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
		for i := first; i < end; i++ {
			list.Items = append(list.Items, *pod("demo", fmt.Sprintf("fib-%d", i), "1"))
		}
		if end < n {
			list.Continue = strconv.Itoa(end)
		}
		return list, nil
	}
}

func TestListPages(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, pageSize, pageSize + 1, 3 * pageSize} {
		list, err := listPages(t.Context(), metav1.ListOptions{ResourceVersion: "0"}, pages(t, n, 10), CompactPod)
		if err != nil {
			t.Fatal(err)
		}
		// This is how an informer reads it.
		items, err := meta.ExtractListWithAlloc(list)
		if err != nil || len(items) != n || list.ResourceVersion != "7" || list.Continue != "" {
			t.Fatalf("%d pods: got %d, version %q, continue %q: %v", n, len(items), list.ResourceVersion, list.Continue, err)
		}
		for i, item := range items {
			if p, ok := item.(*Pod); !ok || p.Name != fmt.Sprintf("fib-%d", i) {
				t.Fatalf("pod %d is %+v", i, item)
			}
		}
	}
	if list, err := listPages(t.Context(), metav1.ListOptions{}, pages(t, 3*pageSize, 2), CompactPod); err == nil {
		t.Errorf("of a list that ended early %d pods count", len(list.Items))
	}
}
