// Package synth makes captures whose answers are known: a service that gets requests,
// and calls others because of them, as packets on a wire.
//
// A [Plan] says what the service does and how the capture is spoilt; [Generate] tells
// its packets one by one in the order of time, as a capture does, and returns the
// [Truth]: which call belongs to which request, and where each request's time went. What
// is told is a function of the plan alone.
//
// [Article] is the published story; [Chain] is the service by which links are judged.
package synth
