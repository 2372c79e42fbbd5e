package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/probe/agent"
)

func newNet() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "net",
		Short: "What the network gives, and what each layer of it costs",
		Long: `Measures bandwidth and latency between machines, pods and services, and says what
the overlay, the service address and the load balancer cost compared with the bare
network. One end is an agent, which taper net serve runs.`,
		Example: `  taper net serve                        # on the far machine
  taper net test 10.0.0.2                # here
  taper net test host=10.0.0.2 pod=10.32.0.7`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newNetServe(), newNetTest(), newNetMatrix(), newNetPage(), newNetCompare())
	return cmd
}

// tokenVariable holds the token where no file does: not in arguments, which everybody on
// the machine can see.
const tokenVariable = "TAPER_NET_TOKEN"

// defaultWait is longer than any trial of the defaults.
const defaultWait = 30 * time.Second

// netAccess is how an agent is reached.
type netAccess struct {
	tokenFile  string
	tls        bool
	ca         string
	ipv4, ipv6 bool
	wait       time.Duration
}

func (a *netAccess) flags(f *pflag.FlagSet) {
	f.StringVar(&a.tokenFile, "token-file", "", "file with the agents' token (else the environment variable "+tokenVariable+")")
	f.BoolVar(&a.tls, "tls", false, "close the control connection with TLS")
	f.StringVar(&a.ca, "ca", "", "file with the certificates to trust, PEM; without it the system's")
	f.DurationVar(&a.wait, "wait", defaultWait, "how long to wait for an agent that measures for somebody else")
	f.BoolVarP(&a.ipv4, "ipv4", "4", false, "only over IPv4")
	f.BoolVarP(&a.ipv6, "ipv6", "6", false, "only over IPv6")
}

// options reads what the flags name.
func (a *netAccess) options() (agent.DialOptions, error) {
	o := agent.DialOptions{Release: command.Version(version), Wait: a.wait}
	var err error
	if o.Token, err = readToken(a.tokenFile); err != nil {
		return o, command.Usage(err)
	}
	switch {
	case a.ipv4 && a.ipv6:
		return o, command.Usage(errors.New("-4 and -6 leave nothing to measure: give one of them, or none for both"))
	case a.ipv4:
		o.Family = 4
	case a.ipv6:
		o.Family = 6
	}
	if a.ca != "" && !a.tls {
		return o, command.Usage(errors.New("--ca is for --tls"))
	}
	if a.tls {
		if o.TLS, err = clientTLS(a.ca); err != nil {
			return o, command.Usage(err)
		}
	}
	return o, nil
}

// readToken is the token in a file, or in the environment; empty if there is none.
func readToken(file string) (agent.Token, error) {
	token := os.Getenv(tokenVariable)
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("reading the token: %w", err)
		}
		if token = strings.TrimSpace(string(b)); token == "" {
			return "", fmt.Errorf("there is no token in %s", file)
		}
	}
	return agent.Token(token), nil
}
