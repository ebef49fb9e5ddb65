package network_test

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/internal/network"
)

func TestOf(t *testing.T) {
	for address, want := range map[string]string{
		"203.0.113.7:1234":            "\x00network 203.0.113.0/24",
		"[::ffff:203.0.113.9]:1234":   "\x00network 203.0.113.0/24",
		"[2001:db8:1:2:3:4:5:6]:1234": "\x00network 2001:db8:1:2::/64",
		"127.0.0.1:1234":              "",
		"[::1]:1234":                  "",
		"10.1.2.3:1234":               "",
		"[fe80::1%eth0]:1234":         "",
		"[fd00::1]:1234":              "",
		"@":                           "",
		"":                            "",
	} {
		if got := network.Of(&http.Request{RemoteAddr: address}, nil); got != want {
			t.Errorf("%s: got %q, want %q", address, got, want)
		}
	}
	if got := network.Of(&http.Request{}, func(*http.Request) netip.Addr { return netip.MustParseAddr("10.1.2.3") }); got != "\x00network 10.1.2.0/24" {
		t.Errorf("a private client behind a proxy: %q", got)
	}
	if got := network.Of(&http.Request{RemoteAddr: "203.0.113.7:1"}, func(*http.Request) netip.Addr { return netip.Addr{} }); got != "" {
		t.Errorf("an unknown client: %q", got)
	}
}

// A client cannot choose its network with a header field of its own.
func TestForwarded(t *testing.T) {
	address := network.Forwarded(netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("::ffff:192.0.2.0/120"), netip.MustParsePrefix("fe80::/10"))
	for _, test := range []struct {
		remote string
		header []string
		want   string
	}{
		{"203.0.113.7:1", []string{"198.51.100.1"}, "203.0.113.7"},
		{"10.0.0.1:1", nil, "10.0.0.1"},
		{"10.0.0.1:1", []string{"203.0.113.7"}, "203.0.113.7"},
		{"10.0.0.1:1", []string{"198.51.100.1, 203.0.113.7, 10.0.0.2"}, "203.0.113.7"},
		{"10.0.0.1:1", []string{"198.51.100.1", "203.0.113.7,10.0.0.2"}, "203.0.113.7"},
		{"[2001:db8::1]:1", []string{"[2606:4700::1]:443"}, "2606:4700::1"},
		{"[fe80::1%eth0]:1", []string{"203.0.113.7"}, "203.0.113.7"},
		{"10.0.0.1:1", []string{"203.0.113.7:80"}, "203.0.113.7"},
		{"10.0.0.1:1", []string{"198.51.100.1, nonsense, 10.0.0.2"}, "10.0.0.2"},
		{"10.0.0.1:1", []string{"10.0.0.3"}, "10.0.0.3"},
		{"10.0.0.1:1", []string{","}, "10.0.0.1"},
		{"192.0.2.1:1", []string{"203.0.113.7"}, "203.0.113.7"},
		{"[::ffff:192.0.2.1]:1", []string{"203.0.113.7"}, "203.0.113.7"},
		{"192.0.3.1:1", []string{"203.0.113.7"}, "192.0.3.1"},
	} {
		r := &http.Request{RemoteAddr: test.remote, Header: http.Header{"X-Forwarded-For": test.header}}
		if got := address(r).String(); got != test.want {
			t.Errorf("%s, %v: got %s, want %s", test.remote, test.header, got, test.want)
		}
	}
}
