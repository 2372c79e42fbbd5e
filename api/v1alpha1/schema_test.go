package v1alpha1_test

import (
	"context"
	"os"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

const crdFile = "../../config/crd/taper.dev_balancepolicies.yaml"

// admission does to a policy what an API server does that has taper's CRD.
type admission struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

// readCRD returns the generated definition, in the form in which the API server
// works with it.
func readCRD(t *testing.T) *apiextensions.CustomResourceDefinition {
	t.Helper()
	text, err := os.ReadFile(crdFile)
	if err != nil {
		t.Fatal(err)
	}
	var v1 apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &v1); err != nil {
		t.Fatalf("%s: %v", crdFile, err)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&v1.Spec)
	crd := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&v1, crd, nil); err != nil {
		t.Fatal(err)
	}
	return crd
}

// policySchema is the schema of BalancePolicy v1alpha1, the only version. The API
// server keeps the schema of a single version beside the versions.
func policySchema(t *testing.T) *apiextensions.JSONSchemaProps {
	t.Helper()
	spec := readCRD(t).Spec
	if len(spec.Versions) != 1 || spec.Validation == nil {
		t.Fatalf("%s has %d versions and the schema %v, want one version with one", crdFile, len(spec.Versions), spec.Validation)
	}
	return spec.Validation.OpenAPIV3Schema
}

func newAdmission(t *testing.T) *admission {
	t.Helper()
	props := policySchema(t)
	structural, err := structuralschema.NewStructural(props)
	if err != nil {
		t.Fatal(err)
	}
	schema, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		t.Fatal(err)
	}
	return &admission{structural, schema, cel.NewValidator(structural, true, celconfig.PerCallLimit)}
}

// admit fills in defaults in object and returns what is wrong with it. With old it
// is an update. An unknown field is an error, as with kubectl.
func (a *admission) admit(ctx context.Context, object, old map[string]any) field.ErrorList {
	var errs field.ErrorList
	unknown := pruning.PruneWithOptions(object, a.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	for _, path := range unknown {
		errs = append(errs, field.Invalid(field.NewPath(path), nil, "unknown field"))
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(object, a.structural)
	defaulting.Default(object, a.structural)
	var previous any
	if old == nil {
		errs = append(errs, validation.ValidateCustomResource(nil, object, a.schema)...)
	} else {
		previous = old
		errs = append(errs, validation.ValidateCustomResourceUpdate(nil, object, old, a.schema)...)
	}
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, a.structural, object)...)
	fromRules, _ := a.rules.Validate(ctx, nil, a.structural, object, previous, celconfig.RuntimeCELCostBudget)
	return append(errs, fromRules...)
}

// policyOf returns a policy of the given parts, in YAML. A spec that does not
// mention its target is given one.
func policyOf(t *testing.T, parts string) map[string]any {
	t.Helper()
	object := decode(t, []byte(parts))
	if _, ok := object["spec"]; !ok {
		object["spec"] = map[string]any{}
	}
	object["apiVersion"], object["kind"] = "taper.dev/v1alpha1", "BalancePolicy"
	object["metadata"] = map[string]any{"name": "shop", "namespace": "demo"}
	if spec, ok := object["spec"].(map[string]any); ok {
		if _, ok := spec["targetRef"]; !ok {
			spec["targetRef"] = map[string]any{"name": "shop"}
		}
	}
	return object
}

// decode reads YAML as the API server does: whole numbers stay whole.
func decode(t *testing.T, text []byte) map[string]any {
	t.Helper()
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	object := map[string]any{}
	if err := json.Unmarshal(asJSON, &object); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return object
}

// typed reads object into the Go type, the way a client gets it.
func typed(t *testing.T, object map[string]any, into any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, into, true); err != nil {
		t.Errorf("the schema admits what the type cannot hold: %v", err)
	}
}

// TestDefinition holds the CRD to what the API server asks of one: a structural
// schema, valid defaults, and rules whose cost it can bound.
func TestDefinition(t *testing.T) {
	t.Parallel()
	crd := readCRD(t)
	crd.Status.StoredVersions = []string{"v1alpha1"}
	if errs := crdvalidation.ValidateCustomResourceDefinition(t.Context(), crd); len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
}
