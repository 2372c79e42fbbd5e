package agent

import (
	"testing"

	"taper.dev/taper/internal/probe"
)

func TestParseNetDev(t *testing.T) {
	t.Parallel()
	const table = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:  100       2    0    0    0     0          0         0      100       2    0    0    0     0       0          0
  eth0: 18446744073709551615 7 0 3 0 0 0 0 2000 9 0 4 0 0 0 0
eth1:1 1 1 1 1 1 1 1 1 1 1 1 1 1 1
eth2: x 7 0 3 0 0 0 0 2000 9 0 4 0 0 0 0
`
	got := parseNetDev([]byte(table))
	if want := (probe.Interface{RxBytes: 1<<64 - 1, RxDropped: 3, TxBytes: 2000, TxDropped: 4}); got["eth0"] != want {
		t.Errorf("eth0 is %+v, want %+v", got["eth0"], want)
	}
	if got["lo"].RxBytes != 100 || len(got) != 2 {
		t.Errorf("all are %+v: want those that can be read, lo and eth0", got)
	}
}
