package network_test

import (
	"fmt"
	"os"
	"testing"

	"taper.dev/taper/internal/cli"
	"taper.dev/taper/internal/lab/netns"
)

// runTaper, set in the environment, makes the test binary be taper: what agents are.
const runTaper = "TAPER_TEST_RUN"

func TestMain(m *testing.M) {
	if os.Getenv(runTaper) != "" {
		os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	if os.Geteuid() == 0 {
		// Where there is no root, tests skip.
		if err := netns.Enter(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Setenv(runTaper, "network")
	os.Exit(m.Run())
}
