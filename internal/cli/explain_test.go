package cli

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"taper.dev/taper/internal/capture"
	"taper.dev/taper/internal/capture/synth"
	"taper.dev/taper/internal/command"
)

// synthesise writes a capture of the published story: synthesise FILE SESSION REQUESTS.
func synthesise(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: synthesise FILE SESSION REQUESTS")
	}
	session, err := time.ParseDuration(args[1])
	ts.Check(err)
	requests, err := strconv.Atoi(args[2])
	ts.Check(err)
	c, err := synth.New(synth.Article(session, requests))
	ts.Check(err)
	ts.Check(writeCapture(ts.MkAbs(args[0]), c))
}

func writeCapture(path string, c io.WriterTo) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	buffered := bufio.NewWriter(file)
	if _, err := c.WriteTo(buffered); err != nil {
		return err
	}
	return buffered.Flush()
}

// What must never be told, as it stands in packets.
var secrets = []string{
	"SECRET-authorization", "SECRET-cookie", "SECRET-set-cookie", "SECRET-query", "SECRET-body", "SECRET-answer",
	"SECRET-accesskey", "SECRET-token", "SECRET-literal", "SECRET-redis", "SECRET-value", "SECRET-password",
	"eyJhbGciOiJIUzI1NiJ9", "SECRET-jwt", "SECRET-api-key", "SECRET-signature", "SECRET-user-info",
}

// indiscreet is a capture with secrets wherever protocols carry them.
func indiscreet() *synth.Capture {
	s := synth.NewScript()
	client := netip.MustParseAddrPort("10.9.0.7:40000")
	local := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(synth.ServiceAddr.Addr(), port) }
	metadata, es := netip.MustParseAddrPort("169.254.169.254:80"), netip.MustParseAddrPort("10.2.0.9:9200")
	cache, db, sql := netip.MustParseAddrPort("10.2.0.1:6379"), netip.MustParseAddrPort("10.2.0.2:5432"), netip.MustParseAddrPort("10.2.0.3:3306")
	inbound := s.Dial(0, time.Millisecond, client, synth.ServiceAddr)
	imds := s.Dial(time.Millisecond, time.Millisecond, local(41000), metadata)
	search := s.Dial(time.Millisecond, time.Millisecond, local(41001), es)
	redis := s.Dial(time.Millisecond, time.Millisecond, local(41002), cache)
	postgres := s.Dial(time.Millisecond, time.Millisecond, local(41003), db)
	mysql := s.Dial(time.Millisecond, time.Millisecond, local(41004), sql)
	for i := range 12 {
		at := func(ms int) time.Duration {
			return time.Duration(i)*time.Second + time.Duration(10+ms)*time.Millisecond
		}
		inbound.Send(at(0), capture.Client, []byte("POST /v1/pay/eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI0MiJ9.SECRET-jwt/x?token=SECRET-query HTTP/1.1\r\nHost: SECRET-user-info@shop\r\n"+
			"Authorization: Bearer SECRET-authorization\r\nCookie: sid=SECRET-cookie\r\nX-Api-Key: SECRET-api-key\r\nContent-Length: 11\r\n\r\nSECRET-body"))
		imds.Send(at(1), capture.Client, []byte("GET /latest/meta-data/iam/security-credentials/shop HTTP/1.1\r\nHost: 169.254.169.254\r\nX-aws-ec2-metadata-token: SECRET-token\r\nUser-Agent: aws-sdk-java/1.11.5\r\n\r\n"))
		body := `{"Code":"Success","AccessKeyId":"SECRET-accesskey","SecretAccessKey":"SECRET-accesskey","Token":"SECRET-token","Expiration":"2026-01-02T03:10:00Z"}`
		imds.Send(at(40), capture.Server, fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		search.Send(at(41), capture.Client, []byte("GET /idx/_search?q=SECRET-query HTTP/1.1\r\nHost: es\r\nAuthorization: AWS4-HMAC-SHA256 Credential=SECRET-accesskey/20260102/eu/es/aws4_request, Signature=SECRET-signature\r\n\r\n"))
		search.Send(at(50), capture.Server, []byte("HTTP/1.1 500 Oops\r\nSet-Cookie: a=SECRET-set-cookie\r\nContent-Length: 13\r\n\r\nSECRET-answer"))
		redis.Send(at(51), capture.Client, []byte("*2\r\n$4\r\nAUTH\r\n$15\r\nSECRET-password\r\n*3\r\n$3\r\nSET\r\n$12\r\nSECRET-redis\r\n$12\r\nSECRET-value\r\n"))
		redis.Send(at(52), capture.Server, []byte("-ERR SECRET-value\r\n+OK\r\n"))
		query := "SELECT 'SECRET-literal' FROM t WHERE k = 'SECRET-literal'\x00"
		postgres.Send(at(53), capture.Client, append([]byte{'Q', 0, 0, 0, byte(4 + len(query))}, query...))
		postgres.Send(at(54), capture.Server, []byte("E\x00\x00\x00\x17SERROR\x00MSECRET-value\x00\x00Z\x00\x00\x00\x05I"))
		mysql.Send(at(55), capture.Client, append([]byte{byte(len(query)), 0, 0, 0, 3}, query[:len(query)-1]...))
		mysql.Send(at(56), capture.Server, []byte("\x07\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00"))
		inbound.Send(at(60), capture.Server, []byte("HTTP/1.1 200 OK\r\nSet-Cookie: sid=SECRET-set-cookie\r\nContent-Length: 13\r\n\r\nSECRET-answer"))
	}
	return s.Capture()
}

// No output tells a secret, whatever is asked for.
func TestExplainKeepsSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole, broken, page := filepath.Join(dir, "whole.pcap"), filepath.Join(dir, "broken.pcap"), filepath.Join(dir, "page.html")
	if err := writeCapture(whole, indiscreet()); err != nil {
		t.Fatal(err)
	}
	packets, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range secrets {
		if !bytes.Contains(packets, []byte(secret)) {
			t.Fatalf("%s is not in the capture: the test tests nothing", secret)
		}
	}
	// Broken in its header, it is no capture; the error must not quote it.
	if err := os.WriteFile(broken, packets[200:], 0o600); err != nil {
		t.Fatal(err)
	}
	runs := [][]string{
		{"explain", whole}, {"explain", "--json", whole}, {"explain", "--report", page, whole},
		{"explain", "--check", "p99<1us", "--check", "no-high-findings", whole},
		{"explain", "diff", whole, whole}, {"explain", "diff", "--json", "--report", page, whole, whole},
		{"explain", broken}, {"explain", "--pod", whole, whole}, {"explain", "--resolv-conf", whole, whole}, {"explain", "--cpu-stat", whole, whole},
	}
	found := false
	for _, args := range runs {
		var said bytes.Buffer
		_ = os.Remove(page)
		Main(args, strings.NewReader(""), &said, &said)
		drawn, _ := os.ReadFile(page) // most runs draw none
		said.Write(drawn)
		found = found || strings.Contains(said.String(), "/latest/meta-data/iam/security-credentials/shop")
		for _, secret := range secrets {
			if strings.Contains(said.String(), secret) {
				t.Errorf("taper %s tells %s:\n%.2000s", strings.Join(args, " "), secret, said.String())
			}
		}
		if strings.Contains(said.String(), "SECRET") {
			t.Errorf("taper %s tells part of a secret", strings.Join(args, " "))
		}
	}
	if !found {
		t.Error("no output has the call for credentials: the capture was not understood")
	}
}

// Ctrl-C while a file is read ends the command, and leaves an earlier report alone.
func TestExplainInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo, report := filepath.Join(dir, "capture.pcap"), filepath.Join(dir, "report.html")
	if err := os.WriteFile(report, []byte("earlier"), 0o600); err != nil {
		t.Fatal(err)
	}
	// A named pipe is a file whose end never comes.
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := synth.New(synth.Article(15*time.Minute, 50))
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, "explain", "--report", report, fifo)
	pipe, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	feed := make(chan struct{})
	go func() {
		defer close(feed)
		file := synth.NewFile(pipe)
		for packet := (capture.Packet{}); ; {
			if c.Next(&packet) != nil {
				c.Rewind() // the file has no end
				continue
			}
			if _, err := file.Write(&packet); err != nil {
				return
			}
		}
	}()
	p.signal(syscall.SIGINT)
	if code := p.exit(); code != command.ExitFailed {
		t.Errorf("exit code %d, want %d", code, command.ExitFailed)
	}
	<-feed
	if said := p.said(); said != "taper: interrupted; nothing is left running\n" {
		t.Errorf("it said %q", said)
	}
	if text, _ := os.ReadFile(report); string(text) != "earlier" {
		t.Error("the earlier report is gone")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".taper-report-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// Ctrl-C while capturing ends the capture, and explains it.
func TestExplainLiveInterrupted(t *testing.T) {
	t.Parallel()
	p := start(t, "explain", "--live", "lo")
	waitFor(t, "packets to be captured", func(context.Context) bool {
		select {
		case <-p.ended:
			return true
		default:
		}
		return captures(p.cmd.Process.Pid)
	})
	p.signal(syscall.SIGINT)
	code := p.exit()
	if code == command.ExitFailed && strings.Contains(p.said(), "CAP_NET_RAW") {
		t.Skip("capturing needs CAP_NET_RAW")
	}
	if code != command.ExitDone || p.stdout.Len() == 0 {
		t.Errorf("exit code %d, output %q", code, p.stdout.String())
	}
}

// captures says whether a process has a packet socket.
func captures(pid int) bool {
	table, err := os.ReadFile("/proc/net/packet")
	if err != nil {
		return false
	}
	sockets := map[string]bool{}
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		sockets["socket:["+fields[len(fields)-1]+"]"] = true
	}
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // the pattern is sound
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil && sockets[target] {
			return true
		}
	}
	return false
}
