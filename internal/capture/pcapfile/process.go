package pcapfile

import (
	"bytes"
	"hash/maphash"

	"taper.dev/taper/internal/capture"
)

const (
	// maxName bounds a process's or interface's name, in bytes.
	maxName = 64
	// maxNames bounds how many different names are remembered.
	maxNames = 4096
)

// maxComments bounds how many different comments are remembered.
const maxComments = 4096

// shared is what all files of a capture have in common.
type shared struct {
	// names holds each name once, so that packets need no string of their own.
	names map[string]string
	// indexes are those of interfaces: the same name in another section or file is the
	// same interface.
	indexes map[interfaceKey]int
	// comments remembers what comments say, by their hashes: a process has many packets
	// with the same comment, and the text itself may hold secrets.
	comments map[uint64]capture.Process
	seed     maphash.Seed
}

// interfaceKey tells interfaces apart: by name, or by position where they have none.
type interfaceKey struct {
	name     string
	link     capture.LinkType
	position int
}

func newShared() *shared {
	return &shared{
		names:    map[string]string{},
		indexes:  map[interfaceKey]int{},
		comments: map[uint64]capture.Process{},
		seed:     maphash.MakeSeed(),
	}
}

// name is b as a string, of which equal ones share their bytes.
func (s *shared) name(b []byte) string {
	b = b[:min(len(b), maxName)]
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	if n, ok := s.names[string(b)]; ok {
		return n
	}
	if len(s.names) >= maxNames {
		clear(s.names)
	}
	n := string(b)
	s.names[n] = n
	return n
}

// interfaceIndex is an interface's index in the capture; -1 when there are too many.
func (s *shared) interfaceIndex(name []byte, link capture.LinkType, position int) int {
	key := interfaceKey{name: s.name(name), link: link, position: position}
	if key.name != "" {
		key.position = 0
	}
	i, ok := s.indexes[key]
	if !ok {
		if i = len(s.indexes); i == maxInterfaces {
			return -1
		}
		s.indexes[key] = i
	}
	return i
}

// comment adds to p what a packet's comment says that p does not know yet.
func (s *shared) comment(text []byte, p *capture.Process) {
	hash := maphash.Bytes(s.seed, text)
	said, ok := s.comments[hash]
	if !ok {
		said = s.parseComment(text)
		if len(s.comments) >= maxComments {
			clear(s.comments)
		}
		s.comments[hash] = said
	}
	if p.PID == 0 {
		p.PID = said.PID
	}
	if p.TID == 0 {
		p.TID = said.TID
	}
	if p.Name == "" {
		p.Name = said.Name
	}
}

// parseComment reads the lines that ptcpdump writes about a packet's process:
//
//	PID: 7531
//	Cmd: /usr/bin/curl
//	Args: …
//	ThreadId: 7533
//	ThreadName: curl
//
// in one comment or in several. Only numbers and name are kept, since arguments may hold
// secrets; the first line of a kind counts, and nothing behind arguments does, since they
// may hold lines.
func (s *shared) parseComment(text []byte) (p capture.Process) {
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		text = rest
		key, value, ok := bytes.Cut(line, []byte(": "))
		if !ok {
			continue
		}
		switch string(key) {
		case "PID":
			if p.PID == 0 {
				p.PID = number(value)
			}
		case "ThreadId":
			if p.TID == 0 {
				p.TID = number(value)
			}
		case "Cmd":
			if p.Name == "" {
				p.Name = s.name(value[bytes.LastIndexByte(value, '/')+1:])
			}
		case "Args":
			return p
		}
	}
	return p
}

// number is a decimal number; 0, which means unknown, if it is none.
func number(b []byte) uint32 {
	b = bytes.TrimSpace(b)
	var n uint64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0
		}
		if n = n*10 + uint64(c-'0'); n > 1<<32-1 {
			return 0
		}
	}
	return uint32(n)
}
