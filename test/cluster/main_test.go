package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// asChild makes the test binary do one thing after Isolate, and end.
const asChild = "TAPER_TEST_CHILD"

func TestMain(m *testing.M) {
	child := os.Getenv(asChild)
	if child == "" {
		Main(m)
	}
	if err := Isolate(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(os.TempDir(), os.Args[1:])
	switch child {
	case "exit":
		os.Exit(7)
	case "wait":
		if err := os.WriteFile(filepath.Join(os.TempDir(), "mine"), nil, 0o600); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("written")
		time.Sleep(time.Minute)
	}
}
