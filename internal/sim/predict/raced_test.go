//go:build race

package predict

// raced is that the race detector is on, which makes a run some ten times as long.
const raced = true
