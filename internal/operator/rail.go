package operator

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/balance"
	"taper.dev/taper/internal/source"
)

// readRail asks where a guard rail stands. Unknown is not fine.
func readRail(ctx context.Context, src source.Source, rail *v1alpha1.GuardRail) balance.Rail {
	v, ok := src.(valuer)
	if !ok {
		return balance.Rail{State: balance.RailNotRead, Message: "the guard rail cannot be read: the source answers no queries"}
	}
	value, err := v.Value(ctx, rail.Query)
	if err != nil {
		return balance.Rail{State: balance.RailNotRead, Message: fmt.Sprintf("the guard rail cannot be read: %v", err)}
	}
	most := rail.Max.AsApproximateFloat64()
	if value > most {
		return balance.Rail{State: balance.RailExceeded, Message: fmt.Sprintf("the guard rail reads %.4g, more than %s", value, rail.Max.String())}
	}
	return balance.Rail{State: balance.RailFine}
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
