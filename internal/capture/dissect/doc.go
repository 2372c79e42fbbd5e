// Package dissect puts the stages of a capture in a row: packets in, exchanges,
// connections and stalls out.
//
// [Run] is all there is. The protocols are listed in protocols.go; their order matters
// only where the content of two of them is alike.
package dissect
