// Package e2e tests taper against a real API server, istiod and Envoys, in a
// network of their own: see package cluster for what these are, and harness_test.go
// for what tests share. Run them as root with
//
//	make e2e              # all
//	make e2e RUN=TestName # those whose name matches
//
// Without root, or without a server, a test is skipped and says what is missing.
package e2e
