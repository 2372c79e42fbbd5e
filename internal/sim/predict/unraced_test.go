//go:build !race

package predict

// raced is that the race detector is on.
const raced = false
