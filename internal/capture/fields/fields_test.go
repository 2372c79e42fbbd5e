package fields

import (
	"strings"
	"testing"
	"unicode/utf8"

	"taper.dev/taper/internal/capture"
)

func TestOf(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Name{
		"authorization": Authorization, "b3": B3, "x-b3-traceid": B3TraceID, "connection": Connection,
		"content-length": ContentLength, "content-type": ContentType, "expect": Expect, "grpc-status": GRPCStatus,
		"host": Host, "metadata": Metadata, "metadata-flavor": MetadataFlavor, "x-aws-ec2-metadata-token": MetadataToken,
		"x-request-id": RequestID, "traceparent": TraceParent, "transfer-encoding": TransferEncoding,
		"upgrade": Upgrade, "user-agent": UserAgent,
		"": Other, "cookie": Other, "x-request-ie": Other, "c0ntent-type": Other, "keep-alive": Other, "host ": Other, "hos\xf4": Other,
	} {
		for _, written := range []string{name, strings.ToUpper(name), strings.ToTitle(name[:min(1, len(name))]) + name[min(1, len(name)):]} {
			if got := Of([]byte(written)); got != want {
				t.Errorf("%q is %d; want %d", written, got, want)
			}
		}
	}
}

func TestHas(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]bool{
		"close": true, "Close": true, "keep-alive, close": true, "keep-alive,\tCLOSE ,x": true,
		"": false, ",": false, "closed": false, "keep-alive": false, "clos, e": false,
	} {
		if got := Has([]byte(list), "close"); got != want {
			t.Errorf("%q: %v", list, got)
		}
	}
}

func TestTarget(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("/abcdefg", 64)
	for target, want := range map[string][2]string{
		"/a/b":                               {"/a/b", ""},
		"/a?q=1&r=2":                         {"/a", "q=1&r=2"},
		"/a?q#f":                             {"/a", "q"},
		"/a#f?q":                             {"/a", ""},
		"*":                                  {"*", ""},
		"host:443":                           {"host:443", ""},
		"user:pw@host:443":                   {"host:443", ""},
		"http://u:p@h:80/x?y":                {"/x", "y"},
		"HTTPS://h":                          {"/", ""},
		"/redirect/http://u:p@h/x":           {"/redirect/http://u:p@h/x", ""},
		"/a;jsessionid=0123/b;x":             {"/a/b", ""},
		"/v2/credentials/short":              {"/v2/credentials/{token}", ""},
		"/v2/credentials/":                   {"/v2/credentials/", ""},
		"/reset/" + jwt + "/now":             {"/reset/{token}/now", ""},
		"/sha/" + hex64:                      {"/sha/{token}", ""},
		"/x/" + uuid + "/y":                  {"/x/" + uuid + "/y", ""},
		long:                                 {long[:capture.MaxText], ""},
		long[:250] + "/" + hex64:             {(long[:250] + "/{token}")[:capture.MaxText], ""},
		"/" + strings.Repeat("-", 40) + "/a": {"/" + strings.Repeat("-", 40) + "/a", ""},
		"/latest/meta-data/iam/security-credentials/my-long-role-name-for-the-web-shop-frontend": {"/latest/meta-data/iam/security-credentials/my-long-role-name-for-the-web-shop-frontend", ""},
		"": {"", ""},
	} {
		path, query := new(Cache).Target([]byte(target))
		if path != want[0] || string(query) != want[1] {
			t.Errorf("%q: %q, %q; want %q", target, path, query, want)
		}
	}
}

const (
	jwt         = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
	hex64       = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	requestHash = 0xffe49a157e4dfdd3
	uuid        = "123e4567-e89b-12d3-a456-426614174000"
)

func TestLooksSecret(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		jwt:                   true,
		hex64:                 true,
		"sha256:" + hex64:     true,
		"token=" + hex64[:40]: true,
		"ya29.a0AfH6SMBx3kq8Zt1Vn5LwPdR7yGcQe2UiJoT4s": true,
		"IQoJb3JpZ2luX2VjEJr%2F%2F%2F%2F%2F%2F%2F%2F":  true,
		"ghp_16C7e42F292c6912E7710c838347Ae178B4axyzw": true,
		uuid:                        false,
		"":                          false,
		"4711":                      false,
		"checkout-7d9f8b6c5d-abcde": false,
		"team-payments-checkout-service-7d9f8b6c5d-x2x4z":   false,
		"this-is-a-long-title-of-an-article-about-latency":  false,
		"getAllCustomersByNameAndAddressAndCountry":         false,
		"2026-11-21T12:15:00Z_2026-11-21T12:30:00Z":         false,
		"com.example.shop.checkout.CheckoutService.Version": false,
	} {
		if got := LooksSecret([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestTrace(t *testing.T) {
	t.Parallel()
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	same := Trace(TraceParent, []byte("00-"+id+"-00f067aa0ba902b7-01"))
	if same == 0 {
		t.Fatal("a traceparent has no trace")
	}
	for value, name := range map[string]Name{id + "-00f067aa0ba902b7-1": B3, strings.ToUpper(id): B3TraceID} {
		if got := Trace(name, []byte(value)); got != same {
			t.Errorf("%q is another trace than its traceparent", value)
		}
	}
	if Trace(B3TraceID, []byte("a3ce929d0e0e4736")) != Trace(B3TraceID, []byte("0000000000000000a3ce929d0e0e4736")) {
		t.Error("an id of 64 bits is another than with zeros before it")
	}
	for value, name := range map[string]Name{
		"": TraceParent, "00-" + id: TraceParent, "00-zzf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01": TraceParent,
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": TraceParent,
		"0": B3, "1": B3, "-": B3, "abc-def": B3, "zz": B3TraceID, id + " ": Host,
	} {
		if got := Trace(name, []byte(value)); got != 0 {
			t.Errorf("%q is trace %x", value, got)
		}
	}
	if other := Trace(B3TraceID, []byte("4bf92f3577b34da6a3ce929d0e0e4737")); other == same || other == 0 {
		t.Error("another id is the same trace")
	}
	// Hashes are the same in every run, since captures are compared.
	if got := Request([]byte("4f1c2b7e-9a55-4e0c-8d1a-6f0b7f2c9d11")); got != requestHash || Request(nil) != 0 {
		t.Errorf("hash of a request id is %#x; want %#x", got, uint64(requestHash))
	}
}

func TestSigned(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{
		"AWS4-HMAC-SHA256 Credential=x": true, "AWS4-ECDSA-P256-SHA256 x": true, "AWS AKIA:sig": true,
		"Bearer AWS4-": false, "Basic x": false, "AWSX y": false, "": false,
	} {
		if got := Signed([]byte(value)); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
}

func TestAction(t *testing.T) {
	t.Parallel()
	for form, want := range map[string][2]string{ // not certain, certain
		"Action=AssumeRole&Version=2011-06-15&RoleArn=x": {"AssumeRole", "AssumeRole"},
		"Version=2011-06-15&Action=GetCallerIdentity":    {"GetCallerIdentity", "GetCallerIdentity"},
		"Action=ListQueues&Version=2012-11-05":           {"", "ListQueues"},
		"Action=p4ssw0rd&Version=2011-06-15":             {"", ""},
		"XAction=Delete&Version=2011-06-15":              {"", ""},
		"Action=&Version=2011-06-15":                     {"", ""},
		"":                                               {"", ""},
	} {
		for i, certain := range []bool{false, true} {
			if got := Action([]byte(form), certain); string(got) != want[i] {
				t.Errorf("%q, certain %v: %q; want %q", form, certain, got, want[i])
			}
		}
	}
}

func TestCache(t *testing.T) {
	c := new(Cache)
	long := []byte(strings.Repeat("x", 2*capture.MaxText))
	if c.Text(nil) != "" || c.Text([]byte("a")) != "a" || len(c.Text(long)) != capture.MaxText {
		t.Error("texts are not as they were given")
	}
	for text, want := range map[string]string{
		"/\x1b[31m": "/.[31m", "/\xff\xc3": "/..", "/ä\u0085": "/ä.", "/日本": "/日本", "/\ufffd": "/\ufffd",
	} {
		for range 2 {
			if got := c.Text([]byte(text)); got != want {
				t.Errorf("%q: %q; want %q", text, got, want)
			}
		}
	}
	text := []byte("/api/v1/items")
	c.Text(text)
	if n := testing.AllocsPerRun(100, func() { c.Text(text) }); n != 0 {
		t.Errorf("%v allocations for a text that is known", n)
	}
}

// FuzzTarget sees that what is kept of any target has no query, no long text, and is the
// same again.
func FuzzTarget(f *testing.F) {
	for _, target := range []string{"/a?b", "http://u:p@h/x;y?z", "/v2/credentials/" + uuid, "/" + jwt, "/" + hex64 + "/" + hex64, "*", "h:443"} {
		f.Add([]byte(target))
	}
	c := new(Cache)
	f.Fuzz(func(t *testing.T, target []byte) {
		path, _ := c.Target(target)
		if len(path) > capture.MaxText || strings.ContainsAny(path, "?#\x1b\n\x00") || !utf8.ValidString(path) {
			t.Errorf("%q: %q", target, path)
		}
		if again, _ := c.Target([]byte(path)); strings.HasPrefix(path, "/") && !strings.Contains(path, token) && len(path) < capture.MaxText && again != path {
			t.Errorf("%q: %q, then %q", target, path, again)
		}
		for _, segment := range strings.Split(path, "/") {
			if len(path) < capture.MaxText && LooksSecret([]byte(segment)) {
				t.Errorf("%q: %q keeps %q", target, path, segment)
			}
		}
	})
}

func BenchmarkTarget(b *testing.B) {
	c, target := new(Cache), []byte("/api/v1/items/4711?page=2&sort=name")
	b.ReportAllocs()
	for b.Loop() {
		c.Target(target)
	}
}

// A line has the name that it would have by itself, and what follows the colon.
func TestLine(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]struct {
		name  Name
		value string
	}{
		"Host: shop.example":         {Host, "shop.example"},
		"HOST:shop.example \t":       {Host, "shop.example"},
		"uSER-aGENT: curl/8":         {UserAgent, "curl/8"},
		"x-request-id:\t7":           {RequestID, "7"},
		"content-length:":            {ContentLength, ""},
		"transfer-encoding: a: b":    {TransferEncoding, "a: b"},
		"Host : shop.example":        {Other, ""},
		"Hostname: shop.example":     {Other, ""},
		"Hos: t":                     {Other, ""},
		"Host":                       {Other, ""},
		"Cookie: host: x":            {Other, ""},
		"content\rlength: 5":         {Other, ""},
		": x":                        {Other, ""},
		"":                           {Other, ""},
		"[ost: x":                    {Other, ""},
		"x-aws-ec2-metadata-token:T": {MetadataToken, "T"},
	} {
		name, value := Line([]byte(line))
		if name != want.name || string(value) != want.value {
			t.Errorf("%q: %d, %q; want %d, %q", line, name, value, want.name, want.value)
		}
	}
}
