// Package config reads the configuration that confirms what packets let one suspect: a
// resolv.conf ([ParseResolv]), a pod's manifest ([ParsePod]) and a cgroup's cpu.stat
// ([ParseCPUStat]), into what package trap compares with a capture.
//
// What is read is bounded, and errors quote nothing but names of fields and numbers of
// lines: manifests hold secrets.
package config

import (
	"fmt"
	"io"
)

// maxFile bounds what is read of a file: the API server takes objects of 1.5 MiB.
const maxFile = 2 << 20

// read reads all of a file, called what it is in errors.
func read(r io.Reader, what string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", what, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s has more than %d MiB; is it the right file?", what, maxFile>>20)
	}
	return data, nil
}
