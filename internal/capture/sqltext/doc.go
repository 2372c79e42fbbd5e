// Package sqltext makes of an SQL statement what may be shown: its shape, without data.
//
// Literals, numbers and parameters become "?", lists of them one "?", comments go, white
// space becomes a blank. So statements that differ in data alone are the same text.
//
// # What must not happen
//
// No byte of a literal may be left. Whoever cannot tell where a literal ends cannot tell
// what is one after it, and where a literal ends depends on settings of a connection that
// a capture may not show. So whatever is read differently under different settings ends
// the text there:
//
//   - \' in a string, unless it is known whether backslashes escape there: PostgreSQL's
//     standard_conforming_strings, MySQL's NO_BACKSLASH_ESCAPES;
//   - a backslash before a quote and behind a byte above 0x7f, which may be the second
//     half of a character in GBK or Shift JIS;
//   - MySQL's conditional comments, when what is in them could itself hide their end;
//   - a literal, quoted name or comment that does not end.
//
// Double quotes hold a name for PostgreSQL, which stays, and for MySQL a string, unless
// ANSI_QUOTES is set: there they always become "?". Of SET only the name of what is set
// stays, since values need no quotes there.
package sqltext
