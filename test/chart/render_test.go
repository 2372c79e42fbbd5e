package chart

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const (
	root     = "../.."
	chartDir = root + "/charts/taper"
	// namespace and release are those of config/install.yaml.
	namespace = "taper-system"
	release   = "taper"
	name      = "taper-operator"
)

// helm runs helm template with values as its flag --set takes them. Without helm the
// test is skipped.
func helm(t *testing.T, values ...string) ([]byte, error) {
	t.Helper()
	path, err := exec.LookPath("helm")
	if err != nil {
		if os.Getenv("TAPER_TEST_REQUIRE_ALL") == "1" {
			t.Fatal(err)
		}
		t.Skipf(`%v: run "make tools"`, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	args := []string{"template", release, chartDir, "--namespace", namespace}
	for _, value := range values {
		args = append(args, "--set", value)
	}
	command := exec.CommandContext(ctx, path, args...)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		return nil, errors.New(strings.TrimSpace(said.String()))
	}
	return out, nil
}

// render returns the objects of the chart, hooks included.
func render(t *testing.T, values ...string) objects {
	t.Helper()
	out, err := helm(t, values...)
	if err != nil {
		t.Fatalf("helm with %q: %v", values, err)
	}
	return read(t, out)
}

// objects are what a manifest holds, in its order.
type objects []metav1.Object

// read decodes a manifest. A field that its kind does not have is an error; kinds of
// others, such as ServiceMonitor, are taken as they are.
func read(t *testing.T, manifest []byte) objects {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	var all objects
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		object, _, err := decoder.Decode(document, nil, nil)
		switch {
		case runtime.IsMissingKind(err): // comments only
			continue
		case runtime.IsNotRegisteredError(err):
			other := &unstructured.Unstructured{}
			err = yaml.UnmarshalStrict(document, &other.Object)
			object = other
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		all = append(all, object.(metav1.Object))
	}
}

// find returns the only object of a type with the name.
func find[T metav1.Object](t *testing.T, all objects, name string) T {
	t.Helper()
	var found []T
	for _, object := range kind[T](all) {
		if object.GetName() == name {
			found = append(found, object)
		}
	}
	if len(found) != 1 {
		var none T
		t.Fatalf("%d objects of type %T are named %s, want one", len(found), none, name)
	}
	return found[0]
}

// kind returns the objects of a type.
func kind[T metav1.Object](all objects) []T {
	var found []T
	for _, object := range all {
		if typed, ok := object.(T); ok {
			found = append(found, typed)
		}
	}
	return found
}

// others returns the objects of a kind that has no Go type here.
func others(all objects, kind string) []*unstructured.Unstructured {
	var found []*unstructured.Unstructured
	for _, object := range all {
		if u, ok := object.(*unstructured.Unstructured); ok && u.GetKind() == kind {
			found = append(found, u)
		}
	}
	return found
}

// key names an object by type and name.
func key(object metav1.Object) string { return fmt.Sprintf("%T %s", object, object.GetName()) }
