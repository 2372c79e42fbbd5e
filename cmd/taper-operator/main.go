// Command taper-operator balances Kubernetes Services on an Istio mesh.
package main

import (
	"os"

	"taper.dev/taper/internal/operator"
)

func main() {
	os.Exit(operator.Main(os.Args[1:], os.Stdout, os.Stderr))
}
