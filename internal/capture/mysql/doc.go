// Package mysql reads the protocol of MySQL and MariaDB.
//
// An exchange is a command and its response, with all of its result sets. Of a query, the
// Target is the statement without data (see package sqltext) and Op its first word; that
// of the execution of a prepared statement is the statement's. Other exchanges have an Op
// alone:
//
//	startup   from the client's answer to the greeting to the end of authentication
//	PREPARE   with Target
//	EXECUTE   of a statement that was prepared before the capture began
//	PING …    the command's name, as in COM_PING
//
// Commands without a response, such as the closing of a statement, are no exchanges, and
// a copy of the binary log is not followed. Code of a failed exchange is the error number.
//
// A connection that goes over to TLS is handed to package tls, one that is compressed to
// package turns.
//
// # Loss
//
// Packets say their length, so missing bytes within one are skipped, and they are
// numbered, so that a wrong step is noticed. When other bytes of the server are missing, a
// response is taken to end with the last bytes before the client's next command. If
// several were open, all but the last are told as unanswered: clients mostly wait for each
// response. The next command begins anew.
//
// # What is kept
//
// Statements' shapes and numbers of errors. No user, password, database, parameter, row or
// message.
package mysql
