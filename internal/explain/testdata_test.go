package explain

import (
	"bytes"
	"flag"
	"io"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata anew")

// The renderers' tests read these files.
func TestArticleAsJSON(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]interface{ WriteJSON(io.Writer) error }{
		"article": article(false), "cured": article(true),
		"difference": Compare("ec2.pcap", article(true), "k8s.pcap", article(false)),
	} {
		var got bytes.Buffer
		if err := v.WriteJSON(&got); err != nil {
			t.Fatal(err)
		}
		path := "testdata/" + name + ".json"
		if *update {
			if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s: -want +got (-update accepts it):\n%s", path, diff)
		}
	}
}
