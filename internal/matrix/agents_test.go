package matrix_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"taper.dev/taper/internal/matrix"
	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/agent"
	"taper.dev/taper/internal/probe/agent/agenttest"
)

const token = agent.Token("a token of some length")

// serve runs an agent on the loopback until the test ends.
func serve(t *testing.T, name string, token agent.Token) string {
	t.Helper()
	return agenttest.Serve(t, agent.Options{
		Address: "127.0.0.1:0", Token: token, Host: probe.Host{Version: "v1.2.3", Name: name, Node: name},
	}).Addr().String()
}

// Real agents, of which one has another token.
func TestAgents(t *testing.T) {
	t.Parallel()
	const other = agent.Token("another token, as long")
	o := matrix.Options{
		Dial:  matrix.DialWith(agent.DialOptions{Token: token, Wait: 20 * time.Second}),
		Trial: 30 * time.Millisecond, Trials: 2, Streams: 1, LatencyPairs: 2, Seed: 1,
	}
	for i := range 4 {
		name, secret := fmt.Sprintf("node-%d", i), token
		if i == 3 {
			secret = other
		}
		o.Agents = append(o.Agents, matrix.Agent{Name: name, Addresses: map[probe.Path]string{
			probe.HostPath: serve(t, name, secret), probe.PodPath: serve(t, name, secret),
		}})
	}
	// A service behind which all find node-1, and node-1 itself.
	o.Services = []string{o.Agents[1].Addresses[probe.PodPath]}
	m, err := matrix.Run(t.Context(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p := m.Agents[3].Problem; !strings.Contains(p, "token") || strings.Contains(p, string(other)) || strings.Contains(p, string(token)) {
		t.Errorf("node-3: %q", p)
	}
	paths := map[probe.Path]int{}
	for _, c := range m.Cells {
		paths[c.Path]++
		if c.Problem != "" || c.BytesPerS <= 0 || c.Path == probe.ServicePath && c.To != "node-1" {
			t.Errorf("%+v", c)
		}
		if c.RTT != nil && (c.RTT.Count < 5 || c.RTT.P50 == nil || *c.RTT.P50 <= 0) {
			t.Errorf("%+v", c.RTT)
		}
	}
	if paths[probe.HostPath] != 6 || paths[probe.PodPath] != 6 || paths[probe.ServicePath] != 2 || len(m.Native) != 3 {
		t.Errorf("%v, %+v", paths, m.Native)
	}
	if len(m.Notes) != 1 || !strings.Contains(m.Notes[0], "From 1 of 3 agents no service leads to another one (node-1:") {
		t.Errorf("%q", m.Notes)
	}
}

// One agent under two names.
func TestTheSameAgentTwice(t *testing.T) {
	t.Parallel()
	first, second := serve(t, "a", token), serve(t, "b", token)
	_, port, _ := strings.Cut(first, ":")
	o := matrix.Options{
		Dial:  matrix.DialWith(agent.DialOptions{Token: token, Family: 4}),
		Trial: 20 * time.Millisecond, Trials: 1, Streams: 1, Seed: 1,
	}
	for name, address := range map[string]string{"a": first, "b": second, "c": "localhost:" + port} {
		o.Agents = append(o.Agents, matrix.Agent{Name: name, Addresses: map[probe.Path]string{probe.HostPath: address}})
	}
	m, err := matrix.Run(t.Context(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	problems := 0
	for _, a := range m.Agents {
		if strings.Contains(a.Problem, "leads to "+first) {
			problems++
		} else if a.Problem != "" {
			t.Errorf("%s: %s", a.Name, a.Problem)
		}
	}
	if problems != 1 || len(m.Cells) != 2 {
		t.Errorf("%d problems, %d cells", problems, len(m.Cells))
	}
}
