//go:build e2e

package e2e

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

// leads tells whether a replica acts.
func (p *operatorProcess) leads(ctx context.Context) bool {
	text, err := fetch(ctx, p.URL+"/metrics")
	return err == nil && strings.Contains(text, "\ntaper_leader 1\n")
}

// awaitLeader returns the one of the replicas that acts, and the others.
func awaitLeader(t *testing.T, replicas []*operatorProcess) (leader *operatorProcess, standby []*operatorProcess) {
	t.Helper()
	eventually(t, withinDefault, "one replica leads", func(ctx context.Context) error {
		i := slices.IndexFunc(replicas, func(p *operatorProcess) bool { return p.leads(ctx) })
		if i < 0 {
			return errors.New("none does")
		}
		leader = replicas[i]
		standby = slices.Delete(slices.Clone(replicas), i, i+1)
		return nil
	})
	return leader, standby
}
