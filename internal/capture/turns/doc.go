// Package turns times protocols that nobody here understands, by who speaks when.
//
// A turn is what the client sends until the server answers, and what the server sends
// until the client speaks again. Each turn is an exchange with Op "turn" and nothing
// else: of the bytes nothing is read, so nothing of them can be kept.
//
// What the server says before the client has said anything, such as a greeting, belongs
// to no turn. A protocol that sends several questions before the first answer gives one
// turn for all of them.
package turns
