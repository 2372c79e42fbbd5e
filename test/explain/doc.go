// Package explain holds tests of the whole way from packets to explanations, on captures
// whose answers are known.
package explain
