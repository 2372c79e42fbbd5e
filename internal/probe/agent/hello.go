package agent

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"taper.dev/taper/internal/probe"
)

// protocol is the version that both sides of a control connection must speak.
const protocol uint16 = 1

// The first eight bytes tell what a connection is for. They and the two bytes of the
// version are the same in all versions, so that old and new can tell each other apart.
const (
	controlMagic = "taperctl"
	dataMagic    = "taperdat"
	magicBytes   = 8
)

// What a greeting says beside the version.
const (
	flagTLS     = 1 << iota // TLS comes next
	flagRefused             // this peer is not among those who may ask
)

const (
	versionAt = magicBytes
	flagsAt   = versionAt + 2
	releaseAt = flagsAt + 1
	newlineAt = probe.HelloBytes - 1
	ticketAt  = 16
)

var errNotTaper = errors.New("not a taper hello")

// greeting begins a control connection, from both sides, and is not encrypted: it is what
// versions and TLS are agreed by.
type greeting struct {
	protocol uint16
	flags    byte
	release  string // taper's, for people
}

func (g greeting) bytes() []byte {
	b := make([]byte, probe.HelloBytes)
	copy(b, controlMagic)
	binary.BigEndian.PutUint16(b[versionAt:], g.protocol)
	b[flagsAt] = g.flags
	copy(b[releaseAt:newlineAt], g.release)
	// A server of something else that reads lines says at once that this is none of its.
	b[newlineAt] = '\n'
	return b
}

func (g greeting) String() string {
	release := g.release
	if release == "" {
		release = "of unknown release"
	}
	return fmt.Sprintf("taper %s (protocol %d)", release, g.protocol)
}

// parseGreeting reads 32 bytes.
func parseGreeting(b []byte) (greeting, error) {
	if len(b) != probe.HelloBytes || string(b[:magicBytes]) != controlMagic {
		return greeting{}, errNotTaper
	}
	release, _, _ := bytes.Cut(b[releaseAt:newlineAt], []byte{0})
	return greeting{
		protocol: binary.BigEndian.Uint16(b[versionAt:]), flags: b[flagsAt], release: plain(string(release)),
	}, nil
}

// ticket names one trial, and cannot be guessed: who shows it was told by the agent.
type ticket [probe.HelloBytes - ticketAt]byte

func newTicket() ticket {
	var t ticket
	_, _ = rand.Read(t[:]) // never fails
	return t
}

// dataHello is what a data connection begins with.
func dataHello(t ticket) []byte {
	b := make([]byte, probe.HelloBytes)
	copy(b, dataMagic)
	binary.BigEndian.PutUint16(b[versionAt:], protocol)
	copy(b[ticketAt:], t[:])
	return b
}

// parseDataHello reads 32 bytes. A hello of another version is an error too: its ticket
// would be unknown anyway.
func parseDataHello(b []byte) (ticket, error) {
	if len(b) != probe.HelloBytes || string(b[:magicBytes]) != dataMagic ||
		binary.BigEndian.Uint16(b[versionAt:]) != protocol {
		return ticket{}, errNotTaper
	}
	return ticket(b[ticketAt:]), nil
}

// readHello reads what a connection begins with, no byte more. It gives up at the eighth
// byte that is not ours, rather than wait for the rest of somebody's request line.
func readHello(r io.Reader) ([]byte, error) {
	b := make([]byte, probe.HelloBytes)
	n, err := io.ReadFull(r, b[:magicBytes])
	if err != nil {
		return b[:n], err
	}
	if magic := string(b[:magicBytes]); magic != controlMagic && magic != dataMagic {
		return b[:n], errNotTaper
	}
	m, err := io.ReadFull(r, b[n:])
	return b[:n+m], err
}

// longestText bounds what is shown of what a peer says.
const longestText = 1 << 10

// plain makes a text of a peer's fit for a terminal and a log: bounded, without control
// characters.
func plain(s string) string {
	if len(s) > longestText {
		s = s[:longestText] + "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
