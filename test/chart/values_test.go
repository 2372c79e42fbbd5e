package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestRefusedValues lists values that look right; each must be refused by its name.
func TestRefusedValues(t *testing.T) {
	t.Parallel()
	for values, about := range map[string]string{
		"replica=3":          "'replica'",
		"image.tags=v1":      "'tags'",
		"replicas=0":         "/replicas",
		"replicas=two":       "/replicas",
		"nameOverride=Taper": "/nameOverride",
		"image.repository=https://example.com/taper": "/image/repository",
		"image.digest=v1":                          "/image/digest",
		"image.pullPolicy=Sometimes":               "/image/pullPolicy",
		"namespaces=shop":                          "/namespaces",
		"namespaces={shop,shop}":                   "/namespaces",
		"namespaces={Shop}":                        "/namespaces/0",
		"clusterDomain=":                           "/clusterDomain",
		"source.type=prometheus":                   "/source/type",
		"source.type=Prometheus":                   "/source/url",
		"source.url=http://prometheus:9090":        "/source/url",
		"istiod.url=istiod:15014":                  "/istiod/url",
		"istiod.url=http://me:secret@istiod:15014": "/istiod/url",
		"log.level=trace":                          "/log/level",
		"log.format=logfmt":                        "/log/format",
		"endpointMetrics=often":                    "/endpointMetrics",
		"profiling=here":                           "/profiling",
		"resources.limits.memory=1G":               "/resources/limits/memory",
		"resources.limits.memory=null":             "/resources/limits",
		"resources.limits.gpu=1":                   "'gpu'",
		"podLabels.a=1":                            "/podLabels/a",
		"serviceAccount.create=false":              "/serviceAccount/name",
		"rbac.secrets.access=All":                  "/rbac/secrets/access",
		"rbac.secrets.access=Namespaces":           "/rbac/secrets/namespaces",
		"rbac.secrets.namespaces={shop}":           "/rbac/secrets/namespaces",
		"release.timeoutSeconds=5":                 "/release/timeoutSeconds",
		"networkPolicy.apiServerPorts={}":          "/networkPolicy/apiServerPorts",
		"networkPolicy.storePorts={0}":             "/networkPolicy/storePorts/0",
		"networkPolicy.metricsFrom=monitoring":     "/networkPolicy/metricsFrom",
		"serviceMonitor.interval=0s":               "/serviceMonitor/interval",
		"dashboard.labels=grafana":                 "/dashboard/labels",
		"tolerations.key=a":                        "/tolerations",
		"topologySpreadConstraints=zone":           "/topologySpreadConstraints",
		"priorityClassName=System Cluster":         "/priorityClassName",
		"network=a/b":                              "/network",
		"crds=false":                               "/crds",
		"podDisruptionBudget.enabled=1":            "/podDisruptionBudget/enabled",
		"prometheusRule.enable=true":               "'enable'",
		"imagePullSecrets={pull}":                  "/imagePullSecrets/0",
		"rbac.aggregate=view":                      "/rbac/aggregate",
	} {
		t.Run(values, func(t *testing.T) {
			t.Parallel()
			_, err := helm(t, values)
			if err == nil {
				t.Fatalf("%s is taken", values)
			}
			if !strings.Contains(err.Error(), about) || !strings.Contains(err.Error(), "schema") {
				t.Errorf("%s: %v; want the schema to refuse %s", values, err, about)
			}
		})
	}
}

// TestSchemaIsComplete sees that the schema is strict everywhere, and that it and
// values.yaml have the same names.
func TestSchemaIsComplete(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(chartDir + "/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(chartDir + "/values.yaml"); err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range compare("", schema, values) {
		t.Error(wrong)
	}
	if wrong := compare("", schema, map[string]any{"stray": 1}); len(wrong) < 20 {
		t.Errorf("the comparison finds only %q", wrong)
	}
}

// notInValues are names that the schema has and values.yaml has not.
var notInValues = map[string]bool{
	"global":                               true, // helm's own
	"resources.requests.ephemeral-storage": true, "resources.limits.ephemeral-storage": true,
	"resources.limits.cpu": true, // none is better
}

func compare(path string, schema, values map[string]any) []string {
	var wrong []string
	properties, _ := schema["properties"].(map[string]any)
	if schema["additionalProperties"] != false {
		wrong = append(wrong, fmt.Sprintf("%q takes any name", path))
	}
	for name := range values {
		if _, ok := properties[name]; !ok {
			wrong = append(wrong, fmt.Sprintf("%s%s is not in the schema", path, name))
		}
	}
	for name, property := range properties {
		value, ok := values[name]
		if !ok && !notInValues[path+name] {
			wrong = append(wrong, fmt.Sprintf("%s%s is not in values.yaml", path, name))
		}
		child, isObject := property.(map[string]any)
		if isObject = isObject && child["properties"] != nil; isObject {
			inner, _ := value.(map[string]any)
			wrong = append(wrong, compare(path+name+".", child, inner)...)
		}
	}
	return wrong
}
