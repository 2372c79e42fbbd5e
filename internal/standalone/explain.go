package standalone

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

var unknownField = regexp.MustCompile(`^line (\d+): field (\S+) not found in type standalone\.(\w+)$`)

// sections are the parts of a configuration, by the name of their Go type: the
// YAML decoder names those in its errors, which mean nothing to a user.
var sections = map[string]any{
	"Config": Config{}, "SourceConfig": SourceConfig{}, "PromQLConfig": PromQLConfig{}, "MetricConfig": MetricConfig{},
	"EnvoyConfig": EnvoyConfig{}, "ServiceConfig": ServiceConfig{}, "EndpointConfig": EndpointConfig{},
	"LimitsConfig": LimitsConfig{}, "FreshnessConfig": FreshnessConfig{},
}

// explain turns the first of the decoder's errors into one line that says which
// keys there are.
func explain(err error) error {
	var typeError *yaml.TypeError
	if !errors.As(err, &typeError) || len(typeError.Errors) == 0 {
		return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	first := typeError.Errors[0]
	m := unknownField.FindStringSubmatch(first)
	if m == nil {
		return errors.New(first)
	}
	return fmt.Errorf("line %s: unknown key %q: known here are %s", m[1], m[2], strings.Join(keys(sections[m[3]]), ", "))
}

func keys(section any) []string {
	t := reflect.TypeOf(section)
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = t.Field(i).Tag.Get("yaml")
	}
	return names
}
