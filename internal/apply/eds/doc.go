// Package eds serves endpoints and their weights to Envoys: it is an endpoint
// discovery server of its own, for teams without a control plane.
//
// What comes in: an [apply.Assignment] through [Server.Apply], and what Envoys
// subscribe and answer. What goes out: one ClusterLoadAssignment per service, to
// the Envoys that ask for it, when it has changed; and [Server.Status], which
// says who took it and who refused.
//
// Both forms of the state-of-the-world protocol are served on one port: a stream
// per cluster (eds_config with api_config_source) and the aggregated stream
// (eds_config with ads). The incremental form is refused with a line that says
// so: it saves nothing here, since endpoint updates hold only what changed in
// either form.
//
// Weights outlive this server. Nothing is ever sent about a service that has no
// assignment yet, nor when the server stops, so an Envoy keeps the last weights
// until there are newer ones.
//
// Start with [Listen] and [Server.Serve]; the shape of what is served is in
// loadAssignment, the account of what Envoys answered in subscribers.
package eds
