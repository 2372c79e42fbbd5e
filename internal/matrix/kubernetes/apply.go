package kubernetes

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	clientset "k8s.io/client-go/kubernetes"

	"taper.dev/taper/internal/matrix"
	"taper.dev/taper/internal/probe"
	"taper.dev/taper/internal/probe/agent"
)

// Options say what is put into the cluster.
type Options struct {
	// Image has taper, as /taper.
	Image string
	// HostPort is the agents' on the nodes' own addresses, PodPort on pods and, with the
	// next three, on the Service.
	HostPort, PodPort int32
	// NodeSelector are labels that nodes must have; empty is all that run Linux.
	NodeSelector map[string]string
	// BlockLabel is the node label that makes blocks.
	BlockLabel string
	// Ready is how long agents may take until they are ready.
	Ready time.Duration
	// Progress is told what is going on; nil tells nobody.
	Progress func(string)
}

// Defaults.
const (
	DefaultHostPort = 4010
	DefaultPodPort  = 4000
	DefaultReady    = 2 * time.Minute
	// removal is how long it may take to remove everything.
	removal = time.Minute
)

// poll is how often the cluster is asked how far it is.
const poll = time.Second

// Validate says what is wrong, all at once.
func (o Options) Validate() error {
	var errs []error
	if strings.TrimSpace(o.Image) == "" || strings.ContainsAny(o.Image, " \t\n") {
		errs = append(errs, fmt.Errorf("%q is no image: give one that has taper, as REPOSITORY:TAG", o.Image))
	}
	for _, p := range []struct {
		what string
		port int32
	}{{"host", o.HostPort}, {"pod", o.PodPort}} {
		if p.port < 1 || p.port > 65535-doors+1 {
			errs = append(errs, fmt.Errorf("%s port %d is not possible: it must be 1 to %d", p.what, p.port, 65535-doors+1))
		}
	}
	if o.Ready <= 0 {
		errs = append(errs, fmt.Errorf("agents cannot be ready in %v: it must be more than 0", o.Ready))
	}
	for key, value := range o.NodeSelector {
		for _, wrong := range append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...) {
			errs = append(errs, fmt.Errorf("%s=%s is no node label: %s", key, value, wrong))
		}
	}
	return errors.Join(errs...)
}

// Deployment is what was put into a cluster.
type Deployment struct {
	// Namespace has all of it.
	Namespace string
	// Token is the agents'.
	Token agent.Token
	// Agents are by node; Services are addresses behind which any of them may be.
	Agents   []matrix.Agent
	Services []string
	// Notes are what a reader must know of the agents, each a sentence.
	Notes []string

	client clientset.Interface
	uid    *metav1.Preconditions
	o      Options
}

// Apply puts agents on all nodes and waits until they are ready. Where some do not get
// ready in time, their agents have a Problem; fewer than two is an error. After an error, or
// if ctx ends, nothing is left, or the error says how to remove it by hand.
func Apply(ctx context.Context, client clientset.Interface, o Options) (*Deployment, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	d := &Deployment{client: client, o: o, Namespace: "taper-net-" + random(4), Token: agent.Token(random(16))}
	err := d.create(ctx)
	if err == nil {
		err = d.await(ctx)
	}
	if err == nil {
		return d, nil
	}
	if d.uid == nil {
		return nil, err // not even the namespace
	}
	if removal := d.Remove(context.WithoutCancel(ctx)); removal != nil {
		// Whoever takes an interruption for a reason to say no more must not, here.
		return nil, fmt.Errorf("%v; %w", err, removal)
	}
	return nil, err
}

// random is so many bytes in hexadecimal.
func random(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// create makes all objects. Those in the namespace go with it.
func (d *Deployment) create(ctx context.Context) error {
	d.o.Progress("making namespace " + d.Namespace)
	made, err := d.client.CoreV1().Namespaces().Create(ctx, namespaceFor(d.Namespace), metav1.CreateOptions{})
	if err != nil {
		if ctx.Err() != nil { // it may have been made all the same
			d.uid = &metav1.Preconditions{}
		}
		return explain("making namespace "+d.Namespace, err)
	}
	d.uid = metav1.NewUIDPreconditions(string(made.UID))
	if _, err := d.client.CoreV1().Secrets(d.Namespace).Create(ctx, secretFor(d.Token), metav1.CreateOptions{}); err != nil {
		return explain("making the secret of the agents", err)
	}
	for _, path := range []probe.Path{probe.HostPath, probe.PodPath} {
		if _, err := d.client.AppsV1().DaemonSets(d.Namespace).Create(ctx, daemonSetFor(path, d.o), metav1.CreateOptions{}); err != nil {
			return explain(fmt.Sprintf("putting agents on the %s network", path), err)
		}
	}
	service, err := d.client.CoreV1().Services(d.Namespace).Create(ctx, serviceFor(d.o), metav1.CreateOptions{})
	if err != nil {
		return explain("making a service for the agents", err)
	}
	if ip := service.Spec.ClusterIP; ip != "" && ip != corev1.ClusterIPNone {
		for _, p := range service.Spec.Ports {
			d.Services = append(d.Services, net.JoinHostPort(ip, strconv.Itoa(int(p.Port))))
		}
	}
	return nil
}
