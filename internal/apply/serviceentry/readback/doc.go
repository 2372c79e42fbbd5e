// Package readback reads what istiod makes of weights: which of them it serves for
// a service's ServiceEntries. Written is not served, and this is where the
// difference shows.
//
// Services go in; their [Weights] come out, read from istiod's debug interface. Start
// with [Reader.Read]. The answer tells of the whole mesh, so that it is decoded as it
// arrives (decode.go), and only what was asked for is kept.
package readback
