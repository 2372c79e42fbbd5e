package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldManager is who owns what Apply writes.
const fieldManager = "taper-test"

// establishedWithin is how long a new type may take to be served.
const establishedWithin = 30 * time.Second

// Apply writes the objects in YAML documents by server-side apply: types first,
// until they are served, then the others in their order.
func (c *Cluster) Apply(ctx context.Context, documents []byte) error {
	objects, err := parse(documents)
	if err != nil {
		return err
	}
	var types, rest []*unstructured.Unstructured
	for _, o := range objects {
		if o.GetKind() == "CustomResourceDefinition" {
			types = append(types, o)
		} else {
			rest = append(rest, o)
		}
	}
	for _, o := range types {
		if err := c.applyOne(ctx, o); err != nil {
			return err
		}
	}
	for _, o := range types {
		if err := c.awaitEstablished(ctx, o.GetName()); err != nil {
			return err
		}
	}
	for _, o := range rest {
		if err := c.applyOne(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// ApplyFile is Apply of a file.
func (c *Cluster) ApplyFile(ctx context.Context, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := c.Apply(ctx, text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// parse reads YAML documents; empty ones are passed over, lists are opened.
func parse(documents []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(documents), 4096)
	for n := 1; ; n++ {
		var o unstructured.Unstructured
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("YAML document %d: %w", n, err)
		}
		if len(o.Object) == 0 {
			continue
		}
		if o.GetKind() == "" || o.GetAPIVersion() == "" {
			return nil, fmt.Errorf("YAML document %d: apiVersion and kind are needed", n)
		}
		if !o.IsList() {
			objects = append(objects, &o)
			continue
		}
		if err := o.EachListItem(func(item runtime.Object) error {
			objects = append(objects, item.(*unstructured.Unstructured))
			return nil
		}); err != nil {
			return nil, fmt.Errorf("YAML document %d: %w", n, err)
		}
	}
}

// applyOne takes over fields that others own, and waits for a type that was just
// made to be found.
func (c *Cluster) applyOne(ctx context.Context, o *unstructured.Unstructured) error {
	return Eventually(ctx, establishedWithin, "applying "+describe(o), func(ctx context.Context) error {
		err := c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.ForceOwnership, client.FieldOwner(fieldManager))
		if err != nil && !meta.IsNoMatchError(err) {
			return Final(err)
		}
		return err
	})
}

func (c *Cluster) awaitEstablished(ctx context.Context, name string) error {
	return Eventually(ctx, establishedWithin, "type "+name+" is served", func(ctx context.Context) error {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := c.client.Get(ctx, client.ObjectKey{Name: name}, &crd); err != nil {
			return err
		}
		for _, condition := range crd.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", crd.Status.Conditions)
	})
}

// InstallTaperCRDs makes the types of taper known.
func (c *Cluster) InstallTaperCRDs(ctx context.Context) error {
	dir, err := moduleDir(ctx, "taper.dev/taper")
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "config", "crd", "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no CRDs in %s/config/crd: run \"make generate\"", dir)
	}
	for _, file := range files {
		if err := c.ApplyFile(ctx, file); err != nil {
			return err
		}
	}
	return nil
}

// InstallIstioCRDs makes the types of Istio known, of the version in go.mod.
func (c *Cluster) InstallIstioCRDs(ctx context.Context) error {
	dir, err := moduleDir(ctx, "istio.io/api")
	if err != nil {
		return err
	}
	return c.ApplyFile(ctx, filepath.Join(dir, "kubernetes", "customresourcedefinitions.gen.yaml"))
}

// moduleDir is where a module's files are, as the go command sees it from the
// current folder.
func moduleDir(ctx context.Context, module string) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	out, err := list.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(failed.Stderr))
		}
		return "", fmt.Errorf("finding module %s: %w", module, err)
	}
	dir := strings.TrimSpace(string(out))
	if dir == "" {
		return "", fmt.Errorf("module %s is not in the module cache: run \"go mod download %s\"", module, module)
	}
	return dir, nil
}
