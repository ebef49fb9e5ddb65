package oauth_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/clientauth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/mockas"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
)

const clientIDURL = "https://client.example/client.json"

// Proves AUTH-11, AUTH-12 and AUTH-14.
func TestClientIsTheFirstThatApplies(t *testing.T) {
	all := func(w *world, c *oauth.Options) {
		w.document()["client_id_metadata_document_supported"] = true
		w.as.AddClient("registered", "")
		w.as.AddClient("asked", "")
		c.Clients = []oauth.Client{{Issuer: "https://other.example", ID: "other"}, {Issuer: issuer, ID: "registered"}}
		c.ClientIDURL = clientIDURL
		c.AskClient = func(_ context.Context, issuer string) (*oauth.Client, error) { return &oauth.Client{ID: "asked"}, nil }
	}
	for _, test := range []struct {
		name   string
		change func(*world, *oauth.Options)
		want   string // a prefix
	}{
		{"registered beforehand", func(*world, *oauth.Options) {}, "registered"},
		{"document", func(_ *world, c *oauth.Options) { c.Clients = nil }, clientIDURL},
		{"no support for documents", func(w *world, c *oauth.Options) {
			c.Clients = nil
			delete(w.document(), "client_id_metadata_document_supported")
		}, "client-"},
		{"no document", func(_ *world, c *oauth.Options) { c.Clients, c.ClientIDURL = nil, "" }, "client-"},
		{"no dynamic registration", func(w *world, c *oauth.Options) {
			c.Clients, c.ClientIDURL = nil, ""
			delete(w.document(), "registration_endpoint")
		}, "asked"},
		{"dynamic registration off", func(_ *world, c *oauth.Options) { c.Clients, c.ClientIDURL, c.NoRegistration = nil, "", true }, "asked"},
		{"any issuer", func(_ *world, c *oauth.Options) { c.Clients = []oauth.Client{{Issuer: "*", ID: "registered"}} }, "registered"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, func(w *world, c *oauth.Options) { all(w, c); test.change(w, c) })
			w.mustCall()
			got := w.network.Requests("GET https://as.example/authorize")[0].Form.Get("client_id")
			registered := len(w.network.Requests("POST https://as.example/register"))
			if !strings.HasPrefix(got, test.want) || (registered == 1) != (test.want == "client-") {
				t.Errorf("client %q, %d registrations", got, registered)
			}
		})
	}
	w := newWorld(t, func(w *world, c *oauth.Options) {
		c.Clients = []oauth.Client{{Issuer: "https://other.example", ID: "other"}}
		c.NoRegistration = true
	})
	if _, err := w.call(); !errors.Is(err, oauth.ErrNoClient) || !strings.Contains(err.Error(), "https://other.example") || !strings.Contains(err.Error(), issuer) {
		t.Errorf("no client: %v", err)
	}
}

// Proves M-AUTH-09.
func TestRegistrationGivesTheApplicationType(t *testing.T) {
	for callback, want := range map[string]string{"http://127.0.0.1:7/callback": "native", "http://localhost:7/": "native", "https://app.example/callback": "web"} {
		w := newWorld(t, func(w *world, _ *oauth.Options) { w.browser.Callback = callback })
		w.mustCall()
		var sent map[string]any
		if err := json.Unmarshal([]byte(w.network.Requests("POST https://as.example/register")[0].Body), &sent); err != nil {
			t.Fatal(err)
		}
		if sent["application_type"] != want || !slices.Equal(sent["redirect_uris"].([]any), []any{callback}) || !slices.Contains(sent["grant_types"].([]any), "refresh_token") {
			t.Errorf("%s: registered %v", callback, sent)
		}
	}
}

func TestRegistrationIsStored(t *testing.T) {
	store := oauth.NewMemory()
	use := func(w *world, c *oauth.Options) { c.Store = store }
	w := newWorld(t, use)
	w.mustCall()
	as, registrations := w.as, func(w *world) int { return len(w.network.Requests("POST https://as.example/register")) }

	// Another Authorizer with the store uses the registration.
	if err := w.a.Logout(t.Context(), serverURL); err != nil {
		t.Fatal(err)
	}
	again := func(change func(*world, *oauth.Options)) *world {
		return newWorld(t, func(w *world, c *oauth.Options) {
			use(w, c)
			w.as = as
			w.resource.Servers = []*mockas.Server{as}
			w.network.Handle("as.example", as)
			if change != nil {
				change(w, c)
			}
		})
	}
	w = again(nil)
	w.mustCall()
	if n := registrations(w); n != 0 || !slices.Equal(w.browser.Known()[0], []string{"http://127.0.0.1:1/callback"}) {
		t.Errorf("%d registrations, known redirect URIs %q", n, w.browser.Known())
	}

	// A user agent that cannot use the redirect URI again needs a new registration.
	if err := w.a.Logout(t.Context(), serverURL); err != nil {
		t.Fatal(err)
	}
	w = again(func(w *world, _ *oauth.Options) { w.browser.Callback = "http://127.0.0.1:2/callback" })
	w.mustCall()
	if n := registrations(w); n != 1 {
		t.Errorf("%d registrations for another redirect URI", n)
	}
}

func TestRemovedRegistrationIsRenewedOnce(t *testing.T) {
	w := newWorld(t, nil)
	w.mustCall()
	as := w.as
	forget := false
	as.Override("/authorize", func(rw http.ResponseWriter, r *http.Request) {
		as.Serve(rw, r, "/authorize")
		if forget {
			as.RemoveClients()
		}
	})
	forget = true
	err := w.a.Login(t.Context(), serverURL)
	var failed *oauth.Error
	if !errors.As(err, &failed) || failed.Code != "invalid_client" {
		t.Errorf("login: %v", err)
	}
	if n := len(w.network.Requests("POST https://as.example/register")); n != 2 {
		t.Errorf("%d registrations, want 2", n)
	}
	forget = false
	if err := w.a.Login(t.Context(), serverURL); err != nil {
		t.Errorf("login after that: %v", err)
	}
}

// Proves AUTH-32.
func TestClientAuthenticatesAsTheServerOffers(t *testing.T) {
	const basic, post, none = "client_secret_basic", "client_secret_post", "none"
	for _, test := range []struct {
		name    string
		offered any
		client  *oauth.Client // nil: dynamic registration
		silent  bool
		want    string // "" means ErrNoClient
	}{
		{"registration: basic", []string{basic}, nil, false, basic},
		{"registration: post", []string{post}, nil, false, post},
		{"registration: none", []string{none}, nil, false, none},
		{"registration: basic, silent", []string{basic}, nil, true, basic},
		{"registration: post, silent", []string{post}, nil, true, post},
		{"registration: none, silent", []string{none}, nil, true, none},
		{"registration: default", nil, nil, true, basic},
		{"registration: all", []string{post, basic, none}, nil, false, none},
		{"secret: basic", []string{post, basic}, &oauth.Client{}, false, basic},
		{"secret: post", []string{none, post}, &oauth.Client{}, false, post},
		{"secret: default", nil, &oauth.Client{}, false, basic},
		{"secret: neither", []string{"private_key_jwt"}, &oauth.Client{}, false, ""},
		{"secret: registered method", []string{basic, post}, &oauth.Client{Method: post}, false, post},
		{"own authentication", []string{basic, post}, &oauth.Client{Auth: clientauth.New(post, auth.NewSecret("s&c ret"))}, false, post},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, func(w *world, c *oauth.Options) {
				w.document()["token_endpoint_auth_methods_supported"] = test.offered
				w.as.Methods = []string{test.want}
				w.as.Silent = test.silent
				if test.client != nil {
					client := *test.client
					client.Issuer, client.ID, client.Secret = issuer, "a:b", auth.NewSecret("s&c ret")
					c.Clients = []oauth.Client{client}
					w.as.AddClient("a:b", "s&c ret")
				}
			})
			_, err := w.call()
			if test.want == "" {
				if !errors.Is(err, oauth.ErrNoClient) || len(w.network.Requests("POST https://as.example/token")) != 0 {
					t.Errorf("%v; requests: %q", err, w.network.Lines())
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			r := w.network.Requests("POST https://as.example/token")[0]
			got := none
			if r.Form.Has("client_secret") {
				got = post
			}
			if r.Header.Get("Authorization") != "" {
				got += basic
			}
			if strings.TrimPrefix(got, none) != strings.TrimPrefix(test.want, none) {
				t.Errorf("authenticated by %q", got)
			}
		})
	}
}

// Proves AUTH-13.
func TestClientIDDocument(t *testing.T) {
	redirects := []string{"http://127.0.0.1/callback"}
	for _, raw := range []string{"http://client.example/c.json", "https://client.example", "https://client.example/", "https://client.example/c#x",
		"https://u@client.example/c", "https://client.example/../c", "client.example/c", ""} {
		if _, err := oauth.ClientIDDocument(raw, "Name", redirects, oauth.ClientMetadata{}); err == nil {
			t.Errorf("document for %q", raw)
		}
		if _, err := oauth.New(oauth.Options{ClientIDURL: raw}); (err == nil) != (raw == "") {
			t.Errorf("New with %q: %v", raw, err)
		}
	}
	for _, redirects := range [][]string{nil, {"http://example.com/cb"}, {"app:/cb"}, {"https://example.com/#x"}} {
		if _, err := oauth.ClientIDDocument(clientIDURL, "Name", redirects, oauth.ClientMetadata{}); err == nil {
			t.Errorf("document with redirect URIs %q", redirects)
		}
	}
	if _, err := oauth.ClientIDDocument(clientIDURL, "", redirects, oauth.ClientMetadata{}); err == nil {
		t.Error("document without a name")
	}
	server, err := oauth.ClientIDDocument(clientIDURL, "Name", redirects, oauth.ClientMetadata{ClientURI: "https://client.example"})
	if err != nil {
		t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	server.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, clientIDURL, nil))
	want := `{"client_id":"https://client.example/client.json","client_name":"Name","client_uri":"https://client.example","application_type":"native",` +
		`"redirect_uris":["http://127.0.0.1/callback"],"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"none"}`
	if rec.Body.String() != want || rec.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%v: %s", rec.Header(), rec.Body)
	}
	rec = httptest.NewRecorder()
	server.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, clientIDURL, nil))
	if rec.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: status %d", rec.Code)
	}
}

// Proves AUTH-28.
func TestRedirectURIsAreLoopbackOrTLS(t *testing.T) {
	for _, uri := range []string{"http://example.com/cb", "app:/cb", "https:///cb", "http://127.0.0.1/#x", "http://localhost.example/cb"} {
		if _, err := oauth.New(oauth.Options{Registration: oauth.ClientMetadata{RedirectURIs: []string{uri}}}); err == nil {
			t.Errorf("New with %q succeeds", uri)
		}
		w := newWorld(t, func(w *world, _ *oauth.Options) { w.browser.Callback = uri })
		if _, err := w.call(); err == nil || len(w.network.Requests("POST https://as.example/", "GET https://as.example/authorize")) != 0 {
			t.Errorf("%s: %v; requests: %q", uri, err, w.network.Lines())
		}
	}
}

// Proves M-AUTH-09.
func TestCredentialsBelongToOneIssuer(t *testing.T) {
	migrate := func(w *world) *mockas.Server {
		second := mockas.NewServer("https://second.example")
		second.Lifetime = 3600
		w.network.Handle("second.example", second)
		w.resource.Change(func() {
			w.resource.Servers = []*mockas.Server{second}
			w.resource.Documents["/.well-known/oauth-protected-resource/mcp"] = w.resource.Document()
		})
		w.network.Clear()
		return second
	}
	t.Run("dynamic registration", func(t *testing.T) {
		store := oauth.NewMemory()
		w := newWorld(t, func(_ *world, c *oauth.Options) { c.Store = store })
		w.mustCall()
		first := w.network.Requests("POST https://as.example/token")[0].Form
		migrate(w)
		w.mustCall()
		if _, err := store.Get(t.Context(), oauth.Key{Kind: "token", Issuer: issuer, Resource: serverURL}); !errors.Is(err, oauth.ErrNotFound) {
			t.Errorf("the token of the first issuer is stored: %v", err)
		}
		if n := len(w.network.Requests("POST https://second.example/register")); n != 1 {
			t.Errorf("%d registrations at the second issuer", n)
		}
		for _, r := range w.network.Requests() {
			if strings.Contains(r.URL, "as.example") {
				t.Errorf("%s %s", r.Method, r.URL)
			}
			if !strings.Contains(r.URL, "second.example") {
				continue
			}
			for name, values := range r.Form {
				if name == "refresh_token" || name == "client_id" && values[0] == first.Get("client_id") {
					t.Errorf("%s %s has %s", r.Method, r.URL, name)
				}
			}
			if r.Header.Get("Authorization") != "" {
				t.Errorf("%s %s has credentials", r.Method, r.URL)
			}
		}
	})
	for _, bound := range []string{issuer, "*"} {
		t.Run("registered at "+bound, func(t *testing.T) {
			w := newWorld(t, func(w *world, c *oauth.Options) {
				w.as.AddClient("mine", "secret")
				w.as.Methods = []string{"client_secret_basic"}
				delete(w.document(), "token_endpoint_auth_methods_supported")
				c.Clients = []oauth.Client{{Issuer: bound, ID: "mine", Secret: auth.NewSecret("secret")}}
			})
			w.mustCall()
			migrate(w)
			_, err := w.call()
			if !errors.Is(err, oauth.ErrNoClient) || !strings.Contains(err.Error(), issuer) || !strings.Contains(err.Error(), "https://second.example") {
				t.Errorf("call: %v", err)
			}
			if n := len(w.network.Requests("GET https://second.example/authorize", "POST https://second.example/", "POST https://as.example/")); n != 0 {
				t.Errorf("requests: %q", w.network.Lines())
			}
		})
	}
}

func TestExpiredRegistrationIsReplaced(t *testing.T) {
	w := newWorld(t, func(w *world, _ *oauth.Options) {
		w.as.Override("/register", func(rw http.ResponseWriter, r *http.Request) {
			w.as.AddClient("short", "")
			mockas.JSON(rw, http.StatusCreated, map[string]any{"client_id": "short", "client_secret": "x", "client_secret_expires_at": time.Now().Add(time.Second).Unix(), "token_endpoint_auth_method": "none"})
		})
	})
	w.mustCall()
	if err := w.a.Login(t.Context(), serverURL); err != nil {
		t.Fatal(err)
	}
	if n := len(w.network.Requests("POST https://as.example/register")); n != 2 {
		t.Errorf("%d registrations", n)
	}
}

func TestAskedClientIsChecked(t *testing.T) {
	fault := errors.New("not now")
	for name, test := range map[string]struct {
		client *oauth.Client
		err    error
		want   error
	}{
		"none":           {nil, nil, oauth.ErrNoClient},
		"without id":     {&oauth.Client{}, nil, oauth.ErrNoClient},
		"another issuer": {&oauth.Client{Issuer: "https://other.example", ID: "x"}, nil, oauth.ErrNoClient},
		"fault":          {nil, fault, fault},
	} {
		w := newWorld(t, func(w *world, c *oauth.Options) {
			c.NoRegistration = true
			c.AskClient = func(context.Context, string) (*oauth.Client, error) { return test.client, test.err }
		})
		if _, err := w.call(); !errors.Is(err, test.want) || len(w.authorizations()) != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRedirectURIsOfARegistrationAreNotThoseOfADocument(t *testing.T) {
	again := newWorld(t, func(again *world, c *oauth.Options) {
		c.ClientIDURL = clientIDURL
		again.document()["client_id_metadata_document_supported"] = true
		store := oauth.NewMemory()
		store.Put(t.Context(), oauth.Key{Kind: "client", Issuer: issuer}, []byte(`{"client_id":"x","redirect_uris":["http://127.0.0.1:9/"]}`))
		c.Store = store
	})
	again.mustCall()
	if known := again.browser.Known(); len(known[0]) != 0 {
		t.Errorf("known redirect URIs %q", known)
	}
}
