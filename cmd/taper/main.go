// Command taper takes the tail off latency on Kubernetes.
package main

import (
	"os"

	"taper.dev/taper/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
