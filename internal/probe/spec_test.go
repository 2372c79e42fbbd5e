package probe

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()
	for _, test := range Tests {
		if err := Default(test).Validate(); err != nil {
			t.Errorf("%s: %v", test, err)
		}
		for _, tool := range []Tool{Qperf, Netperf, Iperf3} {
			if s, ok := As(tool, test); ok && s.Validate() != nil {
				t.Errorf("%s as %s: %v", test, tool, s.Validate())
			}
		}
	}
}

func TestASpecSaysWhatIsWrongWithIt(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(*Spec)
		want   string
	}{
		{"test", func(s *Spec) { s.Test = "ping" }, `there is no test "ping"`},
		{"no time", func(s *Spec) { s.Duration = 0 }, "a trial of 0s is not possible"},
		{"much time", func(s *Spec) { s.Duration = 2 * time.Hour }, "at most 1h0m0s"},
		{"no message", func(s *Spec) { s.MessageBytes = 0 }, "it must have 1 to"},
		{"a datagram too large", func(s *Spec) { s.Test, s.MessageBytes = UDPLatency, MaxDatagramBytes+1 }, "65508 bytes is not possible with udp_lat"},
		{"a negative answer", func(s *Spec) { s.ReplyBytes = -1 }, "an answer of -1 bytes"},
		{"direction", func(s *Spec) { s.Direction = "up" }, `there is no direction "up"`},
		{"mode", func(s *Spec) { s.Mode = "warm" }, `there is no mode "warm"`},
		{"streams", func(s *Spec) { s.Streams = 1000 }, "1000 streams are not possible"},
		{"rate", func(s *Spec) { s.RatePerS = math.NaN() }, "NaN messages per second"},
	} {
		s := Default(TCPLatency)
		test.change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q in it", test.name, err, test.want)
		}
	}
}
