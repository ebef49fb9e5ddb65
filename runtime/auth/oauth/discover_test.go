package oauth_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/auth/internal/mockas"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
)

// gets returns the paths of recorded GET requests to a host.
func gets(n *mockas.Network, host string) []string {
	var paths []string
	for _, r := range n.Requests("GET https://" + host + "/") {
		paths = append(paths, strings.TrimPrefix(r.URL, "https://"+host))
	}
	return paths
}

// Proves AUTH-05 and M-AUTH-05.
func TestResourceMetadataIsLookedUpInOrder(t *testing.T) {
	const (
		path   = "/.well-known/oauth-protected-resource/mcp"
		root   = "/.well-known/oauth-protected-resource"
		custom = "/custom/metadata"
	)
	for _, test := range []struct {
		name, advertised, at string
		want                 []string
	}{
		{"advertised", custom, custom, []string{custom}},
		{"path", "", path, []string{path}},
		{"root", "", root, []string{path, root}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, func(w *world, _ *oauth.Options) {
				w.resource.Documents = map[string]map[string]any{test.at: w.resource.Document()}
				if test.advertised != "" {
					w.resource.Challenge = `resource_metadata="https://mcp.example` + test.advertised + `"`
				}
			})
			w.mustCall()
			if got := gets(w.network, "mcp.example"); !slices.Equal(got, test.want) {
				t.Errorf("GET %q, want %q", got, test.want)
			}
		})
	}
	t.Run("only where it is advertised", func(t *testing.T) {
		w := newWorld(t, func(w *world, _ *oauth.Options) {
			w.resource.Challenge = `resource_metadata="https://mcp.example` + custom + `"`
		})
		if _, err := w.call(); err == nil || !strings.Contains(err.Error(), custom+": status 401") {
			t.Errorf("call: %v", err)
		}
		if got := gets(w.network, "mcp.example"); !slices.Equal(got, []string{custom}) {
			t.Errorf("GET %q", got)
		}
	})
}

// Proves AUTH-09, AUTH-10 and M-AUTH-05.
func TestServerMetadataIsLookedUpInOrder(t *testing.T) {
	for issuer, order := range map[string][]string{
		"https://as.example":         {"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"},
		"https://as.example/":        {"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"},
		"https://as.example/tenant1": {"/.well-known/oauth-authorization-server/tenant1", "/.well-known/openid-configuration/tenant1", "/tenant1/.well-known/openid-configuration"},
	} {
		for i, at := range order {
			t.Run(issuer+at, func(t *testing.T) {
				w := newWorld(t, func(w *world, _ *oauth.Options) {
					w.as = mockas.NewServer(issuer)
					w.as.Documents = map[string]map[string]any{at: w.as.Document()}
					w.resource.Servers = []*mockas.Server{w.as}
					w.resource.Documents["/.well-known/oauth-protected-resource/mcp"] = w.resource.Document()
					w.network.Handle("as.example", w.as)
				})
				w.mustCall()
				if got := gets(w.network, "as.example"); !slices.Equal(got[:len(got)-1], order[:i+1]) {
					t.Errorf("GET %q, want %q", got, order[:i+1])
				}
			})
		}
	}
}

// Proves M-AUTH-05.
func TestServerMetadataOfAnotherIssuerIsDiscarded(t *testing.T) {
	for _, claimed := range []string{"https://honest.example", "https://as.example/", "HTTPS://as.example", ""} {
		w := newWorld(t, func(w *world, _ *oauth.Options) {
			w.document()["issuer"] = claimed
			w.as.Documents["/.well-known/openid-configuration"] = w.as.Document()
		})
		_, err := w.call()
		if !errors.Is(err, oauth.ErrIssuer) || !strings.Contains(err.Error(), `"https://as.example"`) {
			t.Errorf("%q: %v", claimed, err)
		}
		if got := gets(w.network, "as.example"); len(got) != 1 {
			t.Errorf("%q: GET %q", claimed, got)
		}
	}
}

// Proves AUTH-17.
func TestResourceIsThePublishedOne(t *testing.T) {
	const root = "/.well-known/oauth-protected-resource"
	for _, test := range []struct {
		name, server, published, at string
		want                        string // resource; "" if it is refused
	}{
		{"canonical", "HTTPS://MCP.example:443/mcp", "https://mcp.example/mcp", root + "/mcp", "https://mcp.example/mcp"},
		{"as published", serverURL, "https://MCP.example/mcp", root + "/mcp", "https://MCP.example/mcp"},
		{"slash", serverURL, "https://mcp.example/mcp/", root + "/mcp", "https://mcp.example/mcp/"},
		{"origin", serverURL, "https://mcp.example", root, "https://mcp.example"},
		{"prefix", "https://mcp.example/a/mcp", "https://mcp.example/a", root, "https://mcp.example/a"},
		{"not a segment", serverURL, "https://mcp.example/mc", root, ""},
		{"longer", serverURL, "https://mcp.example/mcp/more", root + "/mcp", ""},
		{"another path", serverURL, "https://mcp.example/other", root + "/mcp", ""},
		{"another host", serverURL, "https://evil.example/mcp", root + "/mcp", ""},
		{"another scheme", serverURL, "http://mcp.example/mcp", root + "/mcp", ""},
		{"origin by a document elsewhere", serverURL, "https://mcp.example", "/mcp/metadata", ""},
		{"origin by a document elsewhere, as some servers resolve it", serverURL, "https://mcp.example", root + "/../../mcp/metadata", ""},
		{"origin by a document of another origin", serverURL, "https://mcp.example", "https://evil.example" + root, ""},
		{"origin by a name like the well-known one", serverURL, "https://mcp.example", root + "s", ""},
		{"no URL", serverURL, "mcp", root + "/mcp", ""},
		{"none", serverURL, "", root + "/mcp", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, func(w *world, _ *oauth.Options) {
				document := w.resource.Document()
				document["resource"] = test.published
				at := test.at
				if !strings.HasPrefix(at, "https:") {
					at = "https://mcp.example" + at
				}
				w.resource.Documents = map[string]map[string]any{strings.TrimPrefix(test.at, "https://evil.example"): document}
				w.resource.Challenge = `resource_metadata="` + at + `"`
				w.network.Handle("evil.example", w.resource)
				w.network.Handle("MCP.example:443", w.resource) // as the caller writes it
			})
			_, err := send(t.Context(), w.network, w.a, test.server, tool)
			authorized := w.network.Requests("GET https://as.example/authorize")
			if test.want == "" {
				if err == nil || !strings.Contains(err.Error(), "the metadata is for resource") || len(authorized) != 0 {
					t.Errorf("%v, %d authorization requests", err, len(authorized))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			token := w.network.Requests("POST https://as.example/token")
			if got := authorized[0].Form.Get("resource"); got != test.want || token[0].Form.Get("resource") != test.want {
				t.Errorf("resource %q, want %q", got, test.want)
			}
		})
	}
}

func TestServerWithoutMetadataNeedsAnIssuer(t *testing.T) {
	without := func(w *world, _ *oauth.Options) { clear(w.resource.Documents) }
	w := newWorld(t, without)
	_, err := w.call()
	if err == nil || !strings.Contains(err.Error(), "/.well-known/oauth-protected-resource/mcp: status 404") || !strings.Contains(err.Error(), "Options.Issuer") {
		t.Errorf("call: %v", err)
	}
	w = newWorld(t, func(w *world, c *oauth.Options) {
		without(w, c)
		c.Issuer = issuer
	})
	w.mustCall()
	if got := w.network.Requests("POST https://as.example/token")[0].Form.Get("resource"); got != serverURL {
		t.Errorf("resource %q", got)
	}
}

func TestIssuerIsChosen(t *testing.T) {
	configure := func(choose func(list []string) (string, error)) func(*world, *oauth.Options) {
		return func(w *world, c *oauth.Options) {
			other := mockas.NewServer("https://other.example")
			w.network.Handle("other.example", other)
			w.resource.Servers = []*mockas.Server{other, w.as}
			w.resource.Documents["/.well-known/oauth-protected-resource/mcp"] = w.resource.Document()
			if choose != nil {
				c.ChooseIssuer = func(_ context.Context, list []string) (string, error) { return choose(list) }
			}
		}
	}
	w := newWorld(t, configure(nil))
	w.mustCall()
	if n := len(w.network.Requests("POST https://other.example/token")); n != 1 {
		t.Errorf("%d token requests to the first issuer", n)
	}
	w.resource.Change(func() { // the current issuer stays in use, even if it is no longer the first
		slices.Reverse(w.resource.Servers)
		w.resource.Documents["/.well-known/oauth-protected-resource/mcp"] = w.resource.Document()
	})
	if err := w.a.Login(t.Context(), serverURL); err != nil {
		t.Fatal(err)
	}
	if n := len(w.network.Requests("POST https://other.example/token")); n != 2 {
		t.Errorf("%d token requests to the issuer in use", n)
	}
	w = newWorld(t, configure(func(list []string) (string, error) { return list[1], nil }))
	w.mustCall()
	if n := len(w.network.Requests("POST https://as.example/token")); n != 1 {
		t.Errorf("%d token requests to the chosen issuer", n)
	}
	w = newWorld(t, configure(func([]string) (string, error) { return "https://evil.example", nil }))
	if _, err := w.call(); !errors.Is(err, oauth.ErrIssuer) {
		t.Errorf("issuer that is not in the list: %v", err)
	}
}

// Proves AUTH-28.
func TestEndpointsWithoutTLSAreRefused(t *testing.T) {
	for _, member := range []string{"authorization_endpoint", "token_endpoint", "registration_endpoint"} {
		for _, endpoint := range []string{"http://as.example/x", "http://127.0.0.1/x", "https://127.0.0.1/x", "javascript:alert(1)", "https://user@as.example/x"} {
			w := newWorld(t, func(w *world, _ *oauth.Options) { w.document()[member] = endpoint })
			_, err := w.call()
			if err == nil || !strings.Contains(err.Error(), "not allowed") {
				t.Errorf("%s %s: %v", member, endpoint, err)
			}
			if n := len(w.network.Requests("GET https://as.example/authorize")); n != 0 {
				t.Errorf("%s %s: %d authorization requests", member, endpoint, n)
			}
		}
	}
	t.Run("issuer", func(t *testing.T) {
		w := newWorld(t, func(w *world, _ *oauth.Options) {
			w.resource.Documents["/.well-known/oauth-protected-resource/mcp"]["authorization_servers"] = []string{"http://as.example"}
		})
		if _, err := w.call(); err == nil || len(gets(w.network, "as.example")) != 0 {
			t.Errorf("call: %v", err)
		}
	})
	t.Run("loopback", func(t *testing.T) { // allowed because the server is at a loopback address
		network := &mockas.Network{}
		as := mockas.NewServer("http://localhost:2")
		network.Handle("localhost:2", as)
		network.Handle("127.0.0.1:1", mockas.NewResource("http://127.0.0.1:1/mcp", as))
		a, err := oauth.New(oauth.Options{User: &mockas.Browser{Network: network}, HTTP: network.Client()})
		if err != nil {
			t.Fatal(err)
		}
		if status, err := send(t.Context(), network, a, "http://127.0.0.1:1/mcp", tool); status != http.StatusOK || err != nil {
			t.Errorf("%d, %v", status, err)
		}
	})
}
