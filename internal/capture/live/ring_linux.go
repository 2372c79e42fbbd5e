package live

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The ring: blocks that the kernel fills one after the other, each handed over when it is
// full or when retireAfter has passed since its first packet.
const (
	blockSize = 1 << 20
	maxBlocks = 64
	minBlocks = 4
	// frameSize has no meaning with this version but must fit.
	frameSize = 1 << 11
	// retireAfter is how late, in milliseconds, a packet may be seen.
	retireAfter = 50
	// headroom is room before each packet, into which its cooked header is written.
	headroom = 32
)

// ring is memory that is shared with the kernel.
type ring struct {
	memory []byte
	blocks int
	// block is the one to read next; owned says that the kernel handed it over, left how
	// many of its packets were not read yet, and at where the next of them is.
	block int
	owned bool
	left  uint32
	at    uint32
}

// newRing makes a ring as large as there is memory for.
func newRing(fd int) (*ring, error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V3); err != nil {
		return nil, fmt.Errorf("this kernel has no TPACKET_V3, which capturing needs: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_RESERVE, headroom); err != nil {
		return nil, fmt.Errorf("reserving room in the capture ring: %w", err)
	}
	blocks := maxBlocks
	for {
		err := unix.SetsockoptTpacketReq3(fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &unix.TpacketReq3{
			Block_size:     blockSize,
			Block_nr:       uint32(blocks),
			Frame_size:     frameSize,
			Frame_nr:       uint32(blocks * (blockSize / frameSize)),
			Retire_blk_tov: retireAfter,
		})
		if err == nil {
			break
		}
		if !errors.Is(err, unix.ENOMEM) || blocks == minBlocks {
			return nil, fmt.Errorf("making a capture ring of %d MiB: %w", blocks*blockSize>>20, err)
		}
		blocks /= 2
	}
	memory, err := unix.Mmap(fd, 0, blocks*blockSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping the capture ring: %w", err)
	}
	return &ring{memory: memory, blocks: blocks}, nil
}

// header is the current block's.
func (r *ring) header() *unix.TpacketHdrV1 {
	desc := (*unix.TpacketBlockDesc)(unsafe.Pointer(&r.memory[r.block*blockSize]))
	return (*unix.TpacketHdrV1)(unsafe.Pointer(&desc.Hdr))
}

// next returns the next packet: its header, and the memory from there to the end of its
// block. It returns nil if the kernel has none. What it returned before is given back.
func (r *ring) next() (*unix.Tpacket3Hdr, []byte) {
	for {
		if r.owned && r.left == 0 {
			atomic.StoreUint32(&r.header().Block_status, unix.TP_STATUS_KERNEL)
			r.owned = false
			r.block = (r.block + 1) % r.blocks
		}
		if !r.owned {
			h := r.header()
			if atomic.LoadUint32(&h.Block_status)&unix.TP_STATUS_USER == 0 {
				return nil, nil
			}
			r.owned, r.left, r.at = true, h.Num_pkts, h.Offset_to_first_pkt
			continue // a block may be handed over empty
		}
		block := r.memory[r.block*blockSize : (r.block+1)*blockSize]
		b := block[r.at:]
		h := (*unix.Tpacket3Hdr)(unsafe.Pointer(&b[0]))
		r.left--
		r.at += h.Next_offset
		return h, b
	}
}

func (r *ring) close() error { return unix.Munmap(r.memory) }
