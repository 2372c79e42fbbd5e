package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
)

var listening = regexp.MustCompile(`Listening on (\S+),`)

// serveNet starts an agent, and returns it with its address.
func serveNet(t *testing.T, args ...string) (*taper, string) {
	t.Helper()
	p := start(t, append([]string{"net", "serve", "--listen", "127.0.0.1:0"}, args...)...)
	var address string
	waitFor(t, "the agent to listen", func(context.Context) bool {
		m := listening.FindStringSubmatch(p.said())
		if m != nil {
			address = m[1]
		}
		return m != nil
	})
	return p, address
}

// quick makes a measurement short.
var quick = []string{"--trial", "50ms", "--rounds", "2", "--budget", "2s", "--sustain", "0"}

func netTestArgs(args ...string) []string {
	return append(append([]string{"net", "test"}, quick...), args...)
}

func TestNetTestMeasuresTheWayToAnAgent(t *testing.T) {
	t.Parallel()
	server, address := serveNet(t)
	p := start(t, netTestArgs("--json", "--tests", "tcp_bw,tcp_lat,conn,udp_lat", "one="+address, "two="+address)...)
	if code := p.exit(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	var r probe.Result
	if err := json.Unmarshal(p.stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Name != "one" || len(r.Others) != 1 || r.Others[0].Name != "two" || r.To != address {
		t.Errorf("measured %s to %s, and %d others", r.Name, r.To, len(r.Others))
	}
	if len(r.Tests) != 5 { // bandwidth both ways
		t.Errorf("%d tests, want 5", len(r.Tests))
	}
	for _, test := range r.Tests {
		if len(test.Trials) == 0 {
			t.Errorf("%s %s has no trial: %s", test.Test, test.Direction, test.Why)
		}
	}
	server.signal(syscall.SIGINT)
	if code := server.exit(); code != 0 {
		t.Errorf("an agent that is told to end ends with %d: %s", code, server.said())
	}
}

func TestNetTestInterruptedKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	_, address := serveNet(t)
	p := start(t, "net", "test", "--json", "--tests", "tcp_lat", "--trial", "50ms", "--rounds", "1000", "--budget", "10m", address)
	time.Sleep(time.Second)
	p.signal(syscall.SIGINT)
	if code := p.exit(); code != 1 || !strings.Contains(p.said(), "taper: what was measured is not whole: interrupted") {
		t.Fatalf("exit code %d: %s", code, p.said())
	}
	var r probe.Result
	if err := json.Unmarshal(p.stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Incomplete != "interrupted" || len(r.Tests) != 1 || len(r.Tests[0].Trials) == 0 {
		t.Errorf("kept %+v, marked %q", r.Tests, r.Incomplete)
	}
}

func TestNetTestSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	const secret = "4f1c2a9e77b0d3c5e8a1"
	if err := os.WriteFile(token, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, address := serveNet(t, "--token-file", token)
	for _, test := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"no token", netTestArgs(address), 1, "token"},
		{"another token", netTestArgs("--token-file", "net.go", address), 1, "token"},
		{"nobody there", netTestArgs("127.0.0.1:1"), 1, "taper net serve"},
		{"no host", netTestArgs(), 2, "no host"},
		{"no such test", netTestArgs("--tests", "ping", address), 2, `there is no test "ping"`},
		{"no such tool", netTestArgs("--as", "ping", address), 2, `there is no tool "ping"`},
		{"no such size", netTestArgs("--message", "1e99", address), 2, "is no size of a message"},
		{"two of a name", netTestArgs("a="+address, "a="+address), 2, `two paths are called "a"`},
		{"both families", netTestArgs("-4", "-6", address), 2, "leave nothing to measure"},
		{"open to all", []string{"net", "serve", "--listen", "0.0.0.0:0"}, 1, "needs a token"},
		{"no prefix", []string{"net", "serve", "--peers", "10/8"}, 2, "is no address and no prefix"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, test.args...)
			if code := p.exit(); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			if said := p.said(); !strings.Contains(said, test.want) || strings.Contains(said, secret) {
				t.Errorf("it says %q, want %q in it, and no secret", said, test.want)
			}
		})
	}
}
