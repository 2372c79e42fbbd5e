package trap

import (
	"slices"
	"strings"
	"time"

	"taper.dev/taper/internal/capture"
)

// sdk is how a library renews credentials.
type sdk struct {
	// agent is what its word in User-Agent begins with; the version follows.
	agent string
	// providers are those that it treats so; nil means all.
	providers []capture.MetadataProvider
	// window is how much life left makes it fetch again.
	window time.Duration
	// fix says how to get out of its rule; "" when there is no better version.
	fix string
	// source says where the window is written down.
	source string
}

// sdks lists the rules of SDKs, the more particular ones first.
var sdks = []sdk{
	{
		agent: "aws-sdk-java/1.", window: 15 * time.Minute,
		fix:    "move to the AWS SDK for Java 2",
		source: "aws-sdk-java BaseCredentialsFetcher",
	},
	{
		// Half of the life but at least 5 minutes: 5 minutes are the worst case, of
		// credentials that live for 10 and less.
		agent: "aws-sdk-java/2.", providers: []capture.MetadataProvider{capture.AWSInstance}, window: 5 * time.Minute,
		source: "github.com/aws/aws-sdk-java-v2/pull/5758",
	},
	{
		agent: "aws-sdk-java/2.", window: 15 * time.Minute,
		fix:    "update the AWS SDK for Java (versions of 2026 refresh credentials of 20 minutes at 5)",
		source: "github.com/aws/aws-sdk-java-v2/issues/5247",
	},
	{
		agent: "botocore/", window: 15 * time.Minute,
		fix:    "update botocore",
		source: "botocore credentials.py, and github.com/boto/botocore/issues/2189",
	},
	{agent: "aws-cli/", window: 15 * time.Minute, fix: "update the AWS CLI", source: "botocore credentials.py"},
	{agent: "boto3/", window: 15 * time.Minute, fix: "update boto3", source: "botocore credentials.py"},
	{agent: "aws-sdk-go-v2/", window: 5 * time.Minute, source: "aws-sdk-go-v2 ec2rolecreds"},
	{agent: "aws-sdk-go/", window: 5 * time.Minute, source: "aws-sdk-go ec2rolecreds"},
	{agent: "aws-sdk-nodejs/", window: 15 * time.Second, source: "aws-sdk-js Credentials.expiryWindow"},
	{agent: "aws-sdk-js/", window: 5 * time.Minute, source: "aws-sdk-js-v3 property-provider"},
	{agent: "aws-sdk-ruby", window: 10 * time.Minute, source: "aws-sdk-ruby RefreshingCredentials (5 min blocking, 10 min in the background)"},
	{agent: "aws-sdk-rust/", window: 10 * time.Second, source: "aws-smithy-runtime identity cache"},
	{agent: "azsdk-go-", window: 5 * time.Minute, source: "azcore BearerTokenPolicy"},
	{agent: "gcloud-golang/", window: 225 * time.Second, source: "cloud.google.com/go/auth"},
}

// unknownWindow is the widest window of the SDKs above: what was fetched with more life
// left was not fetched to renew it, whoever asked.
const unknownWindow = 15 * time.Minute

// recogniseSDK finds the SDK in a User-Agent. Its name is as the agent says it with the
// version cut to two numbers: aws-sdk-java/1.11. It is the first word of an agent that
// is not known, with a nil rule; "" when there is none.
func recogniseSDK(agent string, provider capture.MetadataProvider) (*sdk, string) {
	for word := range strings.FieldsSeq(agent) {
		word = strings.TrimPrefix(word, "md/")
		word = strings.Replace(word, "#", "/", 1) // md/Botocore#1.34.1
		for i := range sdks {
			s := &sdks[i]
			if len(word) < len(s.agent) || !strings.EqualFold(word[:len(s.agent)], s.agent) {
				continue
			}
			if s.providers == nil || slices.Contains(s.providers, provider) {
				return s, twoNumbers(word)
			}
		}
	}
	first, _, _ := strings.Cut(strings.TrimSpace(agent), " ")
	return nil, twoNumbers(first)
}

// twoNumbers cuts name/1.11.414 to name/1.11.
func twoNumbers(word string) string {
	slash := strings.IndexByte(word, '/')
	if slash < 0 {
		return word
	}
	dots := 0
	for i := slash; i < len(word); i++ {
		if word[i] == '.' {
			if dots++; dots == 2 {
				return word[:i]
			}
		}
	}
	return word
}

// issuer is who serves credentials, by the life that they have left when served.
type issuer struct {
	name     string
	provider capture.MetadataProvider
	// least and most are the life left that it serves.
	least, most time.Duration
	// fix is what to do so that they live longer.
	fix    string
	source string
}

// issuers are told apart by the most life left that was seen: sessions of 15 min that
// KIAM renews at 5, of 30 min that kube2iam keeps for half of it, of 1 h that metadataproxy
// renews at 5 min, of 6 h that EC2 renews each hour. Where several serve as
// much, the first one is named and the fix says which ones it holds for.
var issuers = []issuer{
	{
		name: "KIAM", provider: capture.AWSInstance, least: 5 * time.Minute, most: 15 * time.Minute,
		fix:    "Let the issuer give longer sessions (KIAM: --session-duration=60m, at least 30m; metadataproxy: refresh 15 minutes before the end)",
		source: "github.com/uswitch/kiam cmd/kiam/server.go",
	},
	{
		name: "kube2iam", provider: capture.AWSInstance, least: 15 * time.Minute, most: 30 * time.Minute,
		fix:    "Let the issuer give longer sessions (kube2iam: --iam-role-session-ttl=60m)",
		source: "github.com/jtblin/kube2iam iam.go",
	},
	{
		name: "metadataproxy", provider: capture.AWSInstance, least: 30 * time.Minute, most: time.Hour,
		fix:    "Let the issuer renew earlier (metadataproxy: 15 minutes before the end, as newer versions do)",
		source: "github.com/lyft/metadataproxy/issues/94",
	},
	{
		name: "EC2 instance metadata", provider: capture.AWSInstance, least: time.Hour, most: 6 * time.Hour,
		fix:    "Share one credentials provider between all clients of the process",
		source: "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/iam-roles-for-amazon-ec2.html",
	},
	{
		name: "EKS Pod Identity agent", provider: capture.AWSPodAgent, least: 15 * time.Second, most: 6 * time.Hour,
		fix:    "Raise the session of the role (its maximum session duration, ≥ 1 hour)",
		source: "github.com/aws/eks-pod-identity-agent",
	},
	{
		name: "ECS container credentials", provider: capture.AWSContainer, least: 0, most: 6 * time.Hour,
		fix:    "Share one credentials provider between all clients of the process",
		source: "https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-iam-roles.html",
	},
}

// recogniseIssuer finds who serves credentials with so much life left at most; nil when
// nobody known does.
func recogniseIssuer(provider capture.MetadataProvider, most time.Duration) *issuer {
	for i := range issuers {
		// Clocks of the issuer and of the capture differ by seconds.
		if s := &issuers[i]; s.provider == provider && most > s.least && most <= s.most+clockSkew {
			return s
		}
	}
	return nil
}

// clockSkew is how far apart the clocks of issuers and of captures are taken to be. More
// would let an SDK's rule explain fetches that it does not cause.
const clockSkew = 5 * time.Second
