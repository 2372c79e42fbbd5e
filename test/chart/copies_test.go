package chart

import (
	"bytes"
	"os"
	"testing"
)

// TestCopies sees that the chart has the definition and the role that were generated.
func TestCopies(t *testing.T) {
	t.Parallel()
	for generated, copied := range map[string]string{
		root + "/config/crd/taper.dev_balancepolicies.yaml": chartDir + "/files/crd.yaml",
		root + "/config/rbac/role.yaml":                     chartDir + "/files/role.yaml",
	} {
		want, err := os.ReadFile(generated)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(copied)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not %s: run \"make generate\"", copied, generated)
		}
	}
}

// TestManifests sees that those without helm get the same objects as those with it.
func TestManifests(t *testing.T) {
	t.Parallel()
	manifest, err := os.ReadFile(root + "/config/install.yaml")
	if err != nil {
		t.Fatal(err)
	}
	plain := map[string]bool{}
	for _, object := range read(t, manifest) {
		plain[key(object)] = true
	}
	if !plain["*v1.Namespace "+namespace] {
		t.Errorf("the namespace %s is not in install.yaml, and nothing would go into it", namespace)
	}
	delete(plain, "*v1.Namespace "+namespace)
	if manifest, err = os.ReadFile(root + "/config/release.yaml"); err != nil {
		t.Fatal(err)
	}
	for _, object := range read(t, manifest) {
		if len(object.GetAnnotations()) != 0 {
			t.Errorf("%s has annotations for helm: %v", key(object), object.GetAnnotations())
		}
		plain[key(object)] = true
	}
	// Without helm, the Job runs while the operator's own account is still there.
	for _, object := range render(t) {
		if object.GetAnnotations()["helm.sh/hook"] != "" && key(object) != "*v1.Job "+name+"-release" {
			continue
		}
		if !plain[key(object)] {
			t.Errorf("%s is in the chart only", key(object))
		}
		delete(plain, key(object))
	}
	for object := range plain {
		t.Errorf("%s is in the manifests only", object)
	}
}
