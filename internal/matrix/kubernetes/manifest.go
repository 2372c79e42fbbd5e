package kubernetes

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/agent"
)

// What is applied, by name.
const (
	secretName  = "token"
	serviceName = "agents"
	tokenKey    = "token"
	tokenDir    = "/etc/taper-net"
	// nonRoot is the user that the image has, too.
	nonRoot = 65532
)

// Labels by which what was applied is known, also when a killed run left it.
const (
	nameLabel      = "app.kubernetes.io/name"
	managedByLabel = "app.kubernetes.io/managed-by"
	componentLabel = "app.kubernetes.io/component"
	name           = "taper-net"
	managedBy      = "taper"
	ofTaper        = nameLabel + "=" + name + "," + managedByLabel + "=" + managedBy
)

// doors is how many ports the Service has. Session affinity is of a port: from each agent,
// each port leads to one agent by chance, for N of them to itself once in N; of several
// ports one leads elsewhere nearly always.
const doors = 4

func labelsOf(component probe.Path) map[string]string {
	l := map[string]string{nameLabel: name, managedByLabel: managedBy}
	if component != "" {
		l[componentLabel] = string(component)
	}
	return l
}

// namespaceFor is where all of it goes, so that one deletion takes all of it away.
func namespaceFor(called string) *corev1.Namespace {
	l := labelsOf("")
	// Agents on the host network are not allowed by any stricter profile. What they may do
	// otherwise is restricted: see securityOf.
	for _, mode := range []string{"enforce", "audit", "warn"} {
		l["pod-security.kubernetes.io/"+mode] = "privileged"
	}
	l["istio-injection"] = "disabled" // a proxy before the agents is not what is measured
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: called, Labels: l}}
}

func secretFor(token agent.Token) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secretName, Labels: labelsOf("")},
		Data:       map[string][]byte{tokenKey: []byte(token)},
	}
}

// serviceFor is before the agents on the pod network.
func serviceFor(o Options) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: serviceName, Labels: labelsOf("")},
		Spec: corev1.ServiceSpec{
			Selector: labelsOf(probe.PodPath),
			// Control and data must come to the same agent.
			SessionAffinity: corev1.ServiceAffinityClientIP,
		},
	}
	for i := range int32(doors) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{
			Name: fmt.Sprintf("%s-%d", portName, i), Port: o.PodPort + i, TargetPort: intstr.FromString(portName),
		})
	}
	return s
}

// daemonSetFor has agents on one of the networks of all nodes.
func daemonSetFor(path probe.Path, o Options) *appsv1.DaemonSet {
	onHost := path == probe.HostPath
	pod := corev1.PodSpec{
		HostNetwork:                   onHost,
		Containers:                    []corev1.Container{containerFor(path, o)},
		NodeSelector:                  map[string]string{corev1.LabelOSStable: "linux"},
		Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		AutomountServiceAccountToken:  ptr.To(false),
		EnableServiceLinks:            ptr.To(false),
		TerminationGracePeriodSeconds: ptr.To[int64](1),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](nonRoot), RunAsGroup: ptr.To[int64](nonRoot), FSGroup: ptr.To[int64](nonRoot),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Volumes: []corev1.Volume{{
			Name:         secretName,
			VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secretName, DefaultMode: ptr.To[int32](0o440)}},
		}},
	}
	for key, value := range o.NodeSelector {
		pod.NodeSelector[key] = value
	}
	if onHost {
		pod.DNSPolicy = corev1.DNSClusterFirstWithHostNet
	}
	podLabels := labelsOf(path)
	podLabels["sidecar.istio.io/inject"] = "false"
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: string(path), Labels: labelsOf(path)},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labelsOf(path)},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: podLabels}, Spec: pod},
		},
	}
}

func containerFor(path probe.Path, o Options) corev1.Container {
	port := o.PodPort
	if path == probe.HostPath {
		port = o.HostPort
	}
	return corev1.Container{
		Name:            "agent",
		Image:           o.Image,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         []string{"/taper"},
		Args: []string{
			"net", "serve", "--listen", ":" + strconv.Itoa(int(port)), "--path", string(path),
			"--node", "$(NODE_NAME)", "--token-file", tokenDir + "/" + tokenKey,
		},
		Env: []corev1.EnvVar{{
			Name:      "NODE_NAME",
			ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "spec.nodeName"}},
		}},
		Ports: []corev1.ContainerPort{{Name: portName, ContainerPort: port, Protocol: corev1.ProtocolTCP}},
		// Only until it listens: a readiness probe would go on while there is measuring.
		StartupProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString(portName)}},
			PeriodSeconds: 1, FailureThreshold: 60,
		},
		// There is no limit on CPU: the kernel would stop the agent in the middle of what it
		// measures, and its figure would be that limit's.
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
		},
		SecurityContext: securityOf(),
		VolumeMounts:    []corev1.VolumeMount{{Name: secretName, MountPath: tokenDir, ReadOnly: true}},
	}
}

// securityOf is what the profile "restricted" asks of a container, and a root file system
// that cannot be written to.
func securityOf() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false),
		ReadOnlyRootFilesystem:   ptr.To(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}
