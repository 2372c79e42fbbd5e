package attribution

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/capture"
)

func TestRoles(t *testing.T) {
	t.Parallel()
	local, none, server, client := [2]bool{true, true}, [2]bool{}, [2]bool{false, true}, [2]bool{true, false}
	type x struct {
		from, to, protocol, op string
		local                  [2]bool
	}
	tests := []struct {
		name    string
		all     []x
		options Options
		want    string // R request, C call, F foreign, - neither
	}{
		{"by direction", []x{
			{"10.0.0.9:1", "10.0.0.1:80", "http", "GET", server},
			{"10.0.0.1:1", "10.0.0.7:80", "http", "GET", client},
			{"10.0.0.5:1", "10.0.0.7:80", "http", "GET", none},
		}, Options{}, "RCF"},
		{"learned: it answers and asks", []x{
			{"10.0.0.9:1", "10.0.0.1:80", "http", "GET", none},
			{"10.0.0.1:1", "10.0.0.7:80", "http", "GET", none},
			{"10.0.0.5:1", "10.0.0.7:80", "http", "GET", none},
		}, Options{}, "RCF"},
		{"learned: it takes part in most", []x{
			{"10.0.0.9:1", "10.0.0.1:80", "http", "GET", none},
			{"10.0.0.8:1", "10.0.0.1:80", "http", "GET", none},
		}, Options{}, "RR"},
		{"given", []x{
			{"10.0.0.9:1", "10.0.0.1:80", "http", "GET", none},
			{"10.0.0.1:1", "10.0.0.7:80", "http", "GET", none},
			{"10.0.0.9:1", "10.0.0.1:9090", "http", "GET", none},
			{"10.0.0.9:1", "10.0.0.7:80", "http", "GET", none},
		}, Options{Service: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:80")}}, "RCFF"},
		{"given, any port", []x{
			{"10.0.0.9:1", "10.0.0.1:80", "http", "GET", none},
			{"10.0.0.9:1", "10.0.0.1:9090", "http", "GET", none},
		}, Options{Service: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:0")}}, "RR"},
		{"a sidecar hands on", []x{
			{"10.0.0.9:1", "10.0.0.1:15006", "tls", "data", server},
			{"127.0.0.6:1", "10.0.0.1:8080", "http", "GET", local},
			{"127.0.0.1:1", "127.0.0.1:15001", "http", "GET", local},
		}, Options{}, "-RC"},
		{"nothing from outside", []x{
			{"127.0.0.1:1", "127.0.0.1:8080", "http", "GET", local},
			{"10.0.0.1:1", "10.0.0.7:80", "http", "GET", client},
			{"127.0.0.1:1", "127.0.0.1:53", "dns", "", local},
		}, Options{}, "RCC"},
		{"something from outside", []x{
			{"10.0.0.9:1", "10.0.0.1:80", "http", "GET", server},
			{"127.0.0.1:1", "127.0.0.1:8080", "http", "GET", local},
		}, Options{}, "RC"},
		{"closed content where nothing is clear", []x{
			{"10.0.0.9:1", "10.0.0.1:443", "tls", "handshake", server},
			{"10.0.0.9:1", "10.0.0.1:443", "tls", "data", server},
		}, Options{}, "-R"},
		{"closed content beside clear", []x{
			{"10.0.0.9:1", "10.0.0.1:80", "turns", "", server},
			{"10.0.0.9:2", "10.0.0.1:80", "http", "GET", server},
		}, Options{}, "-R"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(1)
			for _, x := range tt.all {
				e := w.exchange(netip.MustParseAddrPort(x.from), netip.MustParseAddrPort(x.to), x.local, x.op, "/", t0, t0+ms)
				e.Protocol = x.protocol
			}
			r := newRoles(tt.options.Service)
			var all []arrival
			for _, x := range w.all {
				r.note(x)
				all = append(all, arrival{Exchange: x})
			}
			r.observe(all)
			var got strings.Builder
			for _, e := range w.all {
				got.WriteByte("FRC-"[r.of(e)])
			}
			if got.String() != tt.want {
				t.Errorf("roles %s, want %s", got.String(), tt.want)
			}
			if r.recognised() == "" {
				t.Error("not said how requests were recognised")
			}
		})
	}
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	tests := []struct{ protocol, target, want string }{
		{"http", "/", "/"},
		{"http", "/v1/orders/12345/items", "/v1/orders/{id}/items"},
		{"http", "/v1/users/7", "/v1/users/{id}"},
		{"http", "/u/550e8400-e29b-41d4-a716-446655440000", "/u/{id}"},
		{"http", "/blob/deadbeef01", "/blob/{id}"},
		{"http", "/facade/defaced", "/facade/defaced"},
		{"http", "/order-12345/x", "/order-{id}/x"},
		{"http", "/static/app.3f2a9c1b.js", "/static/app.{id}.js"},
		{"http", "/t/aZ09bY18cX27dW36eV45", "/t/{token}"},
		{"http", "/latest/meta-data/iam/security-credentials/role", "/latest/meta-data/iam/security-credentials/role"},
		{"http", "/release-notes-version-two-2", "/release-notes-version-two-2"},
		{"http", "/10.0.0.1/x", "/{id}/x"},
		{"http", "/a?secret=1", "/a"},
		{"grpc", "/shop.Cart/Get2", "/shop.Cart/Get2"},
		{"postgresql", "select * from t where id in (?, ?,?, ?) and x=?", "select * from t where id in (?, …) and x=?"},
		{"redis", "", ""},
	}
	for _, tt := range tests {
		if got := string(appendPattern(nil, tt.protocol, tt.target)); got != tt.want {
			t.Errorf("pattern of %s %q: %q, want %q", tt.protocol, tt.target, got, tt.want)
		}
	}
}

// What was made of a connection is made anew when more is known of it.
func TestRolesFollowDirections(t *testing.T) {
	t.Parallel()
	w := newWorld(1)
	x := w.exchange(client, service, [2]bool{false, true}, "GET", "/", t0, t0+ms)
	r := newRoles(nil)
	judge := func(want role) {
		t.Helper()
		r.note(x)
		r.observe([]arrival{{Exchange: x}})
		if got := r.of(x); got != want {
			t.Errorf("role %d, want %d", got, want)
		}
	}
	judge(roleRequest)
	judge(roleRequest)
	x.Conn.Local = [2]bool{true, false}
	judge(roleCall) // both ends have been local, and requests come from outside
}

// Names that no rule knows for ids must not make a route each.
func TestPatternsAreFew(t *testing.T) {
	t.Parallel()
	p := newPatterns()
	seen := map[string]bool{}
	dice := newWorld(1).dice
	for range 20_000 {
		word := make([]byte, 6)
		for i := range word {
			word[i] = byte('a' + dice.IntN(26))
		}
		seen[p.of(&capture.Exchange{Protocol: capture.HTTP, Target: "/api/users/" + string(word) + "/posts"})] = true
	}
	if len(seen) > 2*maxPatterns+2 || !seen["/api/users/{…}/posts"] {
		t.Errorf("%d patterns, /api/users/{…}/posts among them: %v", len(seen), seen["/api/users/{…}/posts"])
	}
	if got := p.of(&capture.Exchange{Protocol: capture.HTTP, Target: "/api/users/zzz/posts"}); got != "/api/users/{…}/posts" {
		t.Errorf("a new name has pattern %q", got)
	}
}

func TestPeer(t *testing.T) {
	t.Parallel()
	n := newNames()
	n.learn(&capture.Exchange{Target: "db.prod. A", DNS: &capture.DNSDetail{Addresses: []netip.Addr{netip.MustParseAddr("10.0.1.5")}}})
	var got []string
	for _, x := range []struct{ to, protocol, authority string }{
		{"10.0.1.5:5432", "postgresql", ""}, {"10.0.1.5:6000", "postgresql", ""}, {"10.0.1.6:5432", "postgresql", ""}, {"10.0.1.6:1", "turns", ""},
		{"10.0.1.5:9200", "http", "es:9200"}, {"10.0.1.5:80", "http", "es"}, {"10.0.1.5:80", "http", "es:80"}, {"10.0.1.5:443", "tls", "api.example.com"},
		{"[fd00::1]:80", "http", "[fd00::1]"}, {"10.96.0.10:53", "dns", ""},
	} {
		got = append(got, n.peer(&capture.Exchange{
			Conn:     &capture.Conn{Addr: [2]netip.AddrPort{{}, netip.MustParseAddrPort(x.to)}},
			Protocol: x.protocol, Authority: x.authority,
		}))
	}
	want := []string{"db.prod", "db.prod:6000", "10.0.1.6", "10.0.1.6:1", "es:9200", "es", "es", "api.example.com", "[fd00::1]", "10.96.0.10"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("peers (-want +got):\n%s", diff)
	}
}
