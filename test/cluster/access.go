package cluster

import (
	"crypto/rand"
	"encoding/csv"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// User is somebody whom the API server knows. What a user may do is up to RBAC.
type User struct {
	Name   string
	Groups []string
}

// Two users that every cluster has.
const (
	// Admin may do everything.
	Admin = "admin"
	// Operator is the service account taper-operator in namespace taper-system.
	Operator = "system:serviceaccount:taper-system:taper-operator"
)

var builtinUsers = []User{
	{Name: Admin, Groups: []string{"system:masters"}},
	{Name: Operator, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:taper-system"}},
}

// access is who may talk to an API server, and how.
type access struct {
	url    string
	caFile string
	dir    string // for kubeconfigs
	tokens map[string]string
}

// grant gives each user a token, and writes them down for the API server.
func (a *access) grant(users []User, file string) error {
	var text strings.Builder
	rows := csv.NewWriter(&text)
	a.tokens = make(map[string]string, len(users))
	for _, u := range users {
		if u.Name == "" || a.tokens[u.Name] != "" {
			return fmt.Errorf("user %q: names must differ and not be empty", u.Name)
		}
		a.tokens[u.Name] = rand.Text()
		rows.Write([]string{a.tokens[u.Name], u.Name, u.Name, strings.Join(u.Groups, ",")}) // errors come from Flush
	}
	rows.Flush()
	if err := rows.Error(); err != nil {
		return fmt.Errorf("writing the users' tokens: %w", err)
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return fmt.Errorf("writing the users' tokens: %w", err)
	}
	return nil
}

// rest is how a user talks to the API server, without a limit on how often.
func (a *access) rest(user string) (*rest.Config, error) {
	token, ok := a.tokens[user]
	if !ok {
		return nil, fmt.Errorf("user %q is unknown: name it in Config.Users", user)
	}
	return &rest.Config{
		Host:            a.url,
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: a.caFile},
		QPS:             -1,
	}, nil
}

// kubeconfig writes a file for a user and returns its path.
func (a *access) kubeconfig(user string) (string, error) {
	token, ok := a.tokens[user]
	if !ok {
		return "", fmt.Errorf("user %q is unknown: name it in Config.Users", user)
	}
	const name = "cluster"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: a.url, CertificateAuthority: a.caFile}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	config.CurrentContext = name
	// In the variable KUBECONFIG a colon would part two paths.
	path := filepath.Join(a.dir, "kubeconfig-"+url.QueryEscape(user))
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("writing a kubeconfig for %s: %w", user, err)
	}
	return path, nil
}

func allUsers(more []User) []User { return slices.Concat(builtinUsers, more) }
