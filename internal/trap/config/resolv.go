package config

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"

	"taper.dev/taper/internal/trap"
)

// maxNdots is what resolvers take a larger ndots for.
const maxNdots = 15

// ParseResolv reads a resolv.conf as resolv.conf(5) says: the last of search and domain
// holds, options add up, and what is not known is passed over.
func ParseResolv(r io.Reader) (*trap.Resolv, error) {
	data, err := read(r, "the resolv.conf")
	if err != nil {
		return nil, err
	}
	conf, known, number := &trap.Resolv{Ndots: 1}, false, 0
	for line := range strings.Lines(string(data)) {
		number++
		if line[0] == '#' || line[0] == ';' {
			continue
		}
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		ours, err := resolvLine(conf, words[0], words[1:])
		if err != nil {
			return nil, fmt.Errorf("line %d of the resolv.conf: %w", number, err)
		}
		known = known || ours
	}
	if !known {
		return nil, errors.New("there is no nameserver, search or options in it; want a resolv.conf: kubectl exec POD -- cat /etc/resolv.conf")
	}
	return conf, nil
}

// resolvLine takes a line, and says whether it is one that a resolv.conf has.
func resolvLine(conf *trap.Resolv, keyword string, values []string) (bool, error) {
	switch keyword {
	case "nameserver":
		addr, err := netip.ParseAddr(values[0])
		if err != nil {
			return false, errors.New("the nameserver is not an IP address")
		}
		conf.Nameservers = append(conf.Nameservers, addr.String())
	case "search":
		conf.Search = nil
		for _, domain := range values {
			if domain = strings.TrimSuffix(domain, "."); domain != "" {
				conf.Search = append(conf.Search, domain)
			}
		}
	case "domain":
		conf.Search = []string{strings.TrimSuffix(values[0], ".")}
	case "options":
		for _, option := range values {
			if err := setOption(conf, option); err != nil {
				return false, err
			}
		}
	default:
		return false, nil
	}
	return true, nil
}

func setOption(conf *trap.Resolv, option string) error {
	conf.Options = append(conf.Options, option)
	value, found := strings.CutPrefix(option, "ndots:")
	if !found {
		return nil
	}
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		return errors.New("ndots is not a number; want ndots:2")
	}
	conf.Ndots = int(min(n, maxNdots))
	return nil
}
