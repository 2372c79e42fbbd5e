package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/apply/serviceentry"
)

// applied is what became of giving the weights to the mesh.
type applied struct {
	status  metav1.ConditionStatus
	reason  string
	message string
	// entries are the names of those that hold the weights.
	entries []string
}

// apply brings the entries to what was decided. The error is for another try; the
// first result is for the status.
func (r *reconciler) apply(ctx context.Context, policy *v1alpha1.BalancePolicy, st *state, seen *view) (applied, error) {
	if policy.Spec.Mode != v1alpha1.Enforce {
		return applied{metav1.ConditionFalse, "Recommending", "mode is Recommend: weights are shown, not written", nil}, nil
	}
	if !st.engaged {
		return applied{metav1.ConditionFalse, "NotDecided", "nothing was decided yet that differs from equal weights", nil}, nil
	}
	wanted := r.desired(policy, st, seen)
	var names []string
	for _, entry := range wanted {
		written, err := r.applier.Apply(ctx, entry)
		if foreign, ok := errors.AsType[*serviceentry.ForeignError](err); ok {
			r.metrics.ApplyFailed(keyOf(policy), reasonForeign)
			// Entries of ours would stay as they are, with pods that nobody follows any more.
			st.weights = equalWeights(seen.endpoints) // which is what serves meanwhile
			st.written(r.now())
			return applied{metav1.ConditionFalse, reasonForeign, foreign.Error(), nil}, r.removeEntries(ctx, policy)
		}
		if err != nil {
			r.metrics.ApplyFailed(keyOf(policy), reasonWriteFailed)
			return applied{metav1.ConditionFalse, reasonWriteFailed, err.Error(), nil}, err
		}
		if written {
			r.wrote(policy, st)
		}
		names = append(names, serviceentry.Name(entry.Service, entry.Port.Name))
	}
	st.written(r.now())
	r.served.expect(keyOf(policy), wanted, r.now())
	if err := r.removeOthers(ctx, policy, names); err != nil {
		return applied{metav1.ConditionFalse, reasonWriteFailed, err.Error(), names}, err
	}
	a := r.served.verdict(keyOf(policy))
	a.entries = names
	return a, nil
}

// wrote counts a write, and how long the change of membership behind it has waited.
func (r *reconciler) wrote(policy *v1alpha1.BalancePolicy, st *state) {
	r.metrics.Written(keyOf(policy))
	if !st.arrived.IsZero() {
		r.metrics.MembershipWritten(r.now().Sub(st.arrived))
		st.arrived = time.Time{}
	}
}

// desired are the entries as they should be: one per port that has endpoints.
func (r *reconciler) desired(policy *v1alpha1.BalancePolicy, st *state, seen *view) []serviceentry.Entry {
	var entries []serviceentry.Entry
	for i, port := range seen.members.Ports {
		entry := serviceentry.Entry{
			Namespace: seen.service.Namespace, Service: seen.service.Name, Host: seen.host,
			Port: serviceentry.Port{Name: port.Name, Protocol: port.Protocol, Number: port.Number},
			Owner: metav1.OwnerReference{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "BalancePolicy", Name: policy.Name, UID: policy.UID,
			},
		}
		for j := range seen.members.Members {
			m := &seen.members.Members[j]
			if m.TargetPorts[i] == 0 {
				continue
			}
			entry.Endpoints = append(entry.Endpoints, serviceentry.Endpoint{
				Address: m.Address, Node: m.Pod.Node, TargetPort: m.TargetPorts[i], Weight: st.weights[m.Address],
				Locality: m.Locality, Network: m.Network, ServiceAccount: m.Pod.ServiceAccount, Labels: m.Pod.Labels,
			})
		}
		if len(entry.Endpoints) > 0 {
			entries = append(entries, entry)
		}
	}
	return entries
}

// records are what the cluster holds of the policy's entries for a host.
func (r *reconciler) records(host string, policy *v1alpha1.BalancePolicy) []serviceentry.Record {
	var own []serviceentry.Record
	for _, record := range r.entries.ForHost(policy.Namespace, host) {
		if record.Managed && record.Policy == policy.Name {
			own = append(own, record)
		}
	}
	return own
}

// removeEntries takes away all entries of a policy.
func (r *reconciler) removeEntries(ctx context.Context, policy *v1alpha1.BalancePolicy) error {
	return r.removeOthers(ctx, policy, nil)
}

// removeOthers takes away the policy's entries that are not named: of ports that it
// no longer balances, or that have no endpoints.
func (r *reconciler) removeOthers(ctx context.Context, policy *v1alpha1.BalancePolicy, keep []string) error {
	host := serviceentry.Host(policy.Spec.TargetRef.Name, policy.Namespace, r.options.ClusterDomain)
	kept := make(map[string]bool, len(keep))
	for _, name := range keep {
		kept[name] = true
	}
	for _, record := range r.records(host, policy) {
		if kept[record.Name] {
			continue
		}
		if err := r.applier.Remove(ctx, record.Namespace, record.Name); err != nil {
			return fmt.Errorf("removing ServiceEntry %s/%s: %w", record.Namespace, record.Name, err)
		}
	}
	return nil
}
