package dissect

import (
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/pcapfile"
)

// TestRecordingsOfOthers runs over the captures that gopacket is tested with, among them
// damaged ones: none may fail, and what is in some of them is known.
func TestRecordingsOfOthers(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/gopacket/gopacket").Output()
	if err != nil {
		t.Fatalf("where is gopacket? %v", err)
	}
	var files []string
	err = filepath.WalkDir(strings.TrimSpace(string(out)), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Ext(path), ".pcap") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]uint64{
		"test_dns.pcap":      {capture.DNS: 10},
		"test_ethernet.pcap": {capture.HTTP: 1},
		"test_loopback.pcap": {capture.HTTP: 3},
	}
	read := 0
	for _, file := range files {
		r, err := pcapfile.Open([]string{file}, nil)
		if err != nil {
			continue // some are no captures, on purpose
		}
		var s told
		stats, err := Run(t.Context(), r, &s)
		r.Close()
		if err != nil || uint64(len(s.conns)) != stats.Conns || stats.MissingBytes > 1<<20 {
			t.Errorf("%s: %v, %d connections of %+v", file, err, len(s.conns), stats)
		}
		read++
		if known := want[filepath.Base(file)]; known != nil {
			if diff := cmp.Diff(known, stats.Exchanges); diff != "" {
				t.Errorf("%s: exchanges (-want +got):\n%s", file, diff)
			}
			delete(want, filepath.Base(file))
		}
	}
	if read < 20 || len(want) > 0 {
		t.Errorf("%d captures were read; %v are not among them", read, want)
	}
}
