package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"taper.dev/taper/internal/trap"
)

const (
	// defaultGrace is how long pods get to end when they do not say.
	defaultGrace = 30 * time.Second
	// clusterNdots is what the kubelet writes for pods that ask the cluster's DNS.
	clusterNdots = 5
	// clusterDomain is what clusters are called that do not say; manifests never do.
	clusterDomain = "cluster.local"
)

const want = "want one Pod: kubectl get pod NAME -o yaml"

// manifest is the part of a Pod that matters. Its own type is not decoded as a whole: what
// a pod holds besides must not get in the way, and quantities with large exponents take
// the library that reads them minutes.
type manifest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
	Spec struct {
		Containers                    []container          `json:"containers"`
		InitContainers                []container          `json:"initContainers"`
		Resources                     resources            `json:"resources"`
		DNSPolicy                     corev1.DNSPolicy     `json:"dnsPolicy"`
		DNSConfig                     *corev1.PodDNSConfig `json:"dnsConfig"`
		HostNetwork                   bool                 `json:"hostNetwork"`
		ServiceAccountName            string               `json:"serviceAccountName"`
		TerminationGracePeriodSeconds *int64               `json:"terminationGracePeriodSeconds"`
	} `json:"spec"`
}

type container struct {
	Name          string                        `json:"name"`
	RestartPolicy corev1.ContainerRestartPolicy `json:"restartPolicy"`
	Resources     resources                     `json:"resources"`
	Lifecycle     struct {
		PreStop *struct{} `json:"preStop"`
	} `json:"lifecycle"`
}

type resources struct {
	Limits struct {
		CPU cores `json:"cpu"`
	} `json:"limits"`
}

// cores is a quantity of CPU; 0 is none.
type cores float64

// quantity is what a CPU quantity looks like at most: two digits of exponent, which
// is more than any needs.
var quantity = regexp.MustCompile(`^[0-9.]{1,32}([numkMGTPEi]{0,2}|[eE][-+]?[0-9]{1,2})$`)

var errQuantity = errors.New("a cpu limit is not a quantity; want 500m or 1.5")

// UnmarshalJSON reads 2, 0.5 and "500m".
func (c *cores) UnmarshalJSON(data []byte) error {
	text := strings.Trim(string(data), `"`)
	if !quantity.MatchString(text) {
		return errQuantity
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return errQuantity
	}
	*c = cores(q.AsApproximateFloat64())
	return nil
}

// ParsePod reads a pod's manifest, YAML or JSON. Fields that are not known are passed
// over, since clusters may be newer; another kind or a second document is an error.
func ParsePod(r io.Reader) (*trap.Pod, error) {
	data, err := read(r, "the pod's manifest")
	if err != nil {
		return nil, err
	}
	object, err := decodePod(data)
	if err != nil {
		return nil, fmt.Errorf("the pod's manifest %w", err)
	}
	pod := &trap.Pod{
		Name: object.Metadata.Name, Namespace: object.Metadata.Namespace, CPULimit: object.cpuLimits(),
		PreStop: object.hasPreStop(), TerminationGrace: defaultGrace,
		HostNetwork: object.Spec.HostNetwork, ServiceAccount: object.Spec.ServiceAccountName,
	}
	if s := object.Spec.TerminationGracePeriodSeconds; s != nil {
		if *s < 0 || *s > int64(365*24*time.Hour/time.Second) {
			return nil, fmt.Errorf("the pod's manifest has a terminationGracePeriodSeconds of %d; want 0 or more, and less than a year", *s)
		}
		pod.TerminationGrace = time.Duration(*s) * time.Second
	}
	if pod.DNS, err = object.resolv(); err != nil {
		return nil, fmt.Errorf("the pod's manifest: dnsConfig: %w", err)
	}
	return pod, nil
}

// lineNumber is where YAML errors say they are. The rest of them may quote a value.
var lineNumber = regexp.MustCompile(`line \d+`)

// decodePod reads a manifest. Its errors quote no values.
func decodePod(data []byte) (*manifest, error) {
	text, err := yaml.YAMLToJSON(data)
	if err != nil {
		where := lineNumber.FindString(err.Error())
		if where == "" {
			where = "as a whole"
		}
		return nil, fmt.Errorf("is not YAML (%s); %s", where, want)
	}
	var meta struct {
		APIVersion, Kind string
	}
	if err := json.Unmarshal(text, &meta); err != nil {
		return nil, errors.New("is not an object; " + want)
	}
	if meta.Kind != "Pod" || meta.APIVersion != "v1" {
		return nil, fmt.Errorf("is of kind %s; %s", named(meta.APIVersion, meta.Kind), want)
	}
	if documents(data) > 1 {
		return nil, errors.New("has more than one document; " + want)
	}
	var pod manifest
	if err := json.Unmarshal(text, &pod); errors.Is(err, errQuantity) {
		return nil, fmt.Errorf("cannot be used: %w", errQuantity)
	} else if err != nil {
		field := "some field"
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && wrong.Field != "" {
			field = wrong.Field
		}
		return nil, fmt.Errorf("has the wrong type of value in %s; %s", field, want)
	}
	if len(pod.Spec.Containers) == 0 {
		return nil, errors.New("has no spec.containers; is it indented as it was? " + want)
	}
	return &pod, nil
}

// maxNamed bounds what an error quotes of a kind.
const maxNamed = 80

// named writes a kind with its version, as manifests do.
func named(version, kind string) string {
	if kind == "" {
		return "none"
	}
	text := strings.TrimPrefix(version+"/"+kind, "/")
	return fmt.Sprintf("%q", text[:min(len(text), maxNamed)])
}

// documentEnd begins another document.
const documentEnd = "---"

// documents counts the documents that hold more than comments.
func documents(data []byte) int {
	n, has := 0, false
	for line := range strings.Lines(string(data)) {
		text := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, documentEnd):
			has = false
		case text != "" && text[0] != '#' && !has:
			has = true
			n++
		}
	}
	return n
}

// cpuLimits are the limits in cores, by container.
func (m *manifest) cpuLimits() map[string]float64 {
	limits := map[string]float64{}
	take := func(name string, r resources) {
		if r.Limits.CPU > 0 {
			limits[name] = float64(r.Limits.CPU)
		}
	}
	take("", m.Spec.Resources)
	for _, c := range m.Spec.Containers {
		take(c.Name, c.Resources)
	}
	for _, c := range m.Spec.InitContainers {
		// Sidecars are init containers that go on.
		if c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			take(c.Name, c.Resources)
		}
	}
	return limits
}

func (m *manifest) hasPreStop() bool {
	for _, c := range m.Spec.Containers {
		if c.Lifecycle.PreStop == nil {
			return false
		}
	}
	return true
}

// resolv is the resolv.conf that the kubelet makes of a pod's DNS policy and dnsConfig;
// see kubernetes.io/docs/concepts/services-networking/dns-pod-service.
func (m *manifest) resolv() (*trap.Resolv, error) {
	policy, config := m.Spec.DNSPolicy, m.Spec.DNSConfig
	cluster := policy == corev1.DNSClusterFirstWithHostNet ||
		(policy == corev1.DNSClusterFirst || policy == "") && !m.Spec.HostNetwork
	if !cluster && config == nil {
		return nil, nil
	}
	conf := &trap.Resolv{Ndots: 1}
	if cluster {
		namespace := m.Metadata.Namespace
		if namespace == "" {
			namespace = corev1.NamespaceDefault
		}
		service := "svc." + clusterDomain
		conf.Ndots, conf.Search = clusterNdots, []string{namespace + "." + service, service, clusterDomain}
	}
	if config == nil {
		return conf, nil
	}
	conf.Nameservers = config.Nameservers
	for _, domain := range config.Searches {
		conf.Search = append(conf.Search, strings.TrimSuffix(domain, "."))
	}
	for _, option := range config.Options {
		text := option.Name
		if option.Value != nil {
			text += ":" + *option.Value
		}
		if err := setOption(conf, text); err != nil {
			return nil, err
		}
	}
	return conf, nil
}
