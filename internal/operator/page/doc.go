// Package page serves what the operator decides: as a live page for people, as
// JSON for the page and for scripts, as text for a terminal. The journal goes in,
// an [http.Handler] comes out; nothing can be changed through it.
//
//	/                                     the page
//	/text, /text/NAMESPACE/NAME           the same as text
//	/api/policies                         all policies in short
//	/api/policies/NAMESPACE/NAME          one with its endpoints
//	/api/policies/NAMESPACE/NAME/history  how its weights went
//
// Start with [New]. state.go puts into words how a policy fares; api.go has the
// JSON; static has the page, which refers to everything by relative paths and so
// works behind any prefix.
package page
