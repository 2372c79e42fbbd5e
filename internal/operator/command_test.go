package operator

import (
	"bytes"
	"context"
	"flag"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"k8s.io/client-go/rest"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/command"
)

var update = flag.Bool("update", false, "write generated files anew")

// The reference in docs is written from the command itself.
func TestReference(t *testing.T) {
	const committed = "../../docs/taper-operator.md"
	var page bytes.Buffer
	root := newCommand(io.Discard)
	root.DisableAutoGenTag = true
	for _, cmd := range append([]*cobra.Command{root}, root.Commands()...) {
		cmd.DisableAutoGenTag = true
		if err := doc.GenMarkdownCustom(cmd, &page, func(file string) string {
			return "#" + strings.ReplaceAll(strings.TrimSuffix(file, ".md"), "_", "-")
		}); err != nil {
			t.Fatal(err)
		}
	}
	if *update {
		if err := os.WriteFile(committed, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(committed)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, page.Bytes()) {
		t.Error("docs/taper-operator.md is stale: run make generate")
	}
}

// options runs the flags through everything but the operator itself.
func optionsOf(t *testing.T, environment map[string]string, args ...string) (o Options, err error) {
	t.Helper()
	t.Setenv("KUBECONFIG", kubeconfig(t))
	for name, value := range environment {
		t.Setenv(name, value)
	}
	var f flags
	cmd := &cobra.Command{
		Use: "test", SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd, io.Discard, func(_ context.Context, _ *rest.Config, got Options, _ *slog.Logger) error {
				o = got
				return nil
			})
		},
		PreRunE: func(cmd *cobra.Command, _ []string) error { return fromEnvironment(cmd.Flags(), os.LookupEnv) },
	}
	f.add(cmd.Flags())
	cmd.SetArgs(append([]string{}, args...))
	return o, cmd.Execute()
}

func kubeconfig(t *testing.T) string {
	t.Helper()
	file := t.TempDir() + "/kubeconfig"
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestFlagsAndTheirVariables(t *testing.T) {
	var got Options
	set := func(environment map[string]string, args ...string) error {
		t.Helper()
		var err error
		t.Run("", func(t *testing.T) { got, err = optionsOf(t, environment, args...) })
		return err
	}
	if err := set(nil); err != nil || got.Source.Type != v1alpha1.ResourceMetrics || !got.LeaderElection || got.EndpointMetrics == 0 {
		t.Errorf("without flags: %v, %+v", err, got)
	}
	environment := map[string]string{
		"TAPER_SOURCE_TYPE": "VictoriaMetrics", "TAPER_SOURCE_URL": "http://vm:8428",
		"TAPER_NAMESPACES": "a,b", "TAPER_ENDPOINT_METRICS": "false", "TAPER_LEADER_ELECT": "false",
	}
	if err := set(environment, "--source-url=http://other:8428"); err != nil {
		t.Fatal(err)
	}
	if got.Source.URL != "http://other:8428" || got.Source.Type != v1alpha1.VictoriaMetrics ||
		strings.Join(got.Namespaces, " ") != "a b" || got.EndpointMetrics != 0 || got.LeaderElection {
		t.Errorf("with variables and a flag: %+v", got)
	}
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no URL":      {[]string{"--source-type=Prometheus"}, "needs a URL"},
		"useless URL": {[]string{"--source-url=http://vm"}, "takes no URL"},
		"bad type":    {[]string{"--source-type=Graphite"}, "want Prometheus, VictoriaMetrics or ResourceMetrics"},
		"bad level":   {[]string{"--log-level=loud"}, "want debug, info, warn or error"},
		"bad format":  {[]string{"--log-format=xml"}, "want json or text"},
		"bad istiod":  {[]string{"--istiod-url=istiod"}, "want one such as"},
		"password":    {[]string{"--istiod-url=http://me:secret@istiod"}, "want one such as"},
	} {
		err := set(nil, test.args...)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v; want an error with %q", name, err, test.want)
		}
	}
	if err := set(map[string]string{"TAPER_LEADER_ELECT": "perhaps"}); err == nil || !strings.Contains(err.Error(), "TAPER_LEADER_ELECT") {
		t.Errorf("a bad variable: %v; want an error that names it", err)
	}
}

func TestExitCodes(t *testing.T) {
	t.Setenv("KUBECONFIG", kubeconfig(t))
	for args, want := range map[string]int{
		"--help": command.ExitDone, "--version": command.ExitDone, "release --help": command.ExitDone,
		"--no-such-flag": command.ExitUsage, "--log-level=loud": command.ExitUsage, "nonsense": command.ExitUsage,
		"--leader-elect=false --metrics-bind-address=0 --health-probe-bind-address=127.0.0.1:0 --log-level=error": command.ExitFailed,
	} {
		var out, errOut bytes.Buffer
		if got := Main(strings.Fields(args), &out, &errOut); got != want {
			t.Errorf("%s: exit code %d, want %d: %s", args, got, want, errOut.String())
		}
	}
}
