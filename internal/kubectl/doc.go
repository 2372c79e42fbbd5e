// Package kubectl is the plugin `kubectl taper`. BalancePolicies come in through
// the API server, and what their status says goes out in words, tables or JSON:
// where each policy stands (status.go), why a pod gets its share (why.go), and what
// Enforce would change (diff.go). It reads and never writes.
//
// A command reads objects (cluster.go), makes a view of them, and prints the view:
// as JSON it is the contract with scripts, as text its first line answers the
// question. Start with [Main]; standing.go puts a policy's conditions into one
// state, shares.go works out what weights mean, layout.go is where views are printed.
package kubectl
