package emulated

// Demand is what requests cost on a member that computes fib(n): their mean, in
// CPU-seconds, and the deviation of their logarithm.
func Demand(n int) (mean, spread float64) { return meanDemand(n), sigma }
