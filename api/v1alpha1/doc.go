// Package v1alpha1 is the Kubernetes API of taper: a [BalancePolicy] says which
// Service's load is to be balanced by what its pods can take, and its status says
// what was decided and why.
//
// Every bound is in the schema, so that what the API server has accepted is what
// the operator can run: start with [BalancePolicySpec]. Fractions are percent in
// the spec and decimal strings in the status, since floating-point numbers do not
// survive every JSON library unchanged.
//
// +kubebuilder:object:generate=true
// +groupName=taper.dev
package v1alpha1
