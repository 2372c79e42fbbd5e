package operator

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/command"
)

//go:generate go test . -run ^TestReference$ -update

// version is set by the build.
var version = "unknown"

// Main runs taper-operator and returns its exit code.
func Main(args []string, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	root := newCommand(errOut)
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	return command.Exit(errOut, "taper-operator", root.ExecuteContext(ctx))
}

// flags are the flags of the operator, before they are put together.
type flags struct {
	options         Options
	sourceType      string
	endpointMetrics bool
	logLevel        string
	logFormat       string
}

// endpointSeries bounds the endpoints with metrics of their own: four series each.
const endpointSeries = 20_000

// collectAt is GOGC unless that is set: most of what is kept is kept for long, and in a
// large cluster memory is short before CPU time is.
const collectAt = 50

func newCommand(errOut io.Writer) *cobra.Command {
	var f flags
	root := &cobra.Command{
		Use:   "taper-operator",
		Short: "Balance Kubernetes Services on an Istio mesh by what their pods can take",
		Long: `taper-operator carries out BalancePolicies: it measures the pods of a Service,
decides their shares of the requests, and gives the weights to the mesh.

Each flag has an environment variable of the same name: --source-url is
TAPER_SOURCE_URL. A flag counts more.`,
		Example: `  taper-operator --source-type VictoriaMetrics --source-url http://vmsingle.monitoring:8428
  taper-operator --leader-elect=false --log-format text   # on a laptop, with a kubeconfig`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd, errOut, Run)
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return fromEnvironment(cmd.Flags(), os.LookupEnv)
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return command.Usage(err) })
	f.add(root.PersistentFlags())
	root.AddCommand(newRelease(&f, errOut))
	return root
}

func newRelease(f *flags, errOut io.Writer) *cobra.Command {
	var within time.Duration
	release := &cobra.Command{
		Use:   "release",
		Short: "Give every service back its own weights, then end",
		Long: `release steps the weights of every service back to equal, removes the entries and
lets the policies go; the policies themselves stay. It is for uninstalling, after
the operator was stopped: it waits for the operator's lease to be free. It ends
with 0 when nothing of taper's is left in the mesh.`,
		Example:       "  taper-operator release --within 5m",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd, errOut, func(ctx context.Context, config *rest.Config, o Options, logger *slog.Logger) error {
				return Release(ctx, config, o, within, logger)
			})
		},
	}
	release.Flags().DurationVar(&within, "within", 5*time.Minute, "give up after this long")
	return release
}

func (f *flags) add(set *pflag.FlagSet) {
	o := &f.options
	set.StringVar(&f.sourceType, "source-type", string(v1alpha1.ResourceMetrics), "where samples come from for policies that do not say: Prometheus, VictoriaMetrics or ResourceMetrics")
	set.StringVar(&o.Source.URL, "source-url", "", "base URL of that store's API")
	set.StringVar(&o.ClusterDomain, "cluster-domain", "cluster.local", "suffix of service names")
	set.StringSliceVar(&o.Namespaces, "namespaces", nil, "namespaces to look after; all when empty")
	set.BoolVar(&o.DualStack, "dual-stack", false, "istiod runs with ISTIO_DUAL_STACK=true: a pod of two families is one endpoint")
	set.StringVar(&o.Network, "network", "", "mesh network of pods without a label that says so; empty in a mesh of one")
	set.StringVar(&o.IstiodURL, "istiod-url", "", "URL of istiod's monitoring port, to check what it serves; not checked when empty")
	set.StringVar(&o.IstiodTokenFile, "istiod-token-file", "", "file with a token for istiod")
	set.StringVar(&o.MetricsAddress, "metrics-bind-address", ":8080", "where /metrics and the live page are served; 0 for not at all")
	set.StringVar(&o.HealthAddress, "health-probe-bind-address", ":8081", "where /healthz and /readyz are served")
	set.StringVar(&o.ProfileAddress, "pprof-bind-address", "0", "where profiles are served, to anybody who can reach it, such as localhost:6060; 0 for not at all")
	set.BoolVar(&o.LeaderElection, "leader-elect", true, "let one of several replicas act")
	set.StringVar(&o.LeaderNamespace, "leader-election-namespace", "", "namespace of the lease; the pod's own when empty")
	set.BoolVar(&f.endpointMetrics, "endpoint-metrics", true, "serve metrics of single endpoints")
	set.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	set.StringVar(&f.logFormat, "log-format", "json", "json or text")
}

// run puts the flags together and runs what is asked for.
func (f *flags) run(cmd *cobra.Command, errOut io.Writer, what func(context.Context, *rest.Config, Options, *slog.Logger) error) error {
	logger, err := f.logger(errOut)
	if err != nil {
		return command.Usage(err)
	}
	o := f.options
	o.Version = version
	o.Source.Type = v1alpha1.SourceType(f.sourceType)
	if f.endpointMetrics {
		o.EndpointMetrics = endpointSeries
	}
	if err := o.Validate(); err != nil {
		return command.Usage(err)
	}
	restConfig, err := config.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w; run in a pod with a service account, or set KUBECONFIG", err)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	restConfig.UserAgent = "taper-operator/" + version
	logger.Info("starting", "version", version, "go", goVersion(), "source", o.Source.Type)
	return what(cmd.Context(), restConfig, o, logger)
}

func goVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.GoVersion
	}
	return "unknown"
}

func (f *flags) logger(out io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return nil, fmt.Errorf("log level %q is unknown; want debug, info, warn or error", f.logLevel)
	}
	options := &slog.HandlerOptions{Level: level}
	switch f.logFormat {
	case "json":
		return slog.New(slog.NewJSONHandler(out, options)), nil
	case "text":
		return slog.New(slog.NewTextHandler(out, options)), nil
	}
	return nil, fmt.Errorf("log format %q is unknown; want json or text", f.logFormat)
}

// fromEnvironment sets the flags that were not given from their variables.
func fromEnvironment(set *pflag.FlagSet, lookup func(string) (string, bool)) (err error) {
	set.VisitAll(func(flag *pflag.Flag) {
		name := "TAPER_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
		value, ok := lookup(name)
		if !ok || flag.Changed || err != nil {
			return
		}
		if e := set.Set(flag.Name, value); e != nil {
			err = command.Usagef("%s=%q: %w", name, value, e)
		}
	})
	return err
}
