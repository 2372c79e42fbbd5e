// Package postgresql reads PostgreSQL's protocol, version 3.
//
// An exchange is what the server ends with ReadyForQuery: a simple query, or all messages
// of the extended protocol up to a Sync. Its Target is the statement without data (see
// package sqltext), of several in one exchange the first that was executed, and its Op
// that statement's first word. Other exchanges have an Op alone:
//
//	SSLRequest     to the server's one byte; if it agrees, package tls goes on
//	GSSENCRequest  likewise; what is encrypted by GSSAPI is not read
//	startup        from the startup message to the first ReadyForQuery, authentication
//	               included
//	PREPARE        a Parse that nothing in the same exchange executes; with Target
//	EXECUTE        of a statement that was prepared before the capture began
//	CLOSE, SYNC    messages of the extended protocol that execute nothing
//	FUNCTION       a function call
//	CancelRequest  which is never answered
//
// Data of COPY belongs to the exchange of its statement: to the question when the client
// sends it. Notifications, notices and parameters belong to none.
//
// # Loss
//
// Messages say their length, so missing bytes within one are skipped. When bytes between
// messages of the server are missing, the end of an answer may be among them. The answer
// is then taken to end with the last bytes that the server sent before the client asks
// the next question. If several were open, all but the last are told as unanswered:
// clients mostly wait for each answer. How backslashes are read is unknown from then on.
//
// # What is kept
//
// Of what client and server send nothing but statements' shapes, names of prepared
// statements (for as long as the connection lives) and SQLSTATE codes is kept: no
// passwords, parameters, rows, messages, database or user names.
package postgresql
