package kubectl

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubeconfigs name these
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"taper.dev/taper/api/v1alpha1"
	"taper.dev/taper/internal/command"
)

const (
	// defaultWait bounds a command's reading.
	defaultWait = "30s"
	// longestWait is the longest that may be asked for.
	longestWait = time.Hour
	// pageSize is how many policies are read at once: a policy of 500 endpoints has
	// some 200 KB.
	pageSize = 100
	// maxNamed bounds how many of something an answer names.
	maxNamed = 3
)

// connection is how the user says which API server is meant.
type connection struct {
	flags *genericclioptions.ConfigFlags
}

func newConnection(flags *pflag.FlagSet) *connection {
	c := &connection{flags: genericclioptions.NewConfigFlags(false)}
	c.flags.CacheDir = nil // nothing is discovered, so nothing is cached
	*c.flags.Timeout = defaultWait
	c.flags.AddFlags(flags)
	flags.Lookup("request-timeout").Usage = "How long to wait for the API server in all, such as 10s or 2m."
	return c
}

// cluster is what a command reads from, until its deadline.
type cluster struct {
	client.Reader
	// namespace is empty for all of them.
	namespace string
	within    time.Duration
	now       time.Time
}

// open returns the cluster and a context with the deadline. It asks nothing yet.
func (c *connection) open(cmd *cobra.Command, allNamespaces bool) (context.Context, context.CancelFunc, *cluster, error) {
	within, err := clientcmd.ParseTimeout(*c.flags.Timeout)
	if err != nil || within <= 0 || within > longestWait {
		return nil, nil, nil, command.Usagef("--request-timeout is %q: it must be more than 0 and at most %s, such as 30s", *c.flags.Timeout, longestWait)
	}
	loader := c.flags.ToRawKubeConfigLoader()
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, nil, nil, fmt.Errorf("the kubeconfig is not usable: %w", err)
	}
	namespace := ""
	if !allNamespaces {
		if namespace, _, err = loader.Namespace(); err != nil {
			return nil, nil, nil, fmt.Errorf("the kubeconfig is not usable: %w", err)
		}
	}
	config.QPS = -1 // a command makes a few calls, one after the other
	config.WarningHandler = rest.NewWarningWriter(cmd.ErrOrStderr(), rest.WarningWriterOptions{Deduplicate: true})
	reader, err := newReader(config)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("a client for %s: %w", config.Host, err)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), within)
	return ctx, cancel, &cluster{Reader: reader, namespace: namespace, within: within, now: time.Now()}, nil
}

// newReader knows the few kinds that are read, so that it need not ask for them.
func newReader(config *rest.Config) (client.Reader, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(v1alpha1.GroupVersion.WithKind("BalancePolicy"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Service"), meta.RESTScopeNamespace)
	return client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
}

// each hands over every policy, page by page.
func (c *cluster) each(ctx context.Context, use func(*v1alpha1.BalancePolicy)) error {
	var list v1alpha1.BalancePolicyList
	for {
		err := c.List(ctx, &list, client.InNamespace(c.namespace), client.Limit(pageSize), client.Continue(list.Continue))
		if err != nil {
			return c.explain("listing policies", err)
		}
		for i := range list.Items {
			use(&list.Items[i])
		}
		if list.Continue == "" {
			return nil
		}
		list.Items = nil
	}
}

// some hands over the policy of that name, or every one when the name is empty.
func (c *cluster) some(ctx context.Context, name string, use func(*v1alpha1.BalancePolicy)) error {
	if name == "" {
		return c.each(ctx, use)
	}
	var policy v1alpha1.BalancePolicy
	err := c.Get(ctx, types.NamespacedName{Namespace: c.namespace, Name: name}, &policy)
	if apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err) {
		return c.unknown(ctx, name)
	}
	if err != nil {
		return c.explain(fmt.Sprintf("reading policy %s/%s", c.namespace, name), err)
	}
	use(&policy)
	return nil
}

// unknown is the error for a policy that is not there; it names those that are.
func (c *cluster) unknown(ctx context.Context, name string) error {
	names, err := c.names(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("there is no policy %q in namespace %s", name, c.namespace)
	case len(names) == 0:
		return fmt.Errorf("there is no policy %q in namespace %s, and no other: -n NAMESPACE chooses another namespace", name, c.namespace)
	}
	return fmt.Errorf("there is no policy %q in namespace %s: there is %s", name, c.namespace, few(names))
}

// names are those of the first policies, without what is in them.
func (c *cluster) names(ctx context.Context) ([]string, error) {
	list := metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("BalancePolicyList"))
	if err := c.List(ctx, &list, client.InNamespace(c.namespace), client.Limit(pageSize)); err != nil {
		return nil, err
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	return names, nil
}

// few shows the first of many names.
func few(names []string) string {
	shown := strings.Join(names[:min(len(names), maxNamed)], ", ")
	if more := len(names) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", shown, more)
	}
	return shown
}

// explain says what an error of the API server means and what cures it.
func (c *cluster) explain(doing string, err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return fmt.Errorf("%s: no answer within %s: --request-timeout allows more", doing, c.within)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s: the API server knows no balancepolicies.taper.dev: taper-operator is not installed there; install it, or choose another cluster with --context", doing)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: not allowed: %w: ask for the verbs get and list on balancepolicies.taper.dev", doing, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the API server does not accept the credentials: %w: log in again, or choose another user with --context", doing, err)
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		server := e.URL
		if u, parseErr := url.Parse(e.URL); parseErr == nil {
			server = u.Scheme + "://" + u.Host
		}
		return fmt.Errorf("%s: cannot reach the API server %s: %w: is the --context the right one?", doing, server, e.Err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
