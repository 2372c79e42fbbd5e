// Package measure asks what paths through a network give, so that the answer can be
// trusted: many short trials, those of different paths in turn and in random order, the
// first path beside itself for the noise floor, and an end that does not depend on what
// was found. [Run] is where to start.
//
// It does not know how a trial is done: a [Prober] does, such as an agent's client.
package measure
