package agent_test

import (
	"context"
	"fmt"
	"time"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/agent"
)

// An agent and who asks it, in one process; the agent is mostly on another machine.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server, err := agent.Listen(ctx, agent.Options{Address: "127.0.0.1:0"})
	if err != nil {
		fmt.Println(err)
		return
	}
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(ctx) }()

	client, err := agent.Dial(ctx, server.Addr().String(), agent.DialOptions{Wait: 10 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	spec := probe.Default(probe.TCPLatency)
	spec.Duration = 50 * time.Millisecond
	trial, err := client.Run(ctx, spec)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("whole:", trial.Incomplete == "", "- round trips:", trial.RTT.Count() > 0)
	cancel()
	fmt.Println("stopped:", <-stopped)
	// Output:
	// whole: true - round trips: true
	// stopped: <nil>
}
