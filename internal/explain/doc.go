// Package explain answers where the time of requests goes: it reads captures, has their
// requests attributed and their traps found, and puts what came of it into one
// [Explanation], from which every output is made.
//
// [Run] is where to start; [Compare] tells what differs between two explanations.
package explain
