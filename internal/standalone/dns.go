package standalone

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"taper.dev/taper/internal/model"
)

// DNS lists the addresses that a name resolves to.
type DNS struct {
	// Name is host:port.
	Name     string
	Resolver *net.Resolver
}

// List implements [Members]. The order is that of the addresses, whatever order
// the server answers in, so that a shuffled answer is no change.
func (d DNS) List(ctx context.Context) ([]model.Endpoint, error) {
	host, port, err := net.SplitHostPort(d.Name)
	if err != nil {
		return nil, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("port of %s: %w", d.Name, err)
	}
	found, err := d.Resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("looking up %s: %w", host, err)
	}
	for i := range found {
		found[i] = found[i].Unmap()
	}
	slices.SortFunc(found, netip.Addr.Compare)
	found = slices.Compact(found)
	members := make([]model.Endpoint, len(found))
	for i, ip := range found {
		members[i] = model.Endpoint{Address: netip.AddrPortFrom(ip, uint16(number)).String()}
	}
	return members, nil
}
