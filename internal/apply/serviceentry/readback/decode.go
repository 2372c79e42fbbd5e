package readback

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// external begins the keys of the shards that come from ServiceEntries. There is one
// shard per source and cluster.
const external = "External/"

// shards is what istiod knows of one service in one namespace.
type shards struct {
	Shards map[string][]endpoint
}

// endpoint is one of istiod's endpoints, as far as it matters here.
type endpoint struct {
	Addresses       []string
	ServicePortName string
	LbWeight        uint32
}

// skipped is a value that nobody asked for.
type skipped struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (*skipped) UnmarshalJSON([]byte) error { return nil }

// decode reads istiod's answer: an object of hosts, each of them an object of
// namespaces, each of them with shards.
func decode(from io.Reader, services []Service) (map[Service]Weights, error) {
	hosts := map[string]bool{}
	wanted := make(map[Service]bool, len(services))
	for _, s := range services {
		hosts[s.Host], wanted[s] = true, true
	}
	out := map[Service]Weights{}
	d := json.NewDecoder(from)
	err := members(d, func(host string) error {
		if !hosts[host] {
			return d.Decode(&skipped{})
		}
		return members(d, func(namespace string) error {
			service := Service{Namespace: namespace, Host: host}
			if !wanted[service] {
				return d.Decode(&skipped{})
			}
			var s shards
			if err := d.Decode(&s); err != nil {
				return err
			}
			out[service] = s.weights()
			return nil
		})
	})
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("decoding the answer, which should be JSON with the endpoints by host and namespace: %w", err)
	}
	return out, nil
}

// members calls member with the name of each member of the object that comes next;
// member reads the value.
func members(d *json.Decoder, member func(name string) error) error {
	if err := expect(d, '{'); err != nil {
		return err
	}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		if err := member(token.(string)); err != nil { // what names a member is a string
			return err
		}
	}
	return expect(d, '}')
}

func expect(d *json.Decoder, want json.Delim) error {
	token, err := d.Token()
	if err == nil && token != want {
		return fmt.Errorf("%v at byte %d; want %v", token, d.InputOffset(), want)
	}
	return err
}

// weights are those of the ServiceEntries, in istiod's reading: a missing weight is 1,
// and of two endpoints with one address Envoy keeps the first.
func (s shards) weights() Weights {
	out := Weights{}
	for key, endpoints := range s.Shards {
		if !strings.HasPrefix(key, external) {
			continue
		}
		for _, e := range endpoints {
			if len(e.Addresses) == 0 {
				continue
			}
			port := out[e.ServicePortName]
			if port == nil {
				port = map[string]uint32{}
				out[e.ServicePortName] = port
			}
			if _, known := port[e.Addresses[0]]; !known {
				port[e.Addresses[0]] = max(e.LbWeight, 1)
			}
		}
	}
	return out
}
