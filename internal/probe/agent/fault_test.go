package agent

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"taper.dev/taper/internal/probe"
)

// What this test's program is when it is run again as another process, and where to.
const (
	childRole    = "TAPER_TEST_AGENT_ROLE"
	childAddress = "TAPER_TEST_AGENT_ADDRESS"
)

func TestMain(m *testing.M) {
	switch os.Getenv(childRole) {
	case "agent":
		s, err := Listen(context.Background(), Options{Address: "127.0.0.1:0", Token: secret, ends: plainEnds, pace: quick})
		if err != nil {
			panic(err)
		}
		fmt.Println(s.Addr())
		_ = s.Serve(context.Background())
	case "client":
		c, err := Dial(context.Background(), os.Getenv(childAddress), options())
		if err != nil {
			panic(err)
		}
		_, _ = c.Run(context.Background(), short(probe.TCPBandwidth, lasting(time.Minute)))
	default:
		flag.Parse()
		// They wait more than they work.
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
		os.Exit(m.Run())
	}
}

// child runs this program as another process until the test ends.
func child(t *testing.T, role, address string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childRole+"="+role, childAddress+"="+address)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, bufio.NewReader(out)
}

func TestAgentIsKilled(t *testing.T) {
	t.Parallel()
	cmd, out := child(t, "agent", "")
	address, err := out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, strings.TrimSpace(address))
	time.AfterFunc(200*time.Millisecond, func() { _ = cmd.Process.Kill() })
	begun := time.Now()
	trial, err := c.Run(t.Context(), short(probe.TCPBandwidth, lasting(time.Minute)))
	if err != nil || time.Since(begun) > 5*time.Second {
		t.Fatalf("%v after %v", err, time.Since(begun))
	}
	if trial.Near.SentBytes == 0 || trial.Incomplete == "" || !strings.Contains(trial.Incomplete, c.Peer().String()) {
		t.Errorf("%d bytes, %q", trial.Near.SentBytes, trial.Incomplete)
	}
	_, err = c.Run(t.Context(), short(probe.TCPBandwidth))
	wants(t, err, c.Peer().String())
}

func TestClientIsKilled(t *testing.T) {
	t.Parallel()
	s := serve(t)
	cmd, _ := child(t, "client", s.Addr().String())
	eventually(t, "the trial", s.flowing)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// The agent is free for others, and has noted what it had.
	c := connect(t, s.Addr().String(), func(o *DialOptions) { o.Wait = 5 * time.Second })
	if trial, err := c.Run(t.Context(), short(probe.TCPBandwidth)); err != nil || trial.Incomplete != "" {
		t.Error(err, trial.Incomplete)
	}
	eventually(t, "noting it", func() bool {
		return strings.Contains(s.log.String(), "is gone") || strings.Contains(s.log.String(), "reset")
	})
}

// The path is cut, in the middle of a trial, without a word to either side.
func TestPathIsCut(t *testing.T) { withBothEnds(t, pathIsCut) }

func pathIsCut(t *testing.T, of endsOf) {
	s := serve(t, agentWith(of))
	p := proxyTo(t, s.Addr().String())
	c := connect(t, p.address, clientWith(of))
	go func() {
		eventually(t, "the trial", func() bool { return len(p.seen()) > 1<<20 })
		p.cut.Store(true)
	}()
	begun := time.Now()
	trial, err := c.Run(t.Context(), short(probe.TCPBandwidth, lasting(time.Minute)))
	if took := time.Since(begun); err != nil || took > 4*quick.silence {
		t.Fatalf("%v after %v", err, took)
	}
	if trial.Near.SentBytes == 0 || !strings.Contains(trial.Incomplete, "nothing was heard for 2s") {
		t.Errorf("%d bytes, %q", trial.Near.SentBytes, trial.Incomplete)
	}
	eventually(t, "the agent noticing it", func() bool { return s.Stats().Sessions == 0 })
	if !strings.Contains(s.log.String(), "nothing was heard for 2s") {
		t.Error("the log does not say why the trial ended:", s.log)
	}
}

func TestStop(t *testing.T) { withBothEnds(t, stop) }

func stop(t *testing.T, of endsOf) {
	s := serve(t, agentWith(of))
	c := connect(t, s.Addr().String(), clientWith(of))
	idle := connect(t, s.Addr().String())
	silent := raw(t, s.Addr())
	var stopping time.Time
	var stopped sync.WaitGroup
	stopped.Go(func() {
		eventually(t, "the trial", s.flowing)
		time.Sleep(300 * time.Millisecond) // some of it is to be kept
		stopping = time.Now()
		if err := s.stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(stopping); took > time.Second {
			t.Errorf("the agent took %v to stop", took)
		}
	})
	trial, err := c.Run(t.Context(), short(probe.TCPBandwidth, lasting(time.Minute)))
	stopped.Wait()
	if err != nil || trial.Near.SentBytes == 0 || trial.Incomplete != fmt.Sprintf("agent at %v: it is being stopped", s.Addr()) {
		t.Errorf("%v, %d bytes, %q", err, trial.Near.SentBytes, trial.Incomplete)
	}
	_, err = idle.Interfaces(t.Context())
	wants(t, err, "it is being stopped")
	if _, err := silent.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Error("a silent connection was not closed:", err)
	}
	if _, err := net.Dial("tcp", s.Addr().String()); err == nil {
		t.Error("the port is still open")
	}
}

func TestInterrupt(t *testing.T) { withBothEnds(t, interrupt) }

func interrupt(t *testing.T, of endsOf) {
	s := serve(t, agentWith(of))
	for _, test := range []probe.Test{probe.TCPBandwidth, probe.UDPBandwidth} {
		c := connect(t, s.Addr().String(), clientWith(of))
		before := s.Stats().Trials
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			eventually(t, "the trial", func() bool { return s.Stats().Trials > before && s.flowing() })
			time.AfterFunc(300*time.Millisecond, cancel) // some of it is to be kept
		}()
		begun := time.Now()
		trial, err := c.Run(ctx, short(test, lasting(time.Minute)))
		if err != nil || trial.Incomplete != "it was interrupted" || time.Since(begun) > 2*time.Second {
			t.Errorf("%s: %v, %q after %v", test, err, trial.Incomplete, time.Since(begun))
		}
		if trial.Near.SentBytes == 0 {
			t.Error("what there was is lost")
		}
		if trial, err := c.Run(t.Context(), short(test)); err != nil || trial.Incomplete != "" {
			t.Error("the connection is spoilt:", err, trial.Incomplete)
		}
	}
}

// A path that lets TCP through alone.
func TestDatagramsBlocked(t *testing.T) { withBothEnds(t, datagramsBlocked) }

func datagramsBlocked(t *testing.T, of endsOf) {
	s := serve(t, agentWith(of))
	p := proxyTo(t, s.Addr().String())
	c := connect(t, p.address, clientWith(of))
	trial, err := c.Run(t.Context(), short(probe.UDPBandwidth))
	if err == nil {
		err = errors.New(trial.Incomplete)
	}
	port := netip.MustParseAddrPort(p.address).Port()
	wants(t, err, "no datagram came back from "+p.address, "while TCP gets through: is UDP ", fmt.Sprintf("UDP %d open?", port))
}

// An address that leads to several agents: the data come to another one.
func TestDataAtAnotherAgent(t *testing.T) { withBothEnds(t, dataAtAnotherAgent) }

func dataAtAnotherAgent(t *testing.T, of endsOf) {
	a, b := serve(t, agentWith(of)), serve(t, agentWith(of))
	first := make(chan struct{}, 1)
	first <- struct{}{}
	balancer := fake(t, func(conn net.Conn) {
		to := b.Addr()
		select {
		case <-first:
			to = a.Addr()
		default:
		}
		other, err := net.Dial("tcp", to.String())
		if err != nil {
			return
		}
		defer other.Close()
		go func() { _, _ = io.Copy(other, conn) }()
		_, _ = io.Copy(conn, other)
	})
	c := connect(t, balancer, clientWith(of))
	trial, err := c.Run(t.Context(), short(probe.TCPBandwidth, lasting(time.Second)))
	if err == nil {
		err = errors.New(trial.Incomplete)
	}
	wants(t, err, "does the address lead to several agents", "sessionAffinity")
	if b.Stats().Stray == 0 {
		t.Error("the other agent did not count it")
	}
}
