// Package metadata recognises calls to the metadata services of clouds, and reads when the
// credentials that they serve end.
//
// [Recognise] looks at a request: at where it goes, and, since proxies such as KIAM serve
// at addresses of their own, at paths and headers that nothing else uses. [Expires] looks
// at the body of an answer for the one thing that is kept of it. A call is recognised
// before its answer is there, so that only such answers are ever looked at.
package metadata
