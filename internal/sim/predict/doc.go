// Package predict says, before anything is enforced, what each way to balance would make
// of a live service. In goes what was observed of it, a [Service], out comes a
// report.Prediction with an interval around every figure.
//
// [Predict] is the order of events:
//
//   - learn.go lets balance.Decide learn what requests cost, as it does when it enforces;
//   - draw.go draws services that the observed one may well be: which windows of the
//     observation count, how much what is not measured may be, and luck;
//   - calibrate.go fits what is not in CPU metrics to today's latency, if that is known;
//   - settle.go finds the weights at which a control loop comes to rest;
//   - run.go simulates every arm for each draw, all arms of a draw with the same luck;
//   - summary.go makes medians and intervals of that.
//
// The interval is over the draws. It holds the truth as often as it says if the model is
// right: endpoints that share their cores between requests, open Poisson arrivals, costs
// that are lognormal. What is assumed is in the report's words.
//
// [Read] and [Service.Write] keep an observation in a file (snapshot.go).
package predict
