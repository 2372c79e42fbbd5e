package pageload

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"taper.dev/taper/internal/lab/netns"
	"taper.dev/taper/internal/lab/process"
	"taper.dev/taper/internal/probe"
)

// The story's network: users, a balancer, and two servers of pages behind it, each a
// machine. Users reach the servers past the balancer as well.
const (
	users = iota
	balancer
	web1
	web2
)

// network is made of links between machines, each a /30.
type network struct {
	t        *testing.T
	machines [4]*netns.Namespace // that of the users is the test's own
	links    int
	id       int
}

func newNetwork(t *testing.T, id int) *network {
	t.Helper()
	if os.Geteuid() != 0 {
		missing(t, "networks need root")
	}
	n := &network{t: t, id: os.Getpid()*2 + id}
	for i := range n.machines {
		if i == users {
			continue
		}
		var err error
		if n.machines[i], err = netns.New(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(n.machines[i].Close)
	}
	return n
}

func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("TAPER_TEST_REQUIRE_ALL") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// do runs f on a machine.
func (n *network) do(machine int, f func() error) {
	n.t.Helper()
	var err error
	if machine == users {
		err = f()
	} else {
		err = n.machines[machine].Do(f)
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

// link joins two machines, and returns the address of the second. What that one sends is
// let through at so many Mbit/s; 0 for all there is.
func (n *network) link(a, b int, megabits uint64) netip.Addr {
	n.t.Helper()
	n.links++
	first := netip.AddrFrom4([4]byte{10, 218, byte(n.id), byte(n.links << 2)})
	here := netns.End{Name: fmt.Sprintf("pg%d.%da", n.id, n.links), Prefix: netip.PrefixFrom(first.Next(), 30)}
	there := netns.End{Name: fmt.Sprintf("pg%d.%db", n.id, n.links), Prefix: netip.PrefixFrom(first.Next().Next(), 30)}
	n.do(a, func() error { return n.machines[b].Link(here, there) })
	if a == users {
		n.t.Cleanup(func() {
			// It is gone with the namespace otherwise, a moment later.
			if l, err := netlink.LinkByName(here.Name); err == nil {
				_ = netlink.LinkDel(l)
			}
		})
	}
	if megabits > 0 {
		n.do(b, func() error {
			return netns.Shape(there.Name, netns.Bucket{BitsPerS: megabits * 1e6, Bytes: 16 << 10, Queued: megabits * 1e6 / 8 / 10})
		})
	}
	return there.Prefix.Addr()
}

// pages serves a page on a machine.
func (n *network) pages(machine int, name string) {
	n.t.Helper()
	var l net.Listener
	n.do(machine, func() (err error) { l, err = net.Listen("tcp", "0.0.0.0:8080"); return err })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, pages(n.t, name)) }()
	n.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			n.t.Error(err)
		}
	})
}

// balance starts an Envoy on the balancer, in front of these servers.
func (n *network) balance(at netip.Addr, servers ...netip.Addr) {
	n.t.Helper()
	envoy, err := exec.LookPath("envoy")
	if err != nil {
		missing(n.t, "install envoy to test a balancer")
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		missing(n.t, "install util-linux for nsenter")
	}
	var endpoints strings.Builder
	for _, s := range servers {
		fmt.Fprintf(&endpoints, "\n        - endpoint: {address: {socket_address: {address: %s, port_value: 8080}}}", s)
	}
	dir := n.t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "envoy.yaml"), fmt.Appendf(nil, bootstrap, endpoints.String()), 0o644); err != nil {
		n.t.Fatal(err)
	}
	p, err := process.Start(process.Spec{
		Name: "envoy", Path: nsenter, Dir: dir, Log: filepath.Join(dir, "envoy.log"),
		Args: []string{"--net=" + n.machines[balancer].Path(), envoy, "--config-path", "envoy.yaml", "--concurrency", "1", "--disable-hot-restart", "--log-level", "warning"},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { p.Stop(time.Second) })
	listens := func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", netip.AddrPortFrom(at, 8080).String())
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	if err := process.Await(n.t.Context(), p, listens, 20*time.Second); err != nil {
		n.t.Fatal(err)
	}
}

const bootstrap = `static_resources:
  listeners:
  - address: {socket_address: {address: 0.0.0.0, port_value: 8080}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: page
          route_config:
            virtual_hosts:
            - name: page
              domains: ["*"]
              routes: [{match: {prefix: /}, route: {cluster: pages}}]
          http_filters:
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
  - name: pages
    connect_timeout: 5s
    type: STATIC
    lb_policy: LEAST_REQUEST
    load_assignment:
      cluster_name: pages
      endpoints:
      - lb_endpoints:%s
`

// TestTheSaturatedHop: on networks whose narrow place is known, by a real balancer, that
// place is named.
//
// It has the process to itself, since how busy that is counts.
func TestTheSaturatedHop(t *testing.T) {
	for id, test := range []struct {
		name              string
		balancer, servers uint64  // Mbit/s
		most              float64 // Mbit/s
		want              string
	}{
		{"balancer", 16, 40, 16, "balancer"},
		{"backends", 0, 16, 32, "backends"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t, id)
			at := n.link(users, balancer, test.balancer)
			direct1, direct2 := n.link(users, web1, test.servers), n.link(users, web2, test.servers)
			n.pages(web1, "web-1")
			n.pages(web2, "web-2")
			n.balance(at, n.link(balancer, web1, test.servers), n.link(balancer, web2, test.servers))

			url := "http://" + netip.AddrPortFrom(at, 8080).String()
			o := brief(
				Target{Name: "balancer", URL: url},
				Target{Name: "web-1", URL: url, Connect: netip.AddrPortFrom(direct1, 8080).String()},
				Target{Name: "web-2", URL: url, Connect: netip.AddrPortFrom(direct2, 8080).String()},
			)
			o.MaxUsers = 32
			var load *probe.PageLoad
			// On a machine that has no time to spare nothing can be said, which is right as
			// well. More can with longer steps.
			for range 3 {
				load = run(t, o)
				for _, found := range load.Targets {
					for _, p := range found.Steps {
						t.Logf("%s, %d users: %.1f Mbit/s, %d pages, %d errors %s, busy %.2f", found.Name, p.Users, p.BytesPerS*8/1e6, p.Pages, p.Errors, p.Why, *p.ClientBusy)
					}
				}
				t.Log(load.Bottleneck.Sentence)
				if load.Bottleneck.Hop != "client" && load.Bottleneck.Hop != "none seen" {
					break
				}
				o.Step *= 2
			}
			if load.Bottleneck.Hop != test.want {
				t.Fatalf("%+v, want %s", load.Bottleneck, test.want)
			}
			through := load.Targets[0]
			if rate := through.BytesPerS * 8 / 1e6; rate < 0.75*test.most || rate > test.most {
				t.Errorf("%.1f Mbit/s came through, want somewhat less than %.0f", rate, test.most)
			}
			if last := through.Steps[len(through.Steps)-1]; len(last.Served) != 2 || last.Served["web-1"] == nil || last.Served["web-2"] == nil {
				t.Errorf("served by %v", last.Served)
			}
		})
	}
}
