// Package trap knows the usual ways in which time is lost on Kubernetes, and recognises
// them in a capture: one rule per file.
//
// A [Rule] looks at the facts of a capture as they are told, keeps what little it needs
// of them, and at the end says its findings. [All] lists the rules; [Rules] tells each fact
// to those that listen to it. Rules see neither each other nor the file, and keep no fact
// for longer than they need it: captures are larger than memory. What they keep is in
// tables with a bound (table.go), costs are slices of requests (charge.go) or overlaps with
// stalls (waits.go), and each threshold is a constant that says what it keeps out.
//
// What each rule looks for is in docs/traps.md, which a test holds to the rules.
package trap
