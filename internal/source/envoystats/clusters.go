package envoystats

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// maxQuote bounds, in bytes, what an error quotes of an answer.
const maxQuote = 200

// clusters is the part that is read of Envoy's envoy.admin.v3.Clusters. Plain
// structs are read several times faster than the protobuf message, and sixteen
// Envoys are read five times a second.
type clusters struct {
	Statuses []status `json:"cluster_statuses"`
}

type status struct {
	Name string `json:"name"`
	// Alias is what the cluster is called in statistics, where that is not its name.
	Alias string `json:"observability_name"`
	Hosts []struct {
		Address struct {
			Socket *struct {
				Address string `json:"address"`
				Port    uint32 `json:"port_value"`
			} `json:"socket_address"`
		} `json:"address"`
		Stats []stat `json:"stats"`
	} `json:"host_statuses"`
}

// stat is a counter or a gauge. As protobuf has it, a zero value is left out and
// a 64-bit number is a string.
type stat struct {
	Name  string `json:"name"`
	Value uint64 `json:"value,string"`
}

// host is what one Envoy says of one host.
type host struct {
	requests uint64 // rq_total: sent since the host was added
	active   uint64 // rq_active: in flight
}

// parse returns the hosts of one cluster by address. Hosts that are not dialled
// by address and port are left out.
func parse(body []byte, cluster string) (map[string]host, error) {
	var all clusters
	if err := json.Unmarshal(body, &all); err != nil {
		// Not wrapped: the cause may quote the whole answer, and no caller asks for it.
		return nil, fmt.Errorf("its answer is not a list of clusters: %s", bounded(err.Error()))
	}
	status, ok := all.find(cluster)
	if !ok {
		return nil, fmt.Errorf("cluster %q is not known; it knows %s", cluster, all.names())
	}
	hosts := make(map[string]host, len(status.Hosts))
	for _, h := range status.Hosts {
		address := h.Address.Socket
		known, ok := read(h.Stats)
		if address == nil || !ok {
			continue
		}
		hosts[net.JoinHostPort(address.Address, strconv.FormatUint(uint64(address.Port), 10))] = known
	}
	return hosts, nil
}

// find prefers a name over an alias, which need not be unique.
func (all clusters) find(cluster string) (found status, ok bool) {
	for _, c := range all.Statuses {
		if c.Name == cluster {
			return c, true
		}
		if c.Alias == cluster {
			found, ok = c, true
		}
	}
	return found, ok
}

func (all clusters) names() string {
	names := make([]string, 0, 5)
	for _, c := range all.Statuses[:min(len(all.Statuses), cap(names))] {
		names = append(names, bounded(c.Name))
	}
	list := bounded(fmt.Sprintf("%q", names))
	if more := len(all.Statuses) - len(names); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

func bounded(text string) string {
	if len(text) <= maxQuote {
		return text
	}
	return strings.ToValidUTF8(text[:maxQuote], "") + "…"
}

// read is false when a statistic is missing, which is not zero.
func read(stats []stat) (h host, ok bool) {
	found := 0
	for _, s := range stats {
		switch s.Name {
		case "rq_total":
			h.requests = s.Value
			found++
		case "rq_active":
			h.active = s.Value
			found++
		}
	}
	return h, found == 2
}
