package pcapfile

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"taper.dev/taper/internal/capture"
)

var orders = []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian}

// TestPcap reads every kind of the classic format.
func TestPcap(t *testing.T) {
	t.Parallel()
	for _, order := range orders {
		for _, c := range []struct {
			name  string
			magic uint32
			tick  capture.Time
		}{
			{"microseconds", magicMicro, 1000},
			{"nanoseconds", magicNano, 1},
			{"modified", magicModified, 1000},
		} {
			t.Run(fmt.Sprintf("%v/%s", order, c.name), func(t *testing.T) {
				t.Parallel()
				f := newPcap(order, c.magic, 65535, 4<<28|1<<26|1) // with FCS bits
				f.packet(1_700_000_000, 999_999, []byte("one"), 3)
				f.packet(1_700_000_001, 0, []byte("cut"), 1500)
				f.packet(1_700_000_001, 7, nil, 9)
				f.packet(math.MaxUint32, 1, []byte("liar"), 2) // longer than it was on the wire
				got, r := read(t, f.bytes)
				want := []capture.Packet{
					{Number: 1, Time: 1_700_000_000e9 + 999_999*c.tick, Link: 1, Interface: -1, Data: []byte("one"), Length: 3},
					{Number: 2, Time: 1_700_000_001e9, Link: 1, Interface: -1, Data: []byte("cut"), Length: 1500},
					{Number: 3, Time: 1_700_000_001e9 + 7*c.tick, Link: 1, Interface: -1, Data: []byte{}, Length: 9},
					{Number: 4, Time: math.MaxUint32*1e9 + c.tick, Link: 1, Interface: -1, Data: []byte("liar"), Length: 4},
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
				if d := r.Damage(); len(d) != 0 {
					t.Errorf("damage of a whole file: %q", d)
				}
			})
		}
	}
}

// TestPcapng reads several sections, interfaces, blocks, and link types.
func TestPcapng(t *testing.T) {
	t.Parallel()
	for i, first := range orders {
		second := orders[1-i]
		t.Run(fmt.Sprintf("%v", first), func(t *testing.T) {
			t.Parallel()
			f := newNg(first)
			f.block(0x1234, []byte("unknown")) // and padded
			f.iface(1, 8, ngOption{optName, []byte("eth0")})
			f.iface(276, 0, ngOption{optName, []byte("any")}, ngOption{optResolution, []byte{9}})
			f.enhanced(0, 1_700_000_000_000_001, []byte("micro"), 5)
			f.enhanced(1, 1_700_000_000_000_000_002, []byte("nano"), 40, ngOption{optFlags, f.u32(1)})
			f.simple([]byte("simple and cut off"), 18) // by eth0's snap length
			f.obsolete(1, 1_700_000_000_000_000_003, []byte("old"), 3, ngOption{optFlags, f.u32(2)})
			f.block(blockCustom, []byte("Wireshark numbers this"))
			f.section(second)
			f.iface(101, 0, ngOption{optOffset, f.u64(100)})
			f.iface(1, 0, ngOption{optName, []byte("eth0")}, ngOption{optOffset, f.u64(^uint64(0))}) // -1 s
			f.enhanced(1, 5_000_000, nil, 0)
			f.enhanced(0, 5_000_000, []byte("offset"), 6)
			got, r := read(t, f.bytes)
			want := []capture.Packet{
				{Number: 1, Time: 1_700_000_000_000_001_000, Link: 1, Data: []byte("micro"), Length: 5},
				{Number: 2, Time: 1_700_000_000_000_000_002, Link: 276, Interface: 1, Data: []byte("nano"), Length: 40, Direction: capture.Incoming},
				{Number: 3, Link: 1, Data: []byte("simple a"), Length: 18},
				{Number: 4, Time: 1_700_000_000_000_000_003, Link: 276, Interface: 1, Data: []byte("old"), Length: 3, Direction: capture.Outgoing},
				{Number: 6, Time: 4e9, Link: 1, Data: []byte{}},
				{Number: 7, Time: 105e9, Link: 101, Interface: 2, Data: []byte("offset"), Length: 6},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if d := r.Damage(); len(d) != 0 {
				t.Errorf("damage of a whole file: %q", d)
			}
			if diff := cmp.Diff([]File{{"test", 1, 7}}, r.Files()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestClock(t *testing.T) {
	t.Parallel()
	const at = 1_700_000_000
	for _, c := range []struct {
		name       string
		resolution byte
		offset     int64
		ticks      uint64
		want       capture.Time
	}{
		{"seconds", 0, 0, at, at * 1e9},
		{"milliseconds", 3, 0, at*1000 + 1, at*1e9 + 1e6},
		{"microseconds", 6, 0, at*1e6 + 1, at*1e9 + 1e3},
		{"nanoseconds", 9, 0, at*1e9 + 1, at*1e9 + 1},
		{"picoseconds", 12, at, 1_999, at*1e9 + 1},
		{"attoseconds", 18, at, 5_000_000_000, at*1e9 + 5},
		{"10^-28 s", 28, 1, math.MaxUint64, 1e9 + 1},
		{"10^-127 s", 127, 1, math.MaxUint64, 1e9},
		{"2^-10 s", 0x80 | 10, 0, at<<10 | 512, at*1e9 + 5e8},
		{"2^-30 s", 0x80 | 30, 0, at<<30 | 1<<29, at*1e9 + 5e8},
		{"2^-32 s", 0x80 | 32, 0, at<<32 | 1, at * 1e9},
		{"2^-63 s", 0x80 | 63, at, 1 << 62, at*1e9 + 5e8},
		{"2^-64 s", 0x80 | 64, at, 1 << 63, at*1e9 + 5e8},
		{"2^-127 s", 0x80 | 127, at, math.MaxUint64, at * 1e9},
		{"seconds since 1970 in a file of 1980", 6, 315_532_800, 1e6, 315_532_801e9},
		{"before 1970", 6, -2, 1e6, 0},
		{"beyond 2262", 6, 0, math.MaxUint64, 0},
		{"beyond 2262 by its offset", 9, 9_000_000_000, math.MaxInt64, 0},
		{"an offset beyond 2262", 6, math.MaxInt64, 1, 1000},
	} {
		clock := newClock(c.resolution, c.offset)
		if got := clock.time(c.ticks); got != c.want {
			t.Errorf("%s: %d ticks are %d, want %d", c.name, c.ticks, got, c.want)
		}
	}
}

// TestInterfacesAcrossFiles: the same name is the same interface, wherever it is told.
func TestInterfacesAcrossFiles(t *testing.T) {
	t.Parallel()
	s := newShared()
	for i, c := range []struct {
		name     string
		link     capture.LinkType
		position int
		want     int
	}{
		{"eth0", 1, 0, 0}, {"lo", 1, 1, 1}, {"", 1, 2, 2},
		{"lo", 1, 0, 1}, {"eth0", 1, 1, 0}, {"", 1, 2, 2}, {"", 1, 1, 3}, {"eth0", 113, 0, 4},
	} {
		if got := s.interfaceIndex([]byte(c.name), c.link, c.position); got != c.want {
			t.Errorf("%d: interface %q at %d is %d, want %d", i, c.name, c.position, got, c.want)
		}
	}
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	for _, order := range orders {
		f := newNg(order)
		f.iface(1, 0)
		comment := func(text string) ngOption { return ngOption{optComment, []byte(text)} }
		f.block(blockProcessInfo, f.u32(501), ngOption{optProcessName, []byte("mDNSResponder")})
		f.block(blockProcessInfo, f.u32(77))
		for i, c := range []struct {
			options []ngOption
			want    capture.Process
		}{
			{nil, capture.Process{}},
			// The draft's option.
			{[]ngOption{{optProcessThread, append(f.u32(1234), f.u32(5678)...)}}, capture.Process{PID: 1234, TID: 5678}},
			{[]ngOption{{optProcessThread, f.u32(1234)}}, capture.Process{}}, // too short
			// Apple's.
			{[]ngOption{{optAppleProcess, f.u32(0)}}, capture.Process{PID: 501, Name: "mDNSResponder"}},
			{[]ngOption{{optAppleProcess, f.u32(1)}}, capture.Process{PID: 77}},
			{[]ngOption{{optAppleProcess, f.u32(2)}}, capture.Process{}}, // there is none
			// ptcpdump's, in several comments.
			{[]ngOption{
				comment("PID: 7531\nCmd: /usr/bin/curl\nArgs: curl -H token:SECRET http://x"),
				comment("ThreadId: 7533\nThreadName: resolver"),
				comment("ParentPID: 1\nParentCmd: /bin/sh\nParentArgs: sh -c SECRET"),
				comment("ContainerName: web\nContainerId: 5f\nContainerImage: web:1\nContainerLabels: {}"),
				comment("PodName: web-1\nPodNamespace: default\nPodUID: 1\nPodLabels: {}\nPodAnnotations: {\"k\":\"SECRET\"}"),
			}, capture.Process{PID: 7531, TID: 7533, Name: "curl"}},
			// In one, by its older versions.
			{[]ngOption{comment("PID: 12\nCmd: java\nParentPID: 1\nParentCmd: init")}, capture.Process{PID: 12, Name: "java"}},
			// Arguments that look like lines of ptcpdump.
			{[]ngOption{comment("PID: 12\nCmd: sh\nArgs: sh -c\nPID: 99\nThreadId: 98")}, capture.Process{PID: 12, Name: "sh"}},
			// What people write.
			{[]ngOption{comment("retransmission? see PID: 4"), comment("PID: many"), comment("PID: 4294967296"), comment("")}, capture.Process{}},
		} {
			f.enhanced(0, uint64(i), []byte("x"), 1, c.options...)
			got, _ := read(t, f.bytes)
			if got := got[i].Process; got != c.want {
				t.Errorf("%v, packet %d: process %+v, want %+v", order, i+1, got, c.want)
			}
		}
	}
}

// TestNamesAreBounded: a capture may name more processes than are remembered.
func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	s := newShared()
	for i := range 3 * maxNames {
		if got, want := s.name(fmt.Append(nil, "process ", i)), fmt.Sprint("process ", i); got != want {
			t.Fatalf("name %q, want %q", got, want)
		}
		if len(s.names) > maxNames {
			t.Fatalf("%d names are remembered, want at most %d", len(s.names), maxNames)
		}
	}
	if got := s.name(make([]byte, 100)); got != "" {
		t.Errorf("a name of zeros is %q", got)
	}
	if got := s.name([]byte(fmt.Sprintf("%0100d", 0))); len(got) != maxName {
		t.Errorf("a long name has %d bytes, want %d", len(got), maxName)
	}
}

func TestTimeIsUTC(t *testing.T) {
	t.Parallel()
	got, _ := read(t, newPcap(binary.LittleEndian, magicMicro, 0, 1).packet(1_700_000_000, 5, nil, 0).bytes)
	if want := time.Date(2023, 11, 14, 22, 13, 20, 5000, time.UTC); !got[0].Time.Time().Equal(want) {
		t.Errorf("time %v, want %v", got[0].Time.Time(), want)
	}
}
