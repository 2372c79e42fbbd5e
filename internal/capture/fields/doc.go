// Package fields keeps of HTTP messages what may be kept, the same for HTTP/1 and
// HTTP/2: the path without its query and without segments that look like tokens, the
// host, the user agent, and hashes of the ids that tie requests to what they cause.
// Everything else of a message, credentials and cookies above all, is not kept at all.
//
// [Of] says which field a name is, so that parsers pass over all others without a copy;
// a [Cache] turns the bytes of those that matter into strings, one string for the same
// bytes; [Target], [Trace], [Request], [Signed] and [Action] read their values.
package fields
