package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// reportIsWritable finds out before minutes are spent on what cannot be kept.
func reportIsWritable(path string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("the report cannot be written to %s: it is a folder; name a file with --report", path)
	}
	probe, err := os.CreateTemp(filepath.Dir(path), ".taper-report-*")
	if err != nil {
		return fmt.Errorf("the report cannot be written to %s: %w; name another file with --report", path, err)
	}
	probe.Close()
	return os.Remove(probe.Name())
}

// writeReport replaces the page whole: an earlier one stays until then.
func writeReport(path string, draw func(io.Writer) error) error {
	var page bytes.Buffer
	if err := draw(&page); err != nil {
		return fmt.Errorf("drawing the report: %w", err)
	}
	temp := path + ".partial"
	defer os.Remove(temp)
	if err := os.WriteFile(temp, page.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// writeJSON writes a result for machines.
func writeJSON(out io.Writer, result any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(result)
}
