package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clientset "k8s.io/client-go/kubernetes"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubeconfigs name these
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Connect is a client as kubectl would use: by a kubeconfig (empty: $KUBECONFIG, or the one
// at home) and one of its contexts (empty: the current one), or as the pod that this runs
// in. It also returns the context's namespace. It asks nothing yet.
func Connect(kubeconfig, context string) (clientset.Interface, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("the kubeconfig is not usable: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("the kubeconfig is not usable: %w", err)
	}
	config.WarningHandler = rest.NoWarnings{}
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return nil, "", fmt.Errorf("a client for %s: %w", config.Host, err)
	}
	return client, namespace, nil
}

// explain says what an error of the API server means and what cures it.
func explain(doing string, err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: not allowed: %w: docs/net.md lists what taper net matrix needs", doing, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the API server does not accept the credentials: %w: log in again, or choose another context", doing, err)
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		server := e.URL
		if u, parseErr := url.Parse(e.URL); parseErr == nil {
			server = u.Scheme + "://" + u.Host
		}
		return fmt.Errorf("%s: cannot reach the API server %s: %w: is the context the right one?", doing, server, e.Err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
