// Package balance decides load-balancing weights. It is pure: what was observed
// goes in, weights come out; it reads no clock, no file and no network, and it
// keeps nothing between calls but the [Memory] that it hands back.
//
// [Decide] is the whole of it. Read it top to bottom:
//
//   - learn (learn.go) turns samples into an estimate of what a request costs on
//     each endpoint (its demand) and what the endpoint burns when idle;
//   - the guards (guard.go) say, in their order, whether acting is safe at all;
//   - the strategy (strategy.go) says which shares would be best, and the bounds
//     (bounds.go) how far each share may go now;
//   - quantize (weights.go) turns shares into the integers that Envoy takes.
//
// Units: CPU in cores, demand in CPU-seconds per request, rates per second,
// shares as fractions of a service's requests.
package balance
