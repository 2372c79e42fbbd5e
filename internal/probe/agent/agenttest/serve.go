// Package agenttest runs agents for the tests of those who ask them.
package agenttest

import (
	"context"
	"testing"

	"taper.dev/taper/internal/probe/agent"
)

// Serve runs an agent until the test ends, which fails if the agent does.
func Serve(t testing.TB, o agent.Options) *agent.Server {
	t.Helper()
	s, err := agent.Listen(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}
