package metadata

import (
	"net/netip"
	"strings"

	"taper.dev/taper/internal/capture"
)

// Request is what a call shows of itself.
type Request struct {
	Server netip.AddrPort
	// Host is the name it asked for, with or without a port.
	Host string
	// Method and Path are the request's, the path without query.
	Method, Path string
	// Token: it carried an AWS session token. Flavor: it said "Metadata-Flavor: Google".
	// Metadata: it said "Metadata: true", as Azure wants it.
	Token, Flavor, Metadata bool
}

// Addresses that only metadata services have.
var (
	instanceV4  = netip.AddrFrom4([4]byte{169, 254, 169, 254})
	instanceV6  = netip.MustParseAddr("fd00:ec2::254")
	containerV4 = netip.AddrFrom4([4]byte{169, 254, 170, 2})
	podAgentV4  = netip.AddrFrom4([4]byte{169, 254, 170, 23})
	podAgentV6  = netip.MustParseAddr("fd00:ec2::23")
)

// Recognise returns what a request asks of a metadata service; nil when it goes to none.
func Recognise(r Request) *capture.Metadata {
	provider, known := providerOf(&r)
	if !known {
		return nil
	}
	m := &capture.Metadata{Provider: provider, Token: r.Token}
	switch provider {
	case capture.AWSInstance:
		m.Kind = instanceKind(r.Method, r.Path)
	case capture.AWSContainer:
		m.Kind = credentialsIf(containerPath(r.Path))
	case capture.AWSPodAgent:
		m.Kind = credentialsIf(r.Path == podAgentPath)
	case capture.Google:
		m.Kind = credentialsIf(googleCredentials(r.Path))
	case capture.Azure:
		m.Kind = credentialsIf(r.Path == azureToken)
	}
	return m
}

// Paths that are a service's own.
const (
	awsAPIToken   = "/latest/api/token"
	awsData       = "/latest/meta-data"
	awsRoles      = "/meta-data/iam/security-credentials"
	awsIdentity   = "/meta-data/identity-credentials/ec2/security-credentials/"
	containerRoot = "/v2/credentials/"
	podAgentPath  = "/v1/credentials"
	googleRoot    = "/computeMetadata/"
	azureRoot     = "/metadata/"
	azureToken    = "/metadata/identity/oauth2/token"
)

func providerOf(r *Request) (capture.MetadataProvider, bool) {
	switch addr := r.Server.Addr(); addr {
	case containerV4:
		return capture.AWSContainer, true
	case podAgentV4, podAgentV6:
		return capture.AWSPodAgent, true
	case instanceV6:
		return capture.AWSInstance, true
	case instanceV4:
		// Three clouds share this address.
		switch {
		case strings.HasPrefix(r.Path, googleRoot) || isGoogle(r.Host):
			return capture.Google, true
		case strings.HasPrefix(r.Path, azureRoot):
			return capture.Azure, true
		}
		return capture.AWSInstance, true
	default:
		return providerElsewhere(r, addr)
	}
}

// providerElsewhere recognises services that do not have their usual address, by what
// nothing else asks for.
func providerElsewhere(r *Request, addr netip.Addr) (capture.MetadataProvider, bool) {
	if len(r.Path) < len(podAgentPath) {
		return "", false
	}
	switch r.Path[1] {
	case 'l':
		return capture.AWSInstance, r.Path == awsAPIToken && r.Method == "PUT" ||
			strings.HasPrefix(r.Path, awsData) && (len(r.Path) == len(awsData) || r.Path[len(awsData)] == '/')
	case 'c':
		return capture.Google, strings.HasPrefix(r.Path, googleRoot) && (r.Flavor || isGoogle(r.Host))
	case 'm':
		return capture.Azure, r.Path == azureToken && r.Metadata
	case 'v':
		// Other interfaces could have these two, so that only the machine's own count.
		if !addr.IsLoopback() && !addr.IsLinkLocalUnicast() {
			return "", false
		}
		if r.Path == podAgentPath {
			return capture.AWSPodAgent, true
		}
		return capture.AWSContainer, containerPath(r.Path)
	}
	return "", false
}

func isGoogle(host string) bool {
	name, _, _ := strings.Cut(host, ":")
	return strings.EqualFold(strings.TrimSuffix(name, "."), "metadata.google.internal")
}

func containerPath(path string) bool {
	return strings.HasPrefix(path, containerRoot) && len(path) > len(containerRoot)
}

func credentialsIf(is bool) capture.MetadataKind {
	if is {
		return capture.MetadataCredentials
	}
	return capture.MetadataOther
}

func instanceKind(method, path string) capture.MetadataKind {
	if path == awsAPIToken {
		return capture.MetadataSession
	}
	// Dates such as 2021-07-15 may stand in for latest.
	version := strings.IndexByte(strings.TrimPrefix(path, "/"), '/') + 1
	if version == 0 || method == "PUT" {
		return capture.MetadataOther
	}
	path = path[version:]
	if strings.HasPrefix(path, awsIdentity) {
		return capture.MetadataCredentials
	}
	switch role, found := strings.CutPrefix(path, awsRoles); {
	case !found:
		return capture.MetadataOther
	case role == "" || role == "/":
		return capture.MetadataRole
	default:
		return credentialsIf(role[0] == '/')
	}
}

// googleCredentials says whether a path ends in service-accounts/NAME/token or identity.
func googleCredentials(path string) bool {
	_, account, found := strings.Cut(path, "/service-accounts/")
	if !found {
		return false
	}
	_, what, _ := strings.Cut(account, "/")
	return what == "token" || what == "identity"
}
