package netns

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Bucket is a token bucket, as tc's tbf has it: bytes are those of frames.
type Bucket struct {
	BitsPerS uint64
	Bytes    uint64
	// Queued is how many bytes may wait for tokens.
	Queued uint64
}

// Shape lets what is sent through a device of this network through by a token bucket, in
// the place of one that it may have already.
func Shape(device string, b Bucket) error {
	link, err := Unshape(device)
	if err != nil {
		return err
	}
	rate := b.BitsPerS / 8
	tbf := &netlink.Tbf{
		QdiscAttrs: root(link), Rate: rate, Limit: uint32(b.Bytes + b.Queued),
		// The kernel is told for how long the bucket lasts, in its ticks.
		Buffer: uint32(float64(b.Bytes) / float64(rate) * netlink.TickInUsec() * 1e6),
	}
	if err := netlink.QdiscAdd(tbf); err != nil {
		return fmt.Errorf("shaping %s: %w", device, err)
	}
	return nil
}

// Unshape removes the bucket, if there is one.
func Unshape(device string) (netlink.Link, error) {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return nil, fmt.Errorf("finding the link %s: %w", device, err)
	}
	err = netlink.QdiscDel(&netlink.Tbf{QdiscAttrs: root(link)})
	// Without any the kernel knows no such thing, or finds the question invalid.
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
		return nil, fmt.Errorf("removing the shaping of %s: %w", device, err)
	}
	return link, nil
}

func root(link netlink.Link) netlink.QdiscAttrs {
	return netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}
}
