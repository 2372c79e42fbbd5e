package promql

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestNothingShowsSecrets prints all that holds credentials in all ways.
func TestNothingShowsSecrets(t *testing.T) {
	const hidden = "hunter2"
	type holder struct {
		Secret Secret
		config Config
	}
	cfg := Config{
		URL: "https://store:8428/prometheus?token=" + hidden, Username: "me", Password: NewSecret(hidden),
		Headers: map[string]string{"Authorization": hidden}, Window: time.Minute, CPU: ClusterCPU,
	}
	withUser := Config{URL: "https://me:" + hidden + "@store:8428", Window: time.Minute, CPU: ClusterCPU}
	broken := Config{URL: "https://me:" + hidden + "/@store:8428", Window: time.Minute, CPU: ClusterCPU}
	withToken := cfg
	withToken.Username, withToken.Password, withToken.BearerToken, withToken.Headers = "", Secret{}, NewSecret(hidden), nil
	withToken.URL = "https://store:8428"
	source, err := New(withToken)
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []any{
		NewSecret(hidden), cfg, &cfg, withUser, broken, withToken, source, *source.client,
		holder{Secret: NewSecret(hidden), config: withToken}, []Secret{NewSecret(hidden)}, map[string]Secret{"a": NewSecret(hidden)},
	} {
		var out bytes.Buffer
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%T"} {
			fmt.Fprintf(&out, verb+"\n", shown)
		}
		if text, err := json.Marshal(shown); err == nil {
			out.Write(text)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("shown", "it", shown)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("shown", "it", shown)
		if text := out.String(); strings.Contains(text, hidden) || strings.Contains(text, fmt.Sprintf("%x", hidden)) {
			t.Errorf("%T shows it:\n%s", shown, text)
		}
	}
	if got, want := fmt.Sprintf("%v", cfg), "https://store:8428/prometheus"; got != want {
		t.Errorf("a configuration is shown as %q, want %q", got, want)
	}
	if got := fmt.Sprintf("%v|%v|%s", NewSecret(hidden), Secret{}, NewSecret("")); got != "[hidden]||" {
		t.Errorf("secrets are shown as %q", got)
	}
}
