package trap

import (
	"testing"
	"time"

	"taper.dev/taper/internal/capture"
)

const minute = 60_000 // milliseconds, as stories count

// refreshing is a request every second that first fetches credentials which end at a
// time of their own.
func refreshing(s *story, n int, agent string, end time.Duration) {
	c := s.conn(pod, imds)
	elastic := s.conn(pod, search)
	for i := range n {
		now := float64(i * 1000)
		role := s.metadata(c, now+1, 40, capture.MetadataRole, 0)
		served := s.metadata(c, now+41, 46, capture.MetadataCredentials, 0)
		served.HTTP.Metadata.Expires = begin.Add(end)
		served.HTTP.UserAgent = agent
		s.request(now, 105, role, served, s.http(elastic, now+87, 18, "POST", "/index/_search"))
	}
}

const javaV1 = "aws-sdk-java/1.11.414 Linux/5.4"

var credentialPairs = map[string]pair{
	"credential-refresh": {
		has: func(s *story) { refreshing(s, 4, javaV1, 15*time.Minute) },
		title: "2 calls to the AWS instance metadata service (/latest/meta-data/iam/security-credentials/…) in each request cost 86 ms. " +
			"The credentials live 15 minutes and this SDK (aws-sdk-java/1.11) refreshes below 15, so every request refreshes.",
		cost: 86 * time.Millisecond, severity: High,
		near: map[string]func(*story){
			"two processes renew once": func(s *story) { refreshing(s, 2, javaV1, 15*time.Minute) },
			"more life left than the SDK wants": func(s *story) {
				refreshing(s, 4, "aws-sdk-go/1.44.0 (go1.18)", 15*time.Minute)
			},
			"more life left than any SDK wants": func(s *story) { refreshing(s, 4, "Java/11.0.2", 16*time.Minute) },
			"each renewing renews, about once a minute": func(s *story) {
				c := s.conn(pod, imds)
				for i := range 6 {
					now := float64(i * 73_000)
					s.request(now, 100, s.metadata(c, now, 20, capture.MetadataCredentials, 14*time.Minute))
				}
			},
			"one fetch in five calls": func(s *story) {
				c := s.conn(pod, imds)
				for i := range 20 {
					now := float64(i * 1000)
					if i%5 > 0 {
						s.request(now, 20)
						continue
					}
					s.request(now, 100, s.metadata(c, now, 20, capture.MetadataCredentials, 14*time.Minute))
				}
			},
			"the service refuses": func(s *story) {
				c := s.conn(pod, imds)
				for i := range 4 {
					s.metadata(c, float64(i*1000), 20, capture.MetadataCredentials, time.Minute).Failed = true
				}
			},
		},
	},
	"credentials-per-client": {
		has: func(s *story) {
			for i := range 5 {
				x := s.protocol(capture.TLS, s.dial(pod, "52.94.1.1:443", float64(i*1000)), float64(i*1000)+1, 30, "handshake", "")
				x.Authority = "sts.eu-west-1.amazonaws.com"
				s.request(float64(i*1000), 80, x)
			}
		},
		title: "10.0.0.5 asked 5 times for sessions with sts.eu-west-1.amazonaws.com within 4.0 s, though those it had would have lived on; each request cost 31 ms.",
		cost:  31 * time.Millisecond, severity: High,
		near: map[string]func(*story){
			"four at start": func(s *story) {
				for i := range 4 {
					x := s.protocol(capture.TLS, s.dial(pod, "52.94.1.1:443", float64(i*1000)), float64(i*1000)+1, 30, "handshake", "")
					x.Authority = "sts.eu-west-1.amazonaws.com"
				}
				for i := range 100 {
					s.request(float64(i*1000), 20)
				}
			},
			"five, one a quarter of an hour": func(s *story) {
				for i := range 5 {
					x := s.exchange(s.conn(pod, "52.94.1.1:80"), float64(i*15*minute), 30, "POST", "/")
					x.HTTP.Action = "AssumeRoleWithWebIdentity"
					s.now(x)
				}
			},
			"five in little more than a minute": func(s *story) {
				for i := range 5 {
					x := s.exchange(s.conn(pod, "52.94.1.1:80"), float64(i*15_100), 30, "POST", "/")
					x.HTTP.Action = "AssumeRoleWithWebIdentity"
					s.now(x)
				}
				for i := range 100 {
					s.request(float64(i*1000), 20)
				}
			},
			"another service of AWS": func(s *story) {
				for i := range 9 {
					s.protocol(capture.TLS, s.dial(pod, "52.94.1.1:443", float64(i)), float64(i)+1, 30, "handshake", "").Authority = "s3.eu-west-1.amazonaws.com"
				}
			},
		},
	},
	"imdsv2-hop-limit": {
		has: func(s *story) {
			c := s.dial(pod, imds, 0)
			put := s.metadata(c, 2, -1, capture.MetadataSession, 0)
			get := s.metadata(s.dial(pod, imds, 1002), 1004, 20, capture.MetadataRole, 0)
			s.request(0, 1050, put, get)
			s.request(2000, 50)
		},
		title: "PUT /latest/api/token went unanswered 1 time, and after 1.0 s on average the SDK went on without a token; 1 of 2 requests cost 1.0 s.",
		cost:  501 * time.Millisecond, severity: High,
		near: map[string]func(*story){
			"refused at once": func(s *story) {
				c := s.conn(pod, imds)
				s.metadata(c, 2, 3, capture.MetadataSession, 0).Status = 404
				s.metadata(c, 1004, 20, capture.MetadataRole, 0)
			},
			"the capture ends": func(s *story) { s.metadata(s.conn(pod, imds), 2, -1, capture.MetadataSession, 0) },
			"another client without token, sooner than SDKs give up": func(s *story) {
				s.metadata(s.conn(pod, imds), 2, -1, capture.MetadataSession, 0)
				s.metadata(s.conn(pod, imds), 890, 20, capture.MetadataRole, 0)
			},
			"another client without token, much later": func(s *story) {
				s.metadata(s.conn(pod, imds), 2, -1, capture.MetadataSession, 0)
				s.metadata(s.conn(pod, imds), 17_000, 20, capture.MetadataRole, 0)
			},
			"tried again with success": func(s *story) {
				c := s.conn(pod, imds)
				s.metadata(c, 2, -1, capture.MetadataSession, 0)
				s.metadata(c, 1100, 3, capture.MetadataSession, 0)
				s.metadata(c, 1104, 20, capture.MetadataRole, 0).HTTP.Metadata.Token = true
			},
		},
	},
}

// TestCredentialRefreshSays tries what the sentence says of other SDKs and issuers.
func TestCredentialRefreshSays(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		agent      string
		end        time.Duration
		title, fix string
	}{
		"unknown SDK": {
			"Java/11.0.2", 12 * time.Minute,
			"The credentials have at most 12 minutes left when served, which is not enough for this SDK (Java/11.0): it got the same credentials 4 times.",
			"Let the issuer give longer sessions (KIAM: --session-duration=60m, at least 30m; metadataproxy: refresh 15 minutes before the end); on EKS, use Pod Identity.",
		},
		"no agent": {
			"", 12 * time.Minute,
			"The credentials have at most 12 minutes left when served, which is not enough for this SDK: it got the same credentials 4 times.",
			"Let the issuer give longer sessions (KIAM: --session-duration=60m, at least 30m; metadataproxy: refresh 15 minutes before the end); on EKS, use Pod Identity.",
		},
		"botocore": {
			"Boto3/1.34.1 md/Botocore#1.34.1 ua/2.0", 14*time.Minute + 50*time.Second,
			"The credentials live 15 minutes and this SDK (Boto3/1.34) refreshes below 15, so every request refreshes.",
			"Let the issuer give longer sessions (KIAM: --session-duration=60m, at least 30m; metadataproxy: refresh 15 minutes before the end), or update boto3; on EKS, use Pod Identity.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s story
			refreshing(&s, 4, test.agent, test.end)
			found := s.play(newCredentialRefresh())
			if len(found) != 1 {
				t.Fatalf("%d findings, want 1", len(found))
			}
			const calls = "2 calls to the AWS instance metadata service (/latest/meta-data/iam/security-credentials/…) in each request cost 86 ms. "
			if found[0].Title != calls+test.title || found[0].Fix != test.fix {
				t.Errorf("%s\n%s\nwant\n%s\n%s", found[0].Title, found[0].Fix, calls+test.title, test.fix)
			}
		})
	}
}

// TestCredentialStorm sees an issuer whose sessions are long enough, but are served until
// shortly before their end: all is well until the last quarter of an hour.
func TestCredentialStorm(t *testing.T) {
	t.Parallel()
	var s story
	c := s.conn(pod, imds)
	s.request(0, 60, s.metadata(c, 1, 40, capture.MetadataCredentials, time.Hour))
	for i := range 10 {
		now := float64(46*minute + i*1000)
		x := s.metadata(c, now+1, 40, capture.MetadataCredentials, 0)
		x.HTTP.Metadata.Expires = at(60 * minute)
		s.request(now, 60, x)
	}
	found := s.play(newCredentialRefresh())
	const title = "1 call to the AWS instance metadata service (/latest/meta-data/iam/security-credentials/…) in 10 of 11 requests cost 40 ms. " +
		"The credentials live 60 minutes, are served until shortly before their end, and this SDK (aws-sdk-java/1.11) refreshes below 15, so each use of them fetches again."
	const fix = "Let the issuer renew earlier (metadataproxy: 15 minutes before the end, as newer versions do), or move to the AWS SDK for Java 2; on EKS, use Pod Identity."
	if len(found) != 1 || found[0].Title != title || found[0].Fix != fix {
		t.Errorf("%+v\nwant\n%s\n%s", found, title, fix)
	}
	const sources = "https://github.com/aws/aws-sdk-java/issues/1893; aws-sdk-java BaseCredentialsFetcher; metadataproxy: github.com/lyft/metadataproxy/issues/94"
	if len(found) == 1 && found[0].Reference != sources {
		t.Errorf("%s\nwant\n%s", found[0].Reference, sources)
	}
}

// TestFetchedTooOften sees fetches that each serve new credentials, of as little life.
func TestFetchedTooOften(t *testing.T) {
	t.Parallel()
	var s story
	c := s.conn(pod, imds)
	for i := range 14 {
		now := float64(i * 1000)
		if i%5 == 0 {
			s.request(now, 100, s.metadata(c, now, 20, capture.MetadataCredentials, 14*time.Minute))
		} else {
			s.request(now, 20)
		}
	}
	if found := s.play(newCredentialRefresh()); len(found) != 1 {
		t.Errorf("%+v; want 3 fetches in 14 requests found", found)
	}
}
