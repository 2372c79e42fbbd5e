package credentials

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"taper.dev/taper/internal/lab/netns"
)

// Where things are. The service and who asks it are on one link; all else is behind it.
var (
	clientPrefix  = netip.MustParsePrefix("172.17.36.1/24")
	servicePrefix = netip.MustParsePrefix("172.17.36.147/24")
	metadataAddr  = netip.MustParseAddrPort("169.254.169.254:80")
	resolverAddr  = netip.MustParseAddrPort("10.96.0.10:53")
	searchAddr    = netip.MustParseAddrPort("10.2.0.9:9200")
)

const (
	servicePort = 8080
	searchName  = "search.offers.internal."
	// shutdownWithin bounds the end of a server whose clients are still there.
	shutdownWithin = 2 * time.Second
	// answerBytes is about what a page of hits weighs.
	answerBytes = 4000
)

// outside is everything that the service talks to.
type outside struct {
	issuer  *Issuer
	web     []*http.Server
	dns     *dns.Server
	running sync.WaitGroup
	failed  chan error // the first server that ended by itself
}

// startOutside serves metadata, names and searches in the program's network.
func startOutside(o Options) (*outside, error) {
	if err := netns.Own(metadataAddr.Addr(), resolverAddr.Addr(), searchAddr.Addr()); err != nil {
		return nil, err
	}
	s := &outside{issuer: NewIssuer(o.Delay, o.Session, o.Refresh), failed: make(chan error, 3)}
	err := errors.Join(s.serve(metadataAddr, s.issuer), s.serve(searchAddr, search(o.Search)), s.resolve())
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *outside) serve(at netip.AddrPort, handler http.Handler) error {
	listener, err := net.Listen("tcp", at.String())
	if err != nil {
		return fmt.Errorf("serving at %s: %w", at, err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	s.web = append(s.web, server)
	s.running.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("serving at %s: %w", at, err)
		}
	})
	return nil
}

// search answers any query with a page of hits.
func search(took time.Duration) http.Handler {
	hits := bytes.Repeat([]byte(`{"title":"bicycle"},`), answerBytes/20)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, 1<<20)); err != nil {
			return
		}
		select {
		case <-time.After(took):
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(hits) // the client's trouble if it is gone
	})
}

// resolve answers for the search engine's name, and that there is no other.
func (s *outside) resolve() error {
	conn, err := net.ListenPacket("udp", resolverAddr.String())
	if err != nil {
		return fmt.Errorf("serving names at %s: %w", resolverAddr, err)
	}
	s.dns = &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(answerName)}
	started := make(chan struct{})
	s.dns.NotifyStartedFunc = func() { close(started) }
	s.running.Go(func() {
		if err := s.dns.ActivateAndServe(); err != nil {
			s.failed <- fmt.Errorf("serving names at %s: %w", resolverAddr, err)
		}
	})
	<-started
	return nil
}

func answerName(w dns.ResponseWriter, asked *dns.Msg) {
	answer := new(dns.Msg).SetReply(asked)
	for _, q := range asked.Question {
		switch {
		case !strings.EqualFold(q.Name, searchName):
			answer.Rcode = dns.RcodeNameError
		case q.Qtype == dns.TypeA:
			answer.Answer = append(answer.Answer, &dns.A{
				Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60},
				A:   searchAddr.Addr().AsSlice(),
			})
		}
	}
	_ = w.WriteMsg(answer) // the client asks again
}

// Close ends all servers.
func (s *outside) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownWithin)
	defer cancel()
	for _, server := range s.web {
		_ = server.Close() // in use or not: the lab is over
	}
	if s.dns != nil {
		_ = s.dns.ShutdownContext(ctx)
	}
	s.running.Wait()
}
