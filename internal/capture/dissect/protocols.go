package dissect

import (
	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/dns"
	"taper.dev/taper/internal/capture/http1"
	"taper.dev/taper/internal/capture/http2"
	"taper.dev/taper/internal/capture/mysql"
	"taper.dev/taper/internal/capture/postgresql"
	"taper.dev/taper/internal/capture/redis"
	"taper.dev/taper/internal/capture/tls"
	"taper.dev/taper/internal/capture/turns"
)

// protocols are those that are understood, in the order in which they are tried: those
// whose beginning is hard to mistake first, turns for all the rest.
func protocols() []capture.Protocol {
	return []capture.Protocol{
		http1.Protocol(),
		http2.Protocol(),
		tls.Protocol(),
		dns.Protocol(),
		dns.OverTCP(),
		postgresql.Protocol(),
		mysql.Protocol(),
		redis.Protocol(),
		turns.Protocol(),
	}
}
