// Package dns reads DNS messages (RFC 1035) over UDP and TCP: each question and its
// answer is an exchange.
//
// Its Op is the record type, its Target the name in lower case without the dot at its
// end ("." is the root), its Status the response code. NXDOMAIN is an answer like others;
// every other code but NOERROR makes the exchange a failed one. A question answers to its
// ID and to its name and type: resolvers ask for A and AAAA on one socket at once.
//
// # Repetitions
//
// A question that is sent again with the same ID on the same socket, within a minute, is
// a repetition, and the exchange lasts from the first to the answer: that is how long the
// client waited. Wireshark's dns.time is the same for repetitions within 5 seconds, and
// is measured from the repetition after more (its preference "retransmission timer"); of
// glibc's resolver, which repeats at 5 seconds, it therefore does not show the wait.
// An answer that comes twice is counted only once.
//
// # What is given up
//
// A question waits for its answer for a minute, and as one of 64 on its socket; then it
// is told as unanswered. The bytes of answers to no known question are counted as lost:
// they are normal at the beginning of a capture. Of a zone transfer only the first
// message is looked at. Multicast DNS (RFC 6762) and LLMNR are not taken for DNS: their
// questions go to nobody in particular.
//
// Names are what was asked for, and are kept; of answers only addresses and times are.
package dns
