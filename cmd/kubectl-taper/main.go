// Command kubectl-taper is the plugin behind `kubectl taper`.
package main

import (
	"os"

	"taper.dev/taper/internal/kubectl"
)

func main() {
	os.Exit(kubectl.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
