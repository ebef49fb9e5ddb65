package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func parse(t *testing.T, rawURL string) *url.URL {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestAddressesThatAreNotPublicAreRefused(t *testing.T) {
	dialed := ""
	transport := &http.Transport{DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
		dialed = address
		return nil, errors.New("not reachable")
	}}
	c := New(&http.Client{Transport: transport}, Network{Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}})
	for _, host := range []string{"127.0.0.1", "127.1.2.3:8080", "localhost", "a.localhost", "localhost.", "10.0.0.1", "172.16.0.1", "192.168.1.1",
		"169.254.169.254", "100.64.0.1", "0.0.0.0", "0.1.2.3", "224.0.0.1", "255.255.255.255", "240.0.0.1", "198.18.0.1", "[::1]", "[::]", "[fe80::1]",
		"[fe80::1%25eth0]", "[fc00::1]", "[fd00:ec2::254]", "[ff02::1]", "[::ffff:127.0.0.1]", "[::ffff:10.0.0.1]", "[::10.0.0.1]", "[::ffff:0:a00:1]", "[64:ff9b::a00:1]",
		"[64:ff9b:1::1]", "[2002:a00:1::]", "[2001::1]", "[fec0::1]"} {
		err := c.GetJSON(t.Context(), "https://"+host+"/", new(any))
		if !errors.Is(err, ErrRefused) || dialed != "" {
			t.Errorf("%s: %v, dialed %q", host, err, dialed)
		}
	}
	for _, host := range []string{"10.1.2.3", "93.184.216.34", "[2606:2800::1]", "[64:ff9b::5db8:d822]", "[::ffff:93.184.216.34]"} {
		dialed = ""
		if err := c.GetJSON(t.Context(), "https://"+host+"/", new(any)); errors.Is(err, ErrRefused) || dialed == "" {
			t.Errorf("%s: %v, dialed %q", host, err, dialed)
		}
	}
	for _, endpoint := range []string{"http://example.com/", "ftp://example.com/", "https:///", "https:example.com", "https://u:p@example.com/", "https://example.com/#a", "://",
		"http://localhost/", "https://printer.local/", "https://metadata.google.internal/", "https://2130706433/", "https://0x7f.1/", "https://127.1/", "javascript:alert(1)"} {
		if err := c.CheckEndpoint(endpoint); !errors.Is(err, ErrRefused) {
			t.Errorf("endpoint %s: %v", endpoint, err)
		}
	}
}

func TestHostsNamedByTheCallerAreReached(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		fmt.Fprint(w, `{"a":"b"}`)
	}))
	defer server.Close()
	u := parse(t, server.URL)
	c := New(server.Client(), Network{})
	get := func(c *Client, rawURL string) error {
		var v struct{ A string }
		err := c.GetJSON(t.Context(), rawURL, &v)
		if err == nil && v.A != "b" {
			err = errors.New("wrong content")
		}
		return err
	}
	for range 2 { // a connection of one policy must not be reused for another
		if err := get(c, server.URL); !errors.Is(err, ErrRefused) {
			t.Errorf("without a name: %v", err)
		}
		if err := get(c.For(u), server.URL); err != nil {
			t.Errorf("named: %v", err)
		}
	}
	if err := get(c.For(parse(t, "http://localhost:1/mcp")), server.URL); err != nil {
		t.Errorf("another loopback host is named: %v", err)
	}
	if err := get(New(server.Client(), Network{AllowPrivate: true}), server.URL); err != nil {
		t.Errorf("private addresses allowed: %v", err)
	}
	if err := get(c.For(parse(t, "https://example.com")), server.URL); !errors.Is(err, ErrRefused) {
		t.Errorf("another public host is named: %v", err)
	}
}

func TestPlainHTTPIsForLoopbackAndNamedOrigins(t *testing.T) {
	c := New(nil, Network{}).For(parse(t, "http://mcp.internal:8080/mcp"))
	for rawURL, want := range map[string]bool{
		"http://mcp.internal:8080/a":  true,
		"http://mcp.internal/a":       false,
		"http://mcp.internal:8081/a":  false,
		"https://mcp.internal:8081/a": true,
		"http://localhost:8080/a":     false,
	} {
		if err := c.CheckURL(parse(t, rawURL)); (err == nil) != want {
			t.Errorf("%s: %v", rawURL, err)
		}
	}
	if err := c.CheckEndpoint("http://mcp.internal:8080/token"); !errors.Is(err, ErrRefused) {
		t.Errorf("endpoint without TLS: %v", err)
	}
	if err := c.For(parse(t, "http://127.0.0.1:1/")).CheckEndpoint("http://localhost:2/token"); err != nil {
		t.Errorf("loopback endpoint: %v", err)
	}
}

func TestNamesAreCheckedBeforeAProxyGetsThem(t *testing.T) {
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Host)
		http.Error(w, "", http.StatusBadGateway)
	}))
	defer proxy.Close()
	c := New(&http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(parse(t, proxy.URL))}}, Network{})
	for _, host := range []string{"10.0.0.1", "localhost", "printer.local", "127.1"} {
		if err := c.GetJSON(t.Context(), "https://"+host+"/", new(any)); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", host, err)
		}
	}
	if err := c.GetJSON(t.Context(), "https://as.example/", new(any)); err == nil || errors.Is(err, ErrRefused) {
		t.Errorf("public name: %v", err)
	}
	if len(asked) != 1 || asked[0] != "as.example:443" {
		t.Errorf("the proxy was asked for %q", asked)
	}
}

// answers returns a client whose requests handler serves.
func answers(handler http.HandlerFunc) *Client {
	return New(&http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		handler(w, req)
		return w.Result(), nil
	})}, Network{})
}

func TestGetJSONReadsOnlyJSONObjects(t *testing.T) {
	for _, test := range []struct {
		name, kind, body string
		status           int
		want             error
	}{
		{"object", "application/json", ` {"a":1}`, 200, nil},
		{"kind of JSON", "application/oauth+json", `{}`, 200, nil},
		{"nested", "application/json", strings.Repeat(`{"a":`, 32) + "1" + strings.Repeat("}", 32), 200, nil},
		{"nested too deep", "application/json", strings.Repeat(`{"a":`, 33) + "1" + strings.Repeat("}", 33), 200, ErrNotJSON},
		{"page", "text/html", `{}`, 200, ErrNotJSON},
		{"no type", "", `{}`, 200, ErrNotJSON},
		{"list", "application/json", `[]`, 200, ErrNotJSON},
		{"empty", "application/json", ``, 200, ErrNotJSON},
		{"two objects", "application/json", `{} {}`, 200, ErrNotJSON},
		{"too large", "application/json", `{"a":"` + strings.Repeat("x", MaxMetadata) + `"}`, 200, ErrTooLarge},
		{"status", "application/json", `{}`, 404, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := answers(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", test.kind)
				w.WriteHeader(test.status)
				fmt.Fprint(w, test.body)
			})
			err := c.GetJSON(t.Context(), "https://as.example/a?secret=b", new(map[string]any))
			var failed *Error
			switch {
			case test.status != 200:
				if !errors.As(err, &failed) || failed.Status != test.status || failed.URL != "https://as.example/a" {
					t.Error(err)
				}
			case !errors.Is(err, test.want) || err != nil && strings.Contains(err.Error(), "secret"):
				t.Error(err)
			}
		})
	}
}

func TestRedirects(t *testing.T) {
	var visited []string
	c := answers(func(w http.ResponseWriter, r *http.Request) {
		visited = append(visited, r.URL.Path)
		var hops int
		switch _, err := fmt.Sscanf(r.URL.Path, "/%d", &hops); {
		case err != nil:
			http.Redirect(w, r, "https://10.0.0.1/secret", http.StatusFound)
		case hops == 0:
			w.Header().Set("Content-Type", "application/json")
			json.NewEncoder(w).Encode(map[string]any{})
		default:
			http.Redirect(w, r, fmt.Sprintf("/%d", hops-1), http.StatusTemporaryRedirect)
		}
	})
	if err := c.GetJSON(t.Context(), "https://as.example/3", new(any)); err != nil {
		t.Errorf("3 redirects: %v", err)
	}
	if err := c.GetJSON(t.Context(), "https://as.example/4", new(any)); err == nil {
		t.Error("4 redirects were followed")
	}
	if err := c.GetJSON(t.Context(), "https://as.example/away", new(any)); !errors.Is(err, ErrRefused) {
		t.Errorf("redirect to a private address: %v", err)
	}
	visited = nil
	r, err := c.PostForm(t.Context(), "https://as.example/1", nil, url.Values{"code": {"x"}})
	if err != nil || r.Status != http.StatusTemporaryRedirect || len(visited) != 1 {
		t.Errorf("POST with a redirect: %v, %v, visited %q", r, err, visited)
	}
}

func TestSlowServersTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(&http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		})}, Network{})
		began := time.Now()
		err := c.GetJSON(t.Context(), "https://as.example/", new(any))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != Timeout {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestAddressFamiliesAlternate(t *testing.T) {
	list := func(texts ...string) (addresses []netip.Addr) {
		for _, text := range texts {
			addresses = append(addresses, netip.MustParseAddr(text))
		}
		return addresses
	}
	for _, test := range []struct{ in, want []netip.Addr }{
		{nil, nil},
		{list("2600::1", "2600::2", "2600::3", "8.8.8.8", "8.8.4.4"), list("2600::1", "8.8.8.8", "2600::2", "8.8.4.4", "2600::3")},
		{list("8.8.8.8", "2600::1", "2600::2"), list("8.8.8.8", "2600::1", "2600::2")},
	} {
		if got := alternate(test.in); !slices.Equal(got, test.want) {
			t.Errorf("alternate(%v) = %v, want %v", test.in, got, test.want)
		}
	}
}
