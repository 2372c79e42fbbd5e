// Package redis reads RESP, versions 2 and 3, as Redis and Valkey speak it.
//
// Each command is an exchange, however many are sent at once; replies come in the order
// of the commands. Op is the command, with its subcommand where it is one that is known
// ("CLUSTER SLOTS"). Nothing else of a command is kept: keys are data. A command whose
// name has other characters than letters may be a renamed one, whose name is a secret:
// its Op is "?". Code of a failed exchange is the first word of the error.
//
// Messages to subscribers, invalidations and other pushes belong to no exchange. A
// subscription is answered when all of its channels are confirmed. What follows MONITOR,
// SYNC and PSYNC is not read.
//
// # Loss
//
// Missing bytes within a value are skipped, since its length is known. When others of the
// server are missing, a reply is taken to end with the last bytes before the client's next
// command. If several were open, all but the last are told as unanswered, since clients
// mostly wait for each reply; so are all when bytes of the client are missing. The next
// command begins anew.
package redis
