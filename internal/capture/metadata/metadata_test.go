package metadata

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"taper.dev/taper/internal/capture"
)

func TestRecognise(t *testing.T) {
	t.Parallel()
	const (
		other       = capture.MetadataOther
		session     = capture.MetadataSession
		role        = capture.MetadataRole
		credentials = capture.MetadataCredentials
	)
	for name, test := range map[string]struct {
		server, host, method, path string
		token, flavor, metadata    bool
		provider                   capture.MetadataProvider
		kind                       capture.MetadataKind
	}{
		"session":                   {"169.254.169.254:80", "", "PUT", "/latest/api/token", false, false, false, capture.AWSInstance, session},
		"role":                      {"169.254.169.254:80", "", "GET", "/latest/meta-data/iam/security-credentials/", true, false, false, capture.AWSInstance, role},
		"role without slash":        {"169.254.169.254:80", "", "GET", "/latest/meta-data/iam/security-credentials", true, false, false, capture.AWSInstance, role},
		"credentials":               {"169.254.169.254:80", "", "GET", "/latest/meta-data/iam/security-credentials/web", true, false, false, capture.AWSInstance, credentials},
		"by date":                   {"169.254.169.254:80", "", "GET", "/2021-07-15/meta-data/iam/security-credentials/web", false, false, false, capture.AWSInstance, credentials},
		"identity":                  {"169.254.169.254:80", "", "GET", "/latest/meta-data/identity-credentials/ec2/security-credentials/ec2-instance", false, false, false, capture.AWSInstance, credentials},
		"IPv6":                      {"[fd00:ec2::254]:80", "", "GET", "/latest/meta-data/placement/region", false, false, false, capture.AWSInstance, other},
		"no path":                   {"169.254.169.254:80", "", "GET", "/", false, false, false, capture.AWSInstance, other},
		"a path that is not known":  {"169.254.169.254:80", "", "GET", "", false, false, false, capture.AWSInstance, other},
		"proxy":                     {"10.0.0.7:8181", "kiam", "GET", "/latest/meta-data/iam/security-credentials/web", false, false, false, capture.AWSInstance, credentials},
		"proxy, session":            {"127.0.0.1:1338", "", "PUT", "/latest/api/token", false, false, false, capture.AWSInstance, session},
		"GET of a session":          {"127.0.0.1:1338", "", "GET", "/latest/api/token", false, false, false, "", 0},
		"a path like it":            {"10.0.0.7:80", "", "GET", "/latest/meta-database", false, false, false, "", 0},
		"ECS":                       {"169.254.170.2:80", "", "GET", "/v2/credentials/{token}", false, false, false, capture.AWSContainer, credentials},
		"ECS, other":                {"169.254.170.2:80", "", "GET", "/v4/x/task", false, false, false, capture.AWSContainer, other},
		"ECS on the loopback":       {"127.0.0.1:51679", "", "GET", "/v2/credentials/{token}", false, false, false, capture.AWSContainer, credentials},
		"somebody's credentials":    {"10.1.2.3:80", "", "GET", "/v2/credentials/{token}", false, false, false, "", 0},
		"EKS":                       {"169.254.170.23:80", "", "GET", "/v1/credentials", false, false, false, capture.AWSPodAgent, credentials},
		"EKS, IPv6":                 {"[fd00:ec2::23]:80", "", "GET", "/v1/credentials", false, false, false, capture.AWSPodAgent, credentials},
		"Google":                    {"169.254.169.254:80", "metadata.google.internal", "GET", "/computeMetadata/v1/instance/service-accounts/default/token", false, true, false, capture.Google, credentials},
		"Google by path":            {"169.254.169.254:80", "169.254.169.254", "GET", "/computeMetadata/v1/instance/service-accounts/default/identity", false, true, false, capture.Google, credentials},
		"Google elsewhere":          {"10.0.0.9:988", "metadata.google.internal:988", "GET", "/computeMetadata/v1/project/project-id", false, false, false, capture.Google, other},
		"Google elsewhere by field": {"10.0.0.9:988", "x", "GET", "/computeMetadata/v1/instance/service-accounts/a@b/token", false, true, false, capture.Google, credentials},
		"a path like Google's":      {"10.0.0.9:80", "x", "GET", "/computeMetadata/v1/instance/service-accounts/a@b/token", false, false, false, "", 0},
		"Google, detection":         {"169.254.169.254:80", "metadata.google.internal.", "GET", "/", false, true, false, capture.Google, other},
		"Azure":                     {"169.254.169.254:80", "", "GET", "/metadata/identity/oauth2/token", false, false, true, capture.Azure, credentials},
		"Azure, instance":           {"169.254.169.254:80", "", "GET", "/metadata/instance", false, false, true, capture.Azure, other},
		"Azure elsewhere":           {"127.0.0.1:2579", "", "GET", "/metadata/identity/oauth2/token", false, false, true, capture.Azure, credentials},
		"a path like Azure's":       {"127.0.0.1:2579", "", "GET", "/metadata/identity/oauth2/token", false, false, false, "", 0},
		"anything else":             {"10.0.0.1:80", "shop", "GET", "/api/v1/items", false, false, false, "", 0},
	} {
		got := Recognise(Request{
			Server: netip.MustParseAddrPort(test.server), Host: test.host, Method: test.method, Path: test.path,
			Token: test.token, Flavor: test.flavor, Metadata: test.metadata,
		})
		switch {
		case test.provider == "":
			if got != nil {
				t.Errorf("%s: %+v; want none", name, got)
			}
		case got == nil || *got != capture.Metadata{Provider: test.provider, Kind: test.kind, Token: test.token}:
			t.Errorf("%s: %+v; want %s, kind %d", name, got, test.provider, test.kind)
		}
	}
}

var (
	aws    = &capture.Metadata{Provider: capture.AWSInstance, Kind: capture.MetadataCredentials}
	google = &capture.Metadata{Provider: capture.Google, Kind: capture.MetadataCredentials}
	azure  = &capture.Metadata{Provider: capture.Azure, Kind: capture.MetadataCredentials}
)

func TestExpires(t *testing.T) {
	t.Parallel()
	now := capture.At(time.Date(2026, 11, 21, 12, 0, 0, 500, time.UTC))
	at := func(text string) capture.Time {
		t.Helper()
		m, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		return capture.At(m)
	}
	for name, test := range map[string]struct {
		from *capture.Metadata
		body string
		want capture.Time
	}{
		"AWS": {aws, "{\n  \"Code\" : \"Success\",\n  \"Type\" : \"AWS-HMAC\",\n  \"AccessKeyId\" : \"AKIA\",\n  \"SecretAccessKey\" : \"a\\\"b{\",\n  \"Expiration\" : \"2026-11-21T12:15:00Z\"\n}",
			at("2026-11-21T12:15:00Z")},
		"AWS, with a zone":        {aws, `{"Expiration":"2026-11-21T12:15:00+02:00"}`, at("2026-11-21T10:15:00Z")},
		"AWS, cut after":          {aws, `{"Expiration":"2026-11-21T12:15:00Z","Token":"IQoJ`, at("2026-11-21T12:15:00Z")},
		"AWS, cut in it":          {aws, `{"Token":"x","Expiration":"2026-11-21T12:`, 0},
		"AWS, cut before":         {aws, `{"Token":"x","Expir`, 0},
		"deeper":                  {aws, `{"Credentials":{"Expiration":"2026-11-21T12:15:00Z"},"a":["Expiration","2026-11-21T12:15:00Z"]}`, 0},
		"a value of that name":    {aws, `{"a":"Expiration","b":"2026-11-21T12:15:00Z"}`, 0},
		"no time":                 {aws, `{"Expiration":"soon"}`, 0},
		"null":                    {aws, `{"Expiration":null}`, 0},
		"before 1970":             {aws, `{"Expiration":"0001-01-01T00:00:00Z"}`, 0},
		"AWS does not count down": {aws, `{"expires_in":300}`, 0},
		"Google":                  {google, `{"access_token":"ya29.x","expires_in":3599,"token_type":"Bearer"}`, now.Add(3599 * time.Second)},
		"Google, negative":        {google, `{"expires_in":-5}`, 0},
		"Google, too long":        {google, `{"expires_in":1e30}`, 0},
		"Google, identity token":  {google, `eyJhbGciOiJSUzI1NiJ9.eyJleHAiOjE3MDAwMDAwMDB9.x`, 0},
		"Azure":                   {azure, `{"access_token":"x","expires_in":"86399","expires_on":"1795270000","resource":"r"}`, 1795270000e9},
		"Azure, other order":      {azure, `{"expires_on":"1795270000","expires_in":"86399"}`, 1795270000e9},
		"Azure, number":           {azure, `{"expires_on":1795270000}`, 1795270000e9},
		"Azure, relative only":    {azure, `{"expires_in":"86399"}`, now.Add(86399 * time.Second)},
		"Azure, unreadable":       {azure, `{"expires_on":"12/01/2026 00:00:00 +00:00","expires_in":"60"}`, now.Add(60 * time.Second)},
		"Azure, unreadable last":  {azure, `{"expires_in":"60","expires_on":"12/01/2026 00:00:00 +00:00"}`, now.Add(60 * time.Second)},
		"not JSON":                {aws, "<html>", 0},
		"empty":                   {aws, "", 0},
		"not of credentials":      {&capture.Metadata{Provider: capture.AWSInstance, Kind: capture.MetadataRole}, `{"Expiration":"2026-11-21T12:15:00Z"}`, 0},
		"no metadata":             {nil, `{"Expiration":"2026-11-21T12:15:00Z"}`, 0},
	} {
		if got := Expires(test.from, []byte(test.body), now); got != test.want {
			t.Errorf("%s: %v; want %v", name, got.Time(), test.want.Time())
		}
	}
}

// FuzzExpires sees that no body makes it panic, or say a time that no credentials have,
// and that bytes after what was read change nothing.
func FuzzExpires(f *testing.F) {
	f.Add(`{"Code":"Success","Expiration":"2026-11-21T12:15:00Z"}`, int64(0))
	f.Add(`{"expires_in":3599}`, int64(1_700_000_000_000_000_000))
	f.Add(`{"expires_on":"1795270000","expires_in":"1"}`, int64(1_700_000_000_000_000_000))
	f.Add(`[{"a\"":[1,"x",{}]`, int64(1))
	f.Fuzz(func(t *testing.T, body string, now int64) {
		if now < 0 || now > 1<<62 {
			return
		}
		for _, m := range []*capture.Metadata{aws, google, azure} {
			got := Expires(m, []byte(body), capture.Time(now))
			if got < 0 {
				t.Errorf("%s: %v", m.Provider, got.Time())
			}
			if got > 0 && m.Provider != capture.Azure && Expires(m, []byte(body+`,"x`), capture.Time(now)) != got {
				t.Errorf("%s: %q changes with what comes after", m.Provider, body)
			}
		}
	})
}

func BenchmarkRecognise(b *testing.B) {
	r := Request{Server: netip.MustParseAddrPort("10.0.0.1:80"), Host: "shop.example.com", Method: "GET", Path: "/api/v1/items/4711"}
	b.ReportAllocs()
	for b.Loop() {
		if Recognise(r) != nil {
			b.Fatal("recognised")
		}
	}
}

func BenchmarkExpires(b *testing.B) {
	body := []byte(`{"Code":"Success","LastUpdated":"2026-11-21T12:00:00Z","Token":"` + strings.Repeat("x", 1200) + `","Expiration":"2026-11-21T12:15:00Z"}`)
	b.ReportAllocs()
	for b.Loop() {
		if Expires(aws, body, 0) == 0 {
			b.Fatal("not found")
		}
	}
}
