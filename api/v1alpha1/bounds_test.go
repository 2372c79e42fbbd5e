package v1alpha1_test

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
)

// bounds lists every bound in a schema, with what the API server says to those who
// pass it: "limits.stepPercent maximum" to "less than or equal to 900". What the
// library for conditions brings along is left out.
func bounds(path string, s *apiextensions.JSONSchemaProps) map[string]string {
	found := map[string]string{}
	add := func(keyword, says string) { found[path+" "+keyword] = says }
	if s.Minimum != nil {
		add("minimum", fmt.Sprintf("greater than or equal to %v", *s.Minimum))
	}
	if s.Maximum != nil {
		add("maximum", fmt.Sprintf("less than or equal to %v", *s.Maximum))
	}
	if s.MinLength != nil {
		add("minLength", fmt.Sprintf("at least %d chars long", *s.MinLength))
	}
	if s.MaxLength != nil {
		add("maxLength", fmt.Sprintf("may not be more than %d bytes", *s.MaxLength))
	}
	if s.Pattern != "" {
		add("pattern", "should match '"+s.Pattern)
	}
	if s.Enum != nil {
		add("enum", "supported values: ")
	}
	if s.MaxItems != nil {
		add("maxItems", fmt.Sprintf("must have at most %d items", *s.MaxItems))
	}
	if s.MaxProperties != nil {
		add("maxProperties", fmt.Sprintf("must have at most %d items", *s.MaxProperties))
	}
	if s.XListType != nil && *s.XListType == "set" {
		add("set", "Duplicate value")
	}
	for _, name := range s.Required {
		found[join(path, name)+" required"] = "Required value"
	}
	for _, rule := range s.XValidations {
		add("rule: "+rule.Message, rule.Message)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		child := s.Properties[name]
		if path != "status" || name != "conditions" {
			maps.Copy(found, bounds(join(path, name), &child))
		}
	}
	if s.Items != nil {
		maps.Copy(found, bounds(path+"[]", s.Items.Schema))
	}
	return found
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
