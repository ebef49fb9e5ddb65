package oauth_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/mockas"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
)

// second returns another Authorizer with the store of w, as another process has it.
func (w *world) second(store oauth.Store, configure func(*oauth.Options)) *oauth.Authorizer {
	w.t.Helper()
	c := oauth.Options{User: w.browser, HTTP: w.network.Client(), Store: store}
	if configure != nil {
		configure(&c)
	}
	a, err := oauth.New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// A server moves to another issuer, and another process logs in there. The token of that issuer
// must not reach the old one.
func TestRefreshTokenStaysAtItsIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, other := oauth.NewMemory(), mockas.NewServer("https://new.example")
		w := newWorld(t, func(w *world, c *oauth.Options) {
			c.Store, w.as.Lifetime, other.Lifetime = store, 600, 600
			w.network.Handle("new.example", other)
		})
		w.mustCall()
		w.resource.Change(func() {
			w.resource.Servers = []*mockas.Server{other}
			w.resource.Documents["/.well-known/oauth-protected-resource/mcp"] = w.resource.Document()
		})
		if err := w.second(store, nil).Login(t.Context(), serverURL); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Minute) // both tokens have expired
		w.network.Clear()
		if _, err := w.a.Token(t.Context(), serverURL); err != nil {
			t.Errorf("the first process loses the login: %v", err)
		}
		if got := w.network.Requests("POST https://as.example/"); len(got) != 0 {
			t.Errorf("the old issuer gets %v", got[0].Form)
		}
		if got := w.network.Requests("POST https://new.example/token"); len(got) != 1 || got[0].Form.Get("grant_type") != "refresh_token" {
			t.Errorf("the new issuer gets %v", got)
		}
	})
}

func TestLogoutIsKeptByOtherProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := oauth.NewMemory()
		w := newWorld(t, func(w *world, c *oauth.Options) {
			c.Store, w.as.Lifetime = store, 600
			delete(w.document(), "revocation_endpoint")
		})
		w.mustCall()
		second := w.second(store, func(c *oauth.Options) { c.User = nil })
		if _, err := second.Token(t.Context(), serverURL); err != nil {
			t.Fatal(err)
		}
		if err := w.a.Logout(t.Context(), serverURL); err != nil {
			t.Fatal(err)
		}
		time.Sleep(590 * time.Second) // the token of the second process is stale
		w.network.Clear()
		for range 2 {
			if _, err := second.Token(t.Context(), serverURL); !errors.Is(err, oauth.ErrLoginNeeded) {
				t.Errorf("the second process: %v", err)
			}
		}
		if got := w.tokenRequests("refresh_token"); len(got) != 0 {
			t.Errorf("the second process refreshes a deleted token: %v", got)
		}
		if _, err := w.second(store, nil).Token(t.Context(), serverURL); !errors.Is(err, oauth.ErrLoginNeeded) {
			t.Errorf("a third process is logged in: %v", err)
		}
	})
}

// While one process refreshes, another one logs out.
func TestLogoutWaitsForRefreshOfOtherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := oauth.NewMemory()
		w := newWorld(t, func(w *world, c *oauth.Options) { c.Store, w.as.Lifetime = store, 600 })
		w.mustCall()
		second := w.second(store, func(c *oauth.Options) { c.User = nil })
		if _, err := second.Token(t.Context(), serverURL); err != nil {
			t.Fatal(err)
		}
		time.Sleep(590 * time.Second)
		w.as.Override("/token", func(rw http.ResponseWriter, r *http.Request) {
			time.Sleep(5 * time.Second)
			w.as.Serve(rw, r, "/token")
		})
		refreshed := make(chan error, 1)
		go func() { // ends with the refresh
			_, err := second.Token(t.Context(), serverURL)
			refreshed <- err
		}()
		synctest.Wait()
		if err := w.a.Logout(t.Context(), serverURL); err != nil {
			t.Fatal(err)
		}
		if err := <-refreshed; err != nil {
			t.Errorf("the refresh that began before the logout: %v", err)
		}
		if _, err := w.second(store, nil).Token(t.Context(), serverURL); !errors.Is(err, oauth.ErrLoginNeeded) {
			t.Errorf("a new process is logged in: %v", err)
		}
	})
}

// mixUp makes the metadata of the hostile issuer of w name the authorization endpoint of an honest
// one, at which it relays the registration. If iss is true, the honest one sends iss.
func mixUp(w *world, iss bool) (honest *mockas.Server) {
	honest = mockas.NewServer("https://honest.example")
	w.network.Handle("honest.example", honest)
	w.document()["authorization_endpoint"] = "https://honest.example/authorize"
	w.as.Override("/register", func(rw http.ResponseWriter, r *http.Request) { honest.Serve(rw, r, "/register") })
	w.browser.Answer = func(q url.Values) {
		if !iss {
			q.Del("iss")
		}
	}
	return honest
}

func TestCodeStaysAtItsIssuer(t *testing.T) {
	for _, c := range []struct {
		name          string
		iss, promised bool
	}{
		{"without iss", false, false},
		{"with iss", true, false},
		{"promised, without iss", false, true},
		{"promised, with iss", true, true},
	} {
		w := newWorld(t, func(w *world, _ *oauth.Options) {
			mixUp(w, c.iss)
			w.document()["authorization_response_iss_parameter_supported"] = c.promised
		})
		if _, err := w.call(); !errors.Is(err, oauth.ErrIssuer) {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := w.network.Requests("POST https://as.example/token"); len(got) != 0 {
			t.Errorf("%s: the hostile issuer gets the code: %v", c.name, got[0].Form)
		}
		if asked := len(w.network.Requests("GET https://honest.example/authorize")); asked != 0 && !c.promised {
			t.Errorf("%s: the user is asked %d times", c.name, asked)
		}
	}
}

// An issuer that the caller has named may have endpoints at several origins.
func TestEndpointsOfNamedIssuerMayHaveSeveralOrigins(t *testing.T) {
	for name, configure := range map[string]func(*oauth.Options){
		"client": func(c *oauth.Options) { c.Clients = []oauth.Client{{Issuer: issuer, ID: "registered"}} },
		"issuer": func(c *oauth.Options) { c.Issuer = issuer },
	} {
		w := newWorld(t, func(w *world, c *oauth.Options) {
			w.as.AddClient("registered", "")
			w.network.Handle("pages.example", w.as)
			w.document()["authorization_endpoint"] = "https://pages.example/authorize"
			w.browser.Answer = func(q url.Values) { q.Del("iss") }
			configure(c)
		})
		if status, err := w.call(); status != http.StatusOK || err != nil {
			t.Errorf("%s: status %d, %v", name, status, err)
		}
	}
}

// The metadata of an issuer changes after the login, and names the endpoints of another party.
func TestTokensStayAtTheEndpointThatIssuedThem(t *testing.T) {
	for _, c := range []struct {
		name   string
		member string
		path   string
		act    func(*world) error
	}{
		{"refresh", "token_endpoint", "/token", func(w *world) error { _, err := w.a.Token(w.t.Context(), serverURL); return err }},
		{"revocation", "revocation_endpoint", "/revoke", func(w *world) error { return w.a.Logout(w.t.Context(), serverURL) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, func(w *world, c *oauth.Options) {
					w.as.Lifetime = 3600
					w.network.Handle("evil.example", http.NotFoundHandler())
				})
				w.mustCall()
				w.document()[c.member] = "https://evil.example" + c.path
				time.Sleep(59*time.Minute + 30*time.Second) // the metadata is not cached any more
				if err := c.act(w); err == nil && c.name == "revocation" {
					t.Error("the revocation succeeds")
				}
				if got := w.network.Requests("POST https://evil.example"); len(got) != 0 {
					t.Errorf("the other party gets %v", got[0].Form)
				}
				if c.name == "refresh" {
					w.document()[c.member] = issuer + c.path
					time.Sleep(11 * time.Minute)
					w.mustCall()
				}
			})
		})
	}
}

// The secret of a client that is bound to one issuer does not reach another issuer that has
// registered a client with the same id.
func TestSecretOfBoundClientStaysAtItsIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, evil := oauth.NewMemory(), mockas.NewServer("https://evil.example")
		const otherURL = "https://other.example/mcp"
		w := newWorld(t, func(w *world, c *oauth.Options) {
			c.Store = store
			w.as.AddClient("robot", "hunter2")
			w.as.Methods = []string{"client_secret_post"}
			w.document()["token_endpoint_auth_methods_supported"] = w.as.Methods
			w.network.Handle("evil.example", evil)
			w.network.Handle("other.example", mockas.NewResource(otherURL, evil))
			evil.Lifetime = 600
			evil.AddClient("robot", "")
			evil.Override("/register", func(rw http.ResponseWriter, r *http.Request) {
				mockas.JSON(rw, http.StatusCreated, map[string]any{"client_id": "robot", "token_endpoint_auth_method": "none"})
			})
			evil.Documents["/.well-known/oauth-authorization-server"]["token_endpoint_auth_methods_supported"] = []string{"client_secret_post"}
		})
		if err := w.a.Login(t.Context(), otherURL); err != nil {
			t.Fatal(err)
		}
		second := w.second(store, func(c *oauth.Options) {
			c.Clients = []oauth.Client{{Issuer: "*", ID: "robot", Secret: auth.NewSecret("hunter2")}}
		})
		if err := second.Login(t.Context(), serverURL); err != nil {
			t.Fatal(err)
		}
		time.Sleep(590 * time.Second)
		if _, err := second.Token(t.Context(), otherURL); err != nil {
			t.Errorf("refresh: %v", err)
		}
		for _, r := range w.network.Requests("POST https://evil.example/") {
			if strings.Contains(r.Body, "hunter2") {
				t.Errorf("the other issuer gets %v", r.Form)
			}
		}
	})
}

func TestGrantWithoutUserNeedsConfiguredIssuer(t *testing.T) {
	for name, configure := range map[string]func(*world, *oauth.Options){
		"no configuration": func(*world, *oauth.Options) {},
		"registration":     func(_ *world, c *oauth.Options) { c.Registration.ClientName = "robot" },
		"metadata document": func(w *world, c *oauth.Options) {
			w.document()["client_id_metadata_document_supported"] = true
			c.ClientIDURL = "https://app.example/client.json"
		},
		"client of another": func(_ *world, c *oauth.Options) {
			c.Clients = []oauth.Client{{Issuer: "https://login.example", ID: "robot"}}
		},
		"issuer of another": func(_ *world, c *oauth.Options) { c.Issuer = "https://login.example" },
		"stored registration": func(w *world, c *oauth.Options) {
			c.Store = oauth.NewMemory()
			if err := c.Store.Put(w.t.Context(), oauth.Key{Kind: "client", Issuer: issuer}, []byte(`{"client_id":"robot"}`)); err != nil {
				w.t.Fatal(err)
			}
		},
		"no client": func(_ *world, c *oauth.Options) { c.Grant = clientlessGrant{} },
	} {
		w := newWorld(t, func(w *world, c *oauth.Options) {
			c.User, c.Grant = nil, clientCredentials{}
			configure(w, c)
		})
		if _, err := w.call(); !errors.Is(err, oauth.ErrNoClient) && !errors.Is(err, oauth.ErrIssuer) {
			t.Errorf("%s: %v", name, err)
		}
		if got := w.network.Requests("POST https://as.example"); len(got) != 0 {
			t.Errorf("%s: the issuer gets %s", name, got[0].Body)
		}
	}
	if _, err := oauth.New(oauth.Options{Grant: clientCredentials{}, Clients: []oauth.Client{{Issuer: "*", ID: "robot"}}}); err == nil {
		t.Error("a grant without a user accepts a client of any issuer")
	}
}

// clientlessGrant is a Grant that needs neither a user nor a client.
type clientlessGrant struct{ clientCredentials }

func (clientlessGrant) NeedsClient() bool { return false }

func TestGrantWithoutUserPrefersConfiguredIssuer(t *testing.T) {
	w := newWorld(t, func(w *world, c *oauth.Options) {
		w.as.AddClient("robot", "")
		w.resource.Documents["/.well-known/oauth-protected-resource/mcp"]["authorization_servers"] = []string{"https://evil.example", issuer}
		c.User, c.Grant, c.Clients = nil, clientCredentials{}, []oauth.Client{{Issuer: issuer, ID: "robot"}}
	})
	w.mustCall()
	if lines := w.network.Lines(); slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, "evil.example") }) {
		t.Errorf("requests: %q", lines)
	}
}

func TestAskedClientIsUsedWithoutUser(t *testing.T) {
	asked := ""
	w := newWorld(t, func(w *world, c *oauth.Options) {
		w.as.AddClient("robot", "")
		c.User, c.Grant = nil, clientCredentials{}
		c.AskClient = func(_ context.Context, issuer string) (*oauth.Client, error) {
			asked = issuer
			return &oauth.Client{ID: "robot"}, nil
		}
	})
	w.mustCall()
	if asked != issuer {
		t.Errorf("asked for a client of %q", asked)
	}
}

func TestMemoryLockExcludes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, k := oauth.NewMemory(), oauth.Key{Kind: "token"}
		unlock, err := store.Lock(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		if free, err := store.Lock(t.Context(), oauth.Key{Kind: "client"}); err != nil {
			t.Error(err)
		} else {
			free()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := store.Lock(ctx, k); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a held lock: %v", err)
		}
		time.AfterFunc(time.Second, unlock)
		if again, err := store.Lock(t.Context(), k); err != nil {
			t.Error(err)
		} else {
			again()
		}
	})
}
