package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"taper.dev/taper/api/v1alpha1"
)

// lookAgain is the pause between two looks at what is left to be released.
const lookAgain = 500 * time.Millisecond

// Release gives every service back its own weights and returns when nothing of
// taper's is left in the mesh. The policies stay, and are carried out again by an
// operator that is started later. It fails when that takes too long, and says what
// is left, or who still acts. Where the cluster does not have the type there are no
// policies, and nothing is to be done.
func Release(ctx context.Context, config *rest.Config, options Options, within time.Duration, logger *slog.Logger) error {
	options.MetricsAddress, options.HealthAddress, options.ProfileAddress = "0", "0", "0"
	op, err := newOperator(config, options, logger)
	if err != nil {
		return err
	}
	op.givingBack = true
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var left error
	termCtx, end := context.WithCancel(ctx)
	err = op.term(termCtx, func(ctx context.Context, r *reconciler) {
		defer end()
		left = r.awaitRelease(ctx)
	})
	switch {
	case errors.Is(err, errNoDefinition):
		logger.Info("nothing to release: the cluster has no BalancePolicies")
		return nil
	case left != nil:
		return left
	case err != nil:
		return err
	case !op.leading.Load():
		return fmt.Errorf("another replica still acts: the lease %s was not free within %s; stop the operator first", leaseName, within)
	}
	logger.Info("released: nothing of taper's is left in the mesh")
	return nil
}

// awaitRelease returns when no policy has the finalizer any more.
func (r *reconciler) awaitRelease(ctx context.Context) error {
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	for {
		waiting, err := r.unreleased(ctx)
		if err == nil && len(waiting) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("not released in time: %d policies, such as %v", len(waiting), some(waiting)), err)
		case <-ticker.C:
		}
	}
}

func (r *reconciler) unreleased(ctx context.Context) ([]string, error) {
	var list v1alpha1.BalancePolicyList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("reading the policies: %w", err)
	}
	var waiting []string
	for i := range list.Items {
		if controllerutil.ContainsFinalizer(&list.Items[i], finalizer) {
			waiting = append(waiting, keyOf(&list.Items[i]).String())
		}
	}
	return waiting, nil
}

// some keeps an error short.
func some(names []string) []string { return names[:min(3, len(names))] }
