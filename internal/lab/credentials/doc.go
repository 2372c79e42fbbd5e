// Package credentials repeats the second published story on this machine: a service
// whose requests became ten times slower on Kubernetes, because each of them fetched
// credentials that lived for fifteen minutes with an SDK that wants more than fifteen.
//
//	client ──▶ the service, in a network of its own: a JVM with the real SDK
//	                │ GET /latest/meta-data/iam/security-credentials/…   ▶ Issuer, as KIAM
//	                │ names                                              ▶ a DNS server
//	                └ POST /offers/_search, signed                       ▶ a search engine's stand-in
//
// [Run] captures the service's packets while it is under load, has them explained, gives
// longer sessions, captures and explains again, and compares. Nobody tells the explanation
// what was done.
package credentials
