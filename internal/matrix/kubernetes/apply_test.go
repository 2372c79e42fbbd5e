package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	k8stesting "k8s.io/client-go/testing"

	"taper.dev/taper/internal/matrix"
	"taper.dev/taper/internal/probe"
)

func TestApply(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, allReady)
	d, err := Apply(t.Context(), c, options())
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Token) != 32 || !slices.Equal(c.namespaces(t), []string{d.Namespace}) || len(d.Notes) != 0 {
		t.Errorf("%d characters of token, namespaces %v, notes %q", len(d.Token), c.namespaces(t), d.Notes)
	}
	for i, a := range d.Agents {
		want := matrix.Agent{Name: fmt.Sprintf("node-%d", i), Block: fmt.Sprintf("zone-%d", i%2), Type: "m5.large", Addresses: map[probe.Path]string{
			probe.HostPath: fmt.Sprintf("192.168.0.%d:4010", i), probe.PodPath: fmt.Sprintf("10.32.0.%d:4000", i),
		}}
		if a.Name != want.Name || a.Block != want.Block || a.Type != want.Type || a.Problem != "" || !maps.Equal(a.Addresses, want.Addresses) {
			t.Errorf("%+v, want %+v", a, want)
		}
	}
	if want := []string{"10.96.0.9:4000", "10.96.0.9:4001", "10.96.0.9:4002", "10.96.0.9:4003"}; len(d.Agents) != 3 || !slices.Equal(d.Services, want) {
		t.Errorf("%d agents, services %v", len(d.Agents), d.Services)
	}
	secret, err := c.CoreV1().Secrets(d.Namespace).Get(t.Context(), secretName, metav1.GetOptions{})
	if err != nil || string(secret.Data[tokenKey]) != string(d.Token) {
		t.Error("the secret is not the token:", err)
	}
	service, err := c.CoreV1().Services(d.Namespace).Get(t.Context(), serviceName, metav1.GetOptions{})
	if err != nil || service.Spec.SessionAffinity != corev1.ServiceAffinityClientIP || service.Spec.Selector[componentLabel] != "pod" {
		t.Errorf("%v, %+v", err, service)
	}
	if err := d.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if err := d.Remove(t.Context()); err != nil {
		t.Error("a second time:", err)
	}
	if left := c.namespaces(t); len(left) > 0 {
		t.Error("left:", left)
	}
}

// What may be done to a node by what was applied.
func TestAgentsAreRestricted(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, allReady)
	o := options()
	o.NodeSelector = map[string]string{"pool": "a"}
	d, err := Apply(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := c.CoreV1().Namespaces().Get(t.Context(), d.Namespace, metav1.GetOptions{})
	if err != nil || namespace.Labels["pod-security.kubernetes.io/enforce"] != "privileged" {
		t.Errorf("%v, %v", err, namespace.Labels)
	}
	if len(c.sets) != 2 {
		t.Fatalf("%d DaemonSets", len(c.sets))
	}
	for _, set := range c.sets {
		pod := set.Spec.Template.Spec
		container := pod.Containers[0]
		if s := pod.SecurityContext; !*s.RunAsNonRoot || *s.RunAsUser == 0 || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: %+v", set.Name, s)
		}
		if s := container.SecurityContext; *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || s.Privileged != nil {
			t.Errorf("%s: %+v", set.Name, s)
		}
		if _, limited := container.Resources.Limits[corev1.ResourceCPU]; limited || container.Resources.Limits.Memory().IsZero() || container.Resources.Requests.Cpu().IsZero() {
			t.Errorf("%s: %+v", set.Name, container.Resources)
		}
		if pod.HostNetwork != (set.Name == "host") || *pod.AutomountServiceAccountToken || pod.NodeSelector["pool"] != "a" || pod.NodeSelector["kubernetes.io/os"] != "linux" {
			t.Errorf("%s: %+v", set.Name, pod)
		}
		if tolerates := pod.Tolerations; len(tolerates) != 1 || tolerates[0].Operator != corev1.TolerationOpExists || tolerates[0].Key != "" || tolerates[0].Effect != "" {
			t.Errorf("%s: %+v", set.Name, tolerates)
		}
		if strings.Contains(fmt.Sprint(container.Args, container.Env), string(d.Token)) {
			t.Errorf("%s: the token is in its arguments", set.Name)
		}
		for key, value := range set.Spec.Selector.MatchLabels {
			if set.Spec.Template.Labels[key] != value {
				t.Errorf("%s: its pods have no label %s=%s", set.Name, key, value)
			}
		}
	}
	if a, b := c.sets[0].Spec.Template.Spec.Containers[0].Ports[0], c.sets[1].Spec.Template.Spec.Containers[0].Ports[0]; a.ContainerPort == b.ContainerPort {
		t.Error("both have port", a.ContainerPort)
	}
}

func TestSomeAreNotReady(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4, func(node string, path probe.Path) corev1.PodStatus {
		if node == "node-1" || node == "node-2" && path == probe.PodPath {
			return waiting("ImagePullBackOff", "no such image")
		}
		return allReady(node, path)
	})
	o := options()
	o.Ready = 50 * time.Millisecond
	d, err := Apply(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	if p := d.Agents[1].Problem; !strings.Contains(p, "pod host-node-1 on the host network: ImagePullBackOff: no such image") || !strings.Contains(p, "pod pod-node-1 on the pod network") {
		t.Errorf("node-1: %q", p)
	}
	if a := d.Agents[2]; a.Problem != "" || len(a.Addresses) != 1 || a.Addresses[probe.HostPath] == "" {
		t.Errorf("%+v", a)
	}
	if len(d.Notes) != 1 || !strings.Contains(d.Notes[0], "node-2: pod pod-node-2 on the pod network: ImagePullBackOff") {
		t.Errorf("%q", d.Notes)
	}
}

var groupResource = schema.GroupResource{Resource: "anything"}

// Whatever goes wrong, nothing is left, and it is said why.
func TestApplyFails(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		state    func(string, probe.Path) corev1.PodStatus
		sabotage func(*cluster, context.CancelFunc)
		change   func(*Options)
		want     []string
	}{
		{
			"no image anywhere", func(string, probe.Path) corev1.PodStatus { return waiting("ImagePullBackOff", "not found") }, nil, nil,
			[]string{"0 agents are ready", "node-0: pod host-node-0 on the host network: ImagePullBackOff: not found", "and 2 more"},
		},
		{
			"no place", func(string, probe.Path) corev1.PodStatus {
				return corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
					{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "didn't have free ports"},
				}}
			}, nil, func(o *Options) { o.Ready = 20 * time.Millisecond },
			[]string{"node-0: pod host-node-0 on the host network: Unschedulable: didn't have free ports"},
		},
		{
			"no controller", nil, nil, func(o *Options) { o.Ready = 20 * time.Millisecond },
			[]string{"0 agents are ready", "does the DaemonSet controller run?"},
		},
		{
			"pods are refused", nil, func(c *cluster, _ context.CancelFunc) {
				c.PrependReactor("list", "events", func(k8stesting.Action) (bool, runtime.Object, error) {
					return true, &corev1.EventList{Items: []corev1.Event{{
						Type: corev1.EventTypeWarning, Reason: "FailedCreate", Message: "exceeded quota",
						InvolvedObject: corev1.ObjectReference{Kind: "DaemonSet", Name: "pod"},
					}}}, nil
				})
			}, func(o *Options) { o.Ready = 20 * time.Millisecond },
			[]string{"0 agents are ready", "(FailedCreate: exceeded quota)"},
		},
		{
			"forbidden", allReady, func(c *cluster, _ context.CancelFunc) {
				c.PrependReactor("create", "daemonsets", func(k8stesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewForbidden(groupResource, "x", errors.New("no"))
				})
			}, nil,
			[]string{"putting agents on the host network: not allowed", "docs/net.md"},
		},
		{
			"interrupted while it waits", nil, func(c *cluster, cancel context.CancelFunc) {
				c.PrependReactor("list", "daemonsets", func(k8stesting.Action) (bool, runtime.Object, error) {
					cancel()
					return false, nil, nil
				})
			}, nil, []string{"context canceled"},
		},
		{
			"interrupted while it makes the service", allReady, func(c *cluster, cancel context.CancelFunc) {
				c.PrependReactor("create", "services", func(k8stesting.Action) (bool, runtime.Object, error) {
					cancel()
					return true, nil, context.Canceled
				})
			}, nil, []string{"context canceled"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 8, test.state)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.sabotage != nil {
				test.sabotage(c, cancel)
			}
			o := options()
			if test.change != nil {
				test.change(&o)
			}
			var told []string
			o.Progress = func(text string) { told = append(told, text) }
			began := time.Now()
			_, err := Apply(ctx, c, o)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in %q", want, err)
				}
			}
			if left := c.namespaces(t); len(left) > 0 {
				t.Error("left:", left)
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
			if len(told) == 0 || !strings.HasPrefix(told[len(told)-1], "removing namespace taper-net-") {
				t.Errorf("told %q", told)
			}
		})
	}
}

func TestRemovalFails(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]error{
		"forbidden": apierrors.NewForbidden(groupResource, "x", errors.New("no")),
		"down":      errors.New("connection refused"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 2, allReady)
			d, err := Apply(t.Context(), c, options())
			if err != nil {
				t.Fatal(err)
			}
			tries := 0
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c.PrependReactor("delete", "namespaces", func(k8stesting.Action) (bool, runtime.Object, error) {
				if tries++; tries == 2 {
					cancel()
				}
				return true, nil, refusal
			})
			err = d.Remove(ctx)
			if err == nil || !strings.Contains(err.Error(), refusal.Error()) || !strings.Contains(err.Error(), "`kubectl delete namespace "+d.Namespace+"`") {
				t.Error(err)
			}
			if want := map[string]int{"forbidden": 1, "down": 2}[name]; tries != want {
				t.Errorf("%d tries, want %d", tries, want)
			}
		})
	}
}

func TestLeftovers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, allReady)
	old := namespaceFor("taper-net-old")
	old.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
	add(t, c, old)
	add(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "taper-net-others"}}) // not ours by its label
	found, err := Leftovers(t.Context(), c)
	if err != nil || len(found) != 1 || found[0].Namespace != "taper-net-old" || found[0].Going || time.Since(found[0].Made) < time.Hour {
		t.Fatalf("%v, %+v", err, found)
	}
	if err := RemoveLeftover(t.Context(), c, found[0]); err != nil || len(c.namespaces(t)) != 0 {
		t.Error(err, c.namespaces(t))
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, allReady)
	for _, test := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.Image = "" }, `"" is no image`},
		{func(o *Options) { o.Image = "a b" }, `"a b" is no image`},
		{func(o *Options) { o.HostPort = 0 }, "host port 0 is not possible"},
		{func(o *Options) { o.PodPort = 65535 }, "pod port 65535 is not possible: it must be 1 to 65532"},
		{func(o *Options) { o.Ready = 0 }, "agents cannot be ready in 0s"},
		{func(o *Options) { o.NodeSelector = map[string]string{"a b": "c"} }, "a b=c is no node label"},
	} {
		o := options()
		test.change(&o)
		if _, err := Apply(t.Context(), c, o); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q in it", err, test.want)
		}
	}
	if len(c.namespaces(t)) != 0 {
		t.Error("something was made all the same")
	}
}
