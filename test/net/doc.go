// Package net holds tests of taper net as its users meet it: the real program, run in
// network namespaces that stand for machines, with everything going wrong that does. Each
// test breaks one thing and asks for three: what the program ends with, the line that says
// what is wrong, and what was measured until then.
//
// A step of the clock is not among them: no namespace has a time of day of its own. The
// tests of package socket show it two clocks that differ.
package net
