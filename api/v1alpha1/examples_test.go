package v1alpha1_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	corev1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"taper.dev/taper/api/v1alpha1"
)

const examples = "../../examples/policies/*.yaml"

// TestExamples holds every example to what the API server and the operator ask of it:
// it is admitted, its PromQL can be parsed, and the Secrets that it names are beside it.
func TestExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(examples)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", examples, len(files), err)
	}
	a := newAdmission(t)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			secrets := map[string]corev1.Secret{}
			var policies []v1alpha1.BalancePolicy
			for _, object := range documents(t, file) {
				switch object["kind"] {
				case "Secret":
					var secret corev1.Secret
					typed(t, object, &secret)
					secrets[secret.Namespace+"/"+secret.Name] = secret
				case "BalancePolicy":
					if errs := a.admit(t.Context(), object, nil); len(errs) > 0 {
						t.Error(errs.ToAggregate())
					}
					var policy v1alpha1.BalancePolicy
					typed(t, object, &policy)
					policies = append(policies, policy)
				default:
					t.Errorf("a %v has no place in an example", object["kind"])
				}
			}
			if len(policies) != 1 {
				t.Fatalf("%d policies, want one", len(policies))
			}
			checkQueries(t, &policies[0].Spec)
			checkSecrets(t, &policies[0], secrets)
		})
	}
}

// documents reads all documents of a file.
func documents(t *testing.T, file string) []map[string]any {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var objects []map[string]any
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, decode(t, document))
	}
}

// checkQueries parses the PromQL in a spec.
func checkQueries(t *testing.T, spec *v1alpha1.BalancePolicySpec) {
	t.Helper()
	promQL := parser.NewParser(parser.Options{})
	if spec.GuardRail != nil {
		if _, err := promQL.ParseExpr(spec.GuardRail.Query); err != nil {
			t.Error(err)
		}
	}
	if spec.Source == nil {
		return
	}
	q := spec.Source.Queries
	for _, query := range []*v1alpha1.Query{q.CPU, q.Requests, q.InFlight} {
		if query == nil || query.Disabled {
			continue
		}
		if _, err := promQL.ParseMetricSelector(query.Selector); err != nil {
			t.Errorf("%s: %v", query.Selector, err)
		}
	}
}

// checkSecrets looks for the keys that a policy takes from Secrets.
func checkSecrets(t *testing.T, policy *v1alpha1.BalancePolicy, secrets map[string]corev1.Secret) {
	t.Helper()
	want := map[string][]string{}
	if s := policy.Spec.Source; s != nil {
		if s.Auth != nil && s.Auth.Type == "Basic" {
			want[s.Auth.SecretName] = []string{"username", "password"}
		} else if s.Auth != nil {
			want[s.Auth.SecretName] = []string{"token"}
		}
		if s.TLS != nil && s.TLS.CASecretName != "" {
			want[s.TLS.CASecretName] = []string{"ca.crt"}
		}
	}
	for name, keys := range want {
		secret := secrets[policy.Namespace+"/"+name]
		for _, key := range keys {
			if secret.StringData[key] == "" {
				t.Errorf("no Secret %s/%s with key %s is beside the policy", policy.Namespace, name, key)
			}
		}
	}
	if len(want) != len(secrets) {
		t.Errorf("%d Secrets for a policy that names %d", len(secrets), len(want))
	}
}
