package standalone

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// readState returns the states kept in a file; none where there is no file yet.
func readState(path string) (map[string]State, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]State{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the state: %w", err)
	}
	states := map[string]State{}
	if err := json.Unmarshal(text, &states); err != nil {
		return nil, fmt.Errorf("state file %s is damaged (%w): remove it to start from equal weights", path, err)
	}
	for _, s := range states {
		for address, w := range s.Weights {
			if w == 0 {
				return nil, fmt.Errorf("state file %s gives %s weight 0: remove it to start from equal weights", path, address)
			}
		}
	}
	return states, nil
}

// writeState replaces the file whole: a reader, or a restart, never sees half of it.
func writeState(path string, states map[string]State) error {
	text, err := json.Marshal(states)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".taper-state-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	if _, err := temp.Write(text); err != nil {
		temp.Close()
		return err
	}
	if err := errors.Join(temp.Sync(), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}
