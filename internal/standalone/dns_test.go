package standalone

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"taper.dev/taper/internal/model"
)

// offline answers from /etc/hosts and asks nobody.
var offline = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("no name server")
}}

func TestDNSListsAddressesInOrder(t *testing.T) {
	list, err := DNS{Name: "localhost:8080", Resolver: offline}.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(list, model.Endpoint{Address: "127.0.0.1:8080"}) {
		t.Errorf("localhost is %v", list)
	}
	if again, err := (DNS{Name: "localhost:8080", Resolver: offline}).List(t.Context()); err != nil || !slices.Equal(list, again) {
		t.Errorf("then %v, %v", again, err)
	}
}

func TestDNSErrorsNameTheHost(t *testing.T) {
	for name, want := range map[string]string{"shop.example:8080": "shop.example", "shop": "missing port", "shop:http": "port of shop:http"} {
		if _, err := (DNS{Name: name, Resolver: offline}).List(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}
