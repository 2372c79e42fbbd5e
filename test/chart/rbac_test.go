package chart

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
)

// inScope is what the operator may do where it looks at policies. Whatever is added
// here has to be explained in docs/operator-install.md.
var inScope = []string{
	"balancepolicies.taper.dev get list patch watch",
	"balancepolicies/status.taper.dev patch",
	"endpointslices.discovery.k8s.io get list watch",
	"events.events.k8s.io create patch",
	"pods get list watch",
	"pods.metrics.k8s.io list",
	"serviceentries.networking.istio.io create delete get list patch watch",
	"services get list watch",
}

const (
	nodes   = "nodes get list watch"
	secrets = "secrets get"
)

// ofLease is what it may do in its own namespace.
var ofLease = []string{
	"events create patch",
	"leases.coordination.k8s.io create",
	"leases.coordination.k8s.io[taper-operator] get update",
}

// TestPermissions lists what each account may do, where: "*" is everywhere.
func TestPermissions(t *testing.T) {
	t.Parallel()
	everywhere := slices.Concat(inScope, []string{nodes})
	for _, tt := range []struct {
		values            string
		operator, release map[string][]string
	}{
		{
			"",
			map[string][]string{"*": slices.Concat(everywhere, []string{secrets}), namespace: ofLease},
			map[string][]string{"*": everywhere, namespace: ofLease},
		},
		{
			"namespaces={shop,demo}",
			map[string][]string{"*": {nodes}, "shop": slices.Concat(everywhere, []string{secrets}), "demo": slices.Concat(everywhere, []string{secrets}), namespace: ofLease},
			map[string][]string{"*": {nodes}, "shop": everywhere, "demo": everywhere, namespace: ofLease},
		},
		{
			"rbac.secrets.access=None",
			map[string][]string{"*": everywhere, namespace: ofLease},
			map[string][]string{"*": everywhere, namespace: ofLease},
		},
		{
			"rbac.secrets.access=Namespaces,rbac.secrets.namespaces={shop}",
			map[string][]string{"*": everywhere, "shop": {secrets}, namespace: ofLease},
			map[string][]string{"*": everywhere, namespace: ofLease},
		},
		{
			// The operator's own namespace may be one of those that it looks at.
			"namespaces={taper-system},rbac.secrets.access=None",
			map[string][]string{"*": {nodes}, namespace: slices.Concat(everywhere, ofLease)},
			map[string][]string{"*": {nodes}, namespace: slices.Concat(everywhere, ofLease)},
		},
	} {
		var values []string
		if tt.values != "" {
			values = []string{tt.values}
		}
		all := render(t, values...)
		for account, want := range map[string]map[string][]string{name: tt.operator, name + "-release": tt.release} {
			for _, rules := range want {
				slices.Sort(rules)
			}
			if diff := cmp.Diff(want, grants(t, all, account)); diff != "" {
				t.Errorf("with %q, %s may (-want +got):\n%s", tt.values, account, diff)
			}
		}
	}
}

// TestNoPermissions sees that nothing is granted where that is up to somebody else.
func TestNoPermissions(t *testing.T) {
	t.Parallel()
	all := render(t, "rbac.create=false")
	for _, account := range []string{name, name + "-release"} {
		if got := grants(t, all, account); len(got) != 0 {
			t.Errorf("%s may %v", account, got)
		}
	}
}

// TestUserRoles lists what people get through the cluster's own roles.
func TestUserRoles(t *testing.T) {
	t.Parallel()
	all := render(t)
	for role, want := range map[string][]string{
		"taper-view": {"balancepolicies.taper.dev get list watch", "balancepolicies/status.taper.dev get list watch"},
		"taper-edit": {"balancepolicies.taper.dev create delete deletecollection patch update"},
	} {
		r := find[*rbacv1.ClusterRole](t, all, role)
		if diff := cmp.Diff(want, describe(t, r.Rules)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", role, diff)
		}
		if got := r.Labels["rbac.authorization.k8s.io/aggregate-to-view"] == "true"; got != (role == "taper-view") {
			t.Errorf("%s joins view: %v", role, got)
		}
	}
}

// grants returns what bindings give to a service account, by namespace.
func grants(t *testing.T, all objects, account string) map[string][]string {
	t.Helper()
	got := map[string][]string{}
	add := func(where string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
		for _, s := range subjects {
			if s.Kind != rbacv1.ServiceAccountKind || s.Namespace != namespace || s.Name != account {
				continue
			}
			got[where] = append(got[where], describe(t, rulesOf(t, all, ref))...)
			slices.Sort(got[where])
		}
	}
	for _, b := range kind[*rbacv1.ClusterRoleBinding](all) {
		add("*", b.RoleRef, b.Subjects)
	}
	for _, b := range kind[*rbacv1.RoleBinding](all) {
		add(b.Namespace, b.RoleRef, b.Subjects)
	}
	return got
}

func rulesOf(t *testing.T, all objects, ref rbacv1.RoleRef) []rbacv1.PolicyRule {
	t.Helper()
	if ref.Kind == "Role" {
		return find[*rbacv1.Role](t, all, ref.Name).Rules
	}
	return find[*rbacv1.ClusterRole](t, all, ref.Name).Rules
}

// describe lists rules, one line per resource.
func describe(t *testing.T, rules []rbacv1.PolicyRule) []string {
	t.Helper()
	var lines []string
	for _, rule := range rules {
		if len(rule.NonResourceURLs) != 0 {
			t.Errorf("the rule %v is about URLs", rule)
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				if group != "" {
					resource += "." + group
				}
				if len(rule.ResourceNames) != 0 {
					resource += fmt.Sprint(rule.ResourceNames)
				}
				lines = append(lines, resource+" "+strings.Join(slices.Sorted(slices.Values(rule.Verbs)), " "))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// TestPermissionsAreExplained looks for every resource in the table for those who have
// to agree to it.
func TestPermissionsAreExplained(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(root + "/docs/operator-install.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range slices.Concat(inScope, ofLease, []string{nodes, secrets}) {
		resource, _, _ := strings.Cut(line, " ")
		resource, _, _ = strings.Cut(resource, ".")
		if !regexp.MustCompile("(?m)^\\|.*`" + resource + "`").Match(text) {
			t.Errorf("docs/operator-install.md does not say what %s are for", resource)
		}
	}
}
