// Package serviceentry brings weights to Istio: it owns one ServiceEntry per
// service port whose host is that of the Kubernetes Service, and whose endpoints
// istiod lets win over the ones that it knows itself.
//
// An [Entry] comes in. [Render] turns it into the resource (render.go says which
// field is there for what), and [Applier] writes it by server-side apply, unless the
// cluster holds the very same already. What the cluster holds is known from
// [Index], a compact watch of all ServiceEntries: it also finds the ones of others
// for the same host, which are refused with a [ForeignError], and tells when
// somebody changes ours.
//
// Start with [Applier.Apply]. What istiod makes of an entry is read back by the
// child package readback.
package serviceentry
