package explain

import (
	"fmt"
	"io"
	"os"

	"taper.dev/taper/internal/trap"
	"taper.dev/taper/internal/trap/config"
)

// ConfigFiles name files of configuration; "" is none.
type ConfigFiles struct{ Resolv, Pod, CPUStat string }

// LoadConfig reads what is known of the captured service. The error names the file and
// where to get the right one.
func LoadConfig(files ConfigFiles) (c trap.Config, err error) {
	if c.Resolv, err = load(files.Resolv, "kubectl exec POD -- cat /etc/resolv.conf", config.ParseResolv); err != nil {
		return trap.Config{}, err
	}
	if c.Pod, err = load(files.Pod, "kubectl get pod POD -o yaml", config.ParsePod); err != nil {
		return trap.Config{}, err
	}
	if c.CPU, err = load(files.CPUStat, "kubectl exec POD -- cat /sys/fs/cgroup/cpu.stat", config.ParseCPUStat); err != nil {
		return trap.Config{}, err
	}
	return c, nil
}

// load reads a file, which command writes; nil if there is none.
func load[T any](path, command string, parse func(io.Reader) (*T, error)) (*T, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	value, err := parse(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; it is written by: %s", path, err, command)
	}
	return value, nil
}
