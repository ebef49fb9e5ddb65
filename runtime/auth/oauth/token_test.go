package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth/internal/mockas"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

// Proves AUTH-16.
func TestTokenIsRefreshedBeforeItExpires(t *testing.T) {
	for _, test := range []struct {
		name     string
		lifetime int // seconds
		fresh    time.Duration
	}{
		{"minutes", 600, 9 * time.Minute},
		{"hours", 36000, 9 * time.Hour},
		{"shorter than the skew", 60, 30 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, func(w *world, _ *oauth.Options) { w.as.Lifetime = test.lifetime })
				w.mustCall()
				time.Sleep(test.fresh - time.Second)
				w.mustCall()
				if n := len(w.tokenRequests("refresh_token")); n != 0 {
					t.Fatalf("%d refreshs of a fresh token", n)
				}
				time.Sleep(time.Second)
				w.network.Clear()
				w.mustCall()
				forms := w.tokenRequests("refresh_token")
				if len(forms) != 1 || forms[0].Get("resource") != serverURL {
					t.Errorf("refresh requests: %v", forms)
				}
				if n := len(w.network.Requests("POST " + serverURL)); n != 1 || len(w.authorizations()) != 0 || len(gets(w.network, "mcp.example")) != 0 {
					t.Errorf("requests: %q", w.network.Lines())
				}
			})
		})
	}
}

func TestRejectedTokenIsRefreshedOnce(t *testing.T) {
	w := newWorld(t, nil)
	w.mustCall()
	w.as.Revoke(false)
	w.network.Clear()
	w.mustCall()
	want := "POST https://mcp.example/mcp\nGET https://mcp.example/.well-known/oauth-protected-resource/mcp\n" +
		"POST https://as.example/token\nPOST https://mcp.example/mcp"
	if got := strings.Join(w.network.Lines(), "\n"); got != want {
		t.Errorf("requests:\n%s\nwant:\n%s", got, want)
	}

	// Without a refresh token that works, the user authorizes again.
	w.as.Revoke(true)
	w.network.Clear()
	w.mustCall()
	if len(w.tokenRequests("refresh_token")) != 1 || len(w.tokenRequests("authorization_code")) != 1 {
		t.Errorf("requests: %q", w.network.Lines())
	}
}

func TestRejectedRefreshedTokenLeadsToOneLogin(t *testing.T) {
	w := newWorld(t, nil)
	w.mustCall()
	w.network.Clear()
	w.network.Handle("mcp.example", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.well-known") {
			w.resource.ServeHTTP(rw, r)
			return
		}
		rw.WriteHeader(http.StatusUnauthorized)
	}))
	status, err := w.call()
	if status != http.StatusUnauthorized || err == nil || !strings.Contains(err.Error(), "the server rejects the token") {
		t.Errorf("%d, %v", status, err)
	}
	if len(w.tokenRequests("refresh_token")) != 1 || len(w.tokenRequests("authorization_code")) != 1 || len(w.network.Requests("POST "+serverURL)) != 3 {
		t.Errorf("requests: %q", w.network.Lines())
	}
	if _, err := w.call(); !errors.Is(err, oauth.ErrBackoff) {
		t.Errorf("next call: %v", err)
	}
}

func TestConcurrentRequestsShareAFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		w := newWorld(t, func(w *world, _ *oauth.Options) {
			w.browser.Before = func(context.Context, string) { <-answer }
			w.as.Lifetime = 600
		})
		const callers = 20
		together := func(meanwhile func()) {
			t.Helper()
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					if status, err := w.call(); status != http.StatusOK || err != nil {
						t.Errorf("%d, %v", status, err)
					}
				})
			}
			synctest.Wait()
			meanwhile()
			wg.Wait()
		}
		canceled, cancel := context.WithCancel(t.Context())
		first := make(chan error)
		go func() { // starts the flow, and does not wait for its end
			_, err := send(canceled, w.network, w.a, serverURL, tool)
			first <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("canceled request: %v", err)
		}
		// A request that cannot ask the user waits for the flow as well.
		stream := make(chan int)
		go func() {
			status, _ := send(t.Context(), w.network, w.a, serverURL, httpclient.Operation{})
			stream <- status
		}()
		together(func() { close(answer) })
		if status := <-stream; status != http.StatusOK {
			t.Errorf("stream: status %d", status)
		}
		if n := len(w.authorizations()); n != 1 {
			t.Errorf("%d authorization requests", n)
		}
		w.network.Clear()
		time.Sleep(10 * time.Minute)
		together(func() {})
		if n := len(w.tokenRequests("refresh_token")); n != 1 {
			t.Errorf("%d refreshes", n)
		}
		w.network.Clear()
		w.as.Revoke(true)
		together(func() {})
		if n := len(w.tokenRequests("authorization_code")); n != 1 {
			t.Errorf("%d logins after the tokens were revoked", n)
		}
	})
}

func TestRequestsWithoutAMethodDoNotAskTheUser(t *testing.T) {
	w := newWorld(t, nil)
	status, err := send(t.Context(), w.network, w.a, serverURL, httpclient.Operation{})
	if status != http.StatusUnauthorized || !errors.Is(err, oauth.ErrLoginNeeded) || len(w.network.Lines()) != 1 {
		t.Errorf("%d, %v; requests: %q", status, err, w.network.Lines())
	}
	w.mustCall()
	w.as.Revoke(false)
	if status, err := send(t.Context(), w.network, w.a, serverURL, httpclient.Operation{}); status != http.StatusOK || err != nil {
		t.Errorf("refresh: %d, %v", status, err)
	}
}

func TestStoredTokensAreUsedWithoutAUserAgent(t *testing.T) {
	store := oauth.NewMemory()
	w := newWorld(t, func(w *world, c *oauth.Options) { c.Store = store })
	w.mustCall()
	w.network.Clear()
	a, err := oauth.New(oauth.Options{Store: store, HTTP: w.network.Client()})
	if err != nil {
		t.Fatal(err)
	}
	w.a = a
	w.mustCall()
	if n := len(w.network.Lines()); n != 1 {
		t.Errorf("requests: %q", w.network.Lines())
	}
	w.as.Revoke(false)
	w.mustCall()
	w.as.Revoke(true)
	for range 2 {
		if status, err := w.call(); status != http.StatusUnauthorized || !errors.Is(err, oauth.ErrLoginNeeded) {
			t.Errorf("%d, %v", status, err)
		}
	}
	w.network.Clear()
	if _, err := w.call(); !errors.Is(err, oauth.ErrLoginNeeded) || len(w.network.Lines()) != 1 {
		t.Errorf("%v; requests: %q", err, w.network.Lines())
	}
}

func TestPrincipalsHaveTheirOwnTokens(t *testing.T) {
	w := newWorld(t, nil)
	alice, bob := w.a.For("alice"), w.a.For("bob")
	for _, a := range []*oauth.Authorizer{alice, bob, alice, w.a.For("alice")} {
		if status, err := send(t.Context(), w.network, a, serverURL, tool); status != http.StatusOK || err != nil {
			t.Fatal(status, err)
		}
	}
	if n := len(w.authorizations()); n != 2 {
		t.Errorf("%d logins of two principals", n)
	}
	if n := len(gets(w.network, "as.example")); n != 3 || len(w.network.Requests("POST https://as.example/register")) != 1 {
		t.Errorf("requests: %q", w.network.Lines())
	}
	one, err := alice.Token(t.Context(), serverURL)
	if err != nil {
		t.Fatal(err)
	}
	two, err := bob.Token(t.Context(), serverURL)
	if err != nil || one.Access.Equal(two.Access) {
		t.Errorf("the token of bob: %v", err)
	}
	if _, err := w.a.Token(t.Context(), serverURL); !errors.Is(err, oauth.ErrLoginNeeded) {
		t.Errorf("the token without a principal: %v", err)
	}
}

func TestLoginAndLogout(t *testing.T) {
	w := newWorld(t, nil)
	for range 2 {
		if err := w.a.Login(t.Context(), serverURL); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(w.authorizations()); n != 2 {
		t.Errorf("%d authorization requests for two logins", n)
	}
	token, err := w.a.Token(t.Context(), serverURL)
	if err != nil || w.as.Lookup(token.Access.Reveal()) == nil {
		t.Fatalf("token: %v", err)
	}
	if err := w.a.Logout(t.Context(), serverURL); err != nil {
		t.Fatal(err)
	}
	revoked := w.network.Requests("POST https://as.example/revoke")
	if len(revoked) != 2 || revoked[0].Form.Get("token_type_hint") != "refresh_token" || w.as.Lookup(token.Access.Reveal()) != nil {
		t.Errorf("revocations: %v", revoked)
	}
	if _, err := w.a.Token(t.Context(), serverURL); !errors.Is(err, oauth.ErrLoginNeeded) {
		t.Errorf("token after the logout: %v", err)
	}
	if err := w.a.Logout(t.Context(), serverURL); err != nil {
		t.Errorf("second logout: %v", err)
	}
	// The token is deleted even if its revocation fails.
	w.mustCall()
	w.as.Override("/revoke", func(rw http.ResponseWriter, r *http.Request) {
		mockas.Fail(rw, http.StatusServiceUnavailable, "temporarily_unavailable", "revoking "+r.FormValue("token"))
	})
	if err := w.a.Logout(t.Context(), serverURL); err == nil || strings.Contains(err.Error(), "access-") || strings.Contains(err.Error(), "refresh-") {
		t.Errorf("logout: %v", err)
	}
	if _, err := w.a.Token(t.Context(), serverURL); !errors.Is(err, oauth.ErrLoginNeeded) {
		t.Errorf("token after the logout: %v", err)
	}
	// Tokens that cannot be revoked are deleted.
	w.mustCall()
	w.as.Override("/revoke", func(rw http.ResponseWriter, r *http.Request) {
		mockas.Fail(rw, http.StatusBadRequest, "unsupported_token_type", "")
	})
	if err := w.a.Logout(t.Context(), serverURL); err != nil {
		t.Errorf("logout with tokens that cannot be revoked: %v", err)
	}
	for _, raw := range []string{"", "mcp.example", "http://%zz", "https://u:p@mcp.example"} {
		if err := w.a.Login(t.Context(), raw); err == nil {
			t.Errorf("login at %q", raw)
		}
	}
}

// lockedStore is a Store of several processes.
type lockedStore struct {
	oauth.Store
	mu sync.Mutex
}

func (s *lockedStore) Lock(context.Context, oauth.Key) (func(), error) {
	s.mu.Lock()
	return s.mu.Unlock, nil
}

func TestProcessesShareARefresh(t *testing.T) {
	store := &lockedStore{Store: oauth.NewMemory()}
	w := newWorld(t, func(w *world, c *oauth.Options) { c.Store = store })
	w.mustCall()
	other, err := oauth.New(oauth.Options{Store: store, HTTP: w.network.Client()})
	if err != nil {
		t.Fatal(err)
	}
	if status, err := send(t.Context(), w.network, other, serverURL, tool); status != http.StatusOK || err != nil {
		t.Fatal(status, err)
	}
	w.as.Revoke(false)
	w.mustCall() // this uses up the refresh token
	if status, err := send(t.Context(), w.network, other, serverURL, tool); status != http.StatusOK || err != nil {
		t.Fatal(status, err)
	}
	if n := len(w.tokenRequests("refresh_token")); n != 1 {
		t.Errorf("%d refreshes", n)
	}
}

// clientCredentials is a grant without a user.
type clientCredentials struct{}

func (clientCredentials) NeedsUser() bool   { return false }
func (clientCredentials) NeedsClient() bool { return true }
func (clientCredentials) Token(ctx context.Context, t *oauth.Target) (*oauth.Token, error) {
	form := map[string][]string{"grant_type": {"client_credentials"}}
	if t.Scopes != nil {
		form["scope"] = []string{strings.Join(t.Scopes, " ")}
	}
	return t.Exchange(ctx, form)
}

func TestGrantWithoutAUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world, c *oauth.Options) {
			w.as.AddClient("machine", "")
			w.as.NoRefresh, w.as.Lifetime = true, 600
			w.document()["scopes_supported"] = []string{"offline_access"}
			delete(w.document(), "code_challenge_methods_supported")
			w.resource.Need = []string{"a"}
			c.User, c.Grant, c.Clients = nil, clientCredentials{}, []oauth.Client{{Issuer: issuer, ID: "machine"}}
		})
		w.mustCall()
		time.Sleep(10 * time.Minute)
		w.network.Clear()
		w.mustCall()
		if n := len(w.network.Requests("POST " + serverURL)); n != 1 {
			t.Errorf("requests: %q", w.network.Lines())
		}
		w.as.Revoke(false)
		w.mustCall()
		w.resource.Change(func() { w.resource.Need = []string{"b"} })
		w.mustCall()
		for _, form := range w.tokenRequests("client_credentials") {
			if form.Get("resource") != serverURL || !strings.HasPrefix(form.Get("scope"), "a") {
				t.Errorf("token request %v", form)
			}
		}
		if token, err := w.a.Token(t.Context(), serverURL); err != nil || strings.Join(token.Scopes, " ") != "a b" {
			t.Errorf("token %v, %v", token, err)
		}
		if err := w.a.Logout(t.Context(), serverURL); err != nil {
			t.Fatal(err)
		}
		if _, err := w.a.Token(t.Context(), serverURL); err != nil {
			t.Errorf("token without a challenge: %v", err)
		}
	})
}

func TestAbandonedLoginIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		visits := 0
		w := newWorld(t, func(w *world, _ *oauth.Options) {
			w.browser.Before = func(ctx context.Context, _ string) {
				if visits++; visits < 4 {
					<-ctx.Done()
				}
			}
		})
		canceled := func(wait func(context.Context) error) {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- wait(ctx) }()
			synctest.Wait()
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want %v", err, context.Canceled)
			}
		}
		login := func(ctx context.Context) error { return w.a.Login(ctx, serverURL) }
		call := func(ctx context.Context) error {
			_, err := send(ctx, w.network, w.a, serverURL, tool)
			return err
		}
		began := time.Now()
		canceled(login) // ends its flow
		if _, err := w.call(); !errors.Is(err, oauth.ErrBackoff) {
			t.Errorf("call after a canceled login: %v", err)
		}
		time.Sleep(30 * time.Second)
		canceled(call) // its flow continues
		canceled(call)
		if visits != 2 {
			t.Errorf("%d flows", visits)
		}
		canceled(login)
		if err := login(t.Context()); err != nil || visits != 4 {
			t.Errorf("%v, %d flows", err, visits)
		}
		if time.Since(began) != 30*time.Second {
			t.Errorf("it took %v", time.Since(began))
		}
	})
}

func TestMalformedStoredValuesAreReplaced(t *testing.T) {
	store := oauth.NewMemory()
	w := newWorld(t, func(w *world, c *oauth.Options) { c.Store = store })
	w.mustCall()
	for _, k := range []oauth.Key{
		{Kind: "server", Resource: serverURL},
		{Kind: "token", Issuer: issuer, Resource: serverURL},
		{Kind: "client", Issuer: issuer},
	} {
		for _, kinds := range []int{1, 2} { // alone, and with the token
			text, err := store.Get(t.Context(), k)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(text), "{") {
				t.Errorf("%v is %s", k, text)
			}
			for i, k := range []oauth.Key{k, {Kind: "token", Issuer: issuer, Resource: serverURL}} {
				if i < kinds {
					if err := store.Put(t.Context(), k, text[:len(text)/2]); err != nil {
						t.Fatal(err)
					}
				}
			}
			a, err := oauth.New(oauth.Options{Store: store, HTTP: w.network.Client(), User: w.browser})
			if err != nil {
				t.Fatal(err)
			}
			if status, err := send(t.Context(), w.network, a, serverURL, tool); status != http.StatusOK || err != nil {
				t.Errorf("%v: %d, %v", k, status, err)
			}
		}
	}
}

func TestRemovedScopesAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world, _ *oauth.Options) { w.resource.Need = []string{"old"} })
		w.mustCall()
		w.resource.Change(func() { w.resource.Need = []string{"new"} })
		w.as.Revoke(true)
		w.browser.Answer = func(v url.Values) {
			if forms := w.authorizations(); strings.Contains(forms[len(forms)-1].Get("scope"), "old") {
				v.Del("code")
				v.Set("error", "invalid_scope")
			}
		}
		if _, err := w.call(); err == nil || !strings.Contains(err.Error(), "invalid_scope") {
			t.Errorf("call: %v", err)
		}
		time.Sleep(10 * time.Minute)
		w.mustCall()
		forms := w.authorizations()
		if got := forms[len(forms)-1].Get("scope"); got != "new" {
			t.Errorf("scope %q", got)
		}
	})
}

func TestRefreshWithRemovedClient(t *testing.T) {
	w := newWorld(t, nil)
	w.mustCall()
	w.as.RemoveClients()
	w.as.Revoke(false)
	w.network.Clear()
	w.mustCall()
	if len(w.tokenRequests("refresh_token")) != 1 || len(w.network.Requests("POST https://as.example/register")) != 1 || len(w.authorizations()) != 1 {
		t.Errorf("requests: %q", w.network.Lines())
	}
}

func TestRefreshTokenIsKeptUntilThereIsAnotherOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world, _ *oauth.Options) { w.as.Lifetime = 600 })
		w.mustCall()
		before, err := w.a.Token(t.Context(), serverURL)
		if err != nil {
			t.Fatal(err)
		}
		w.as.Override("/token", answer(map[string]any{"access_token": "next", "token_type": "Bearer", "expires_in": 1e300}))
		time.Sleep(9*time.Minute + 30*time.Second)
		after, err := w.a.Token(t.Context(), serverURL)
		if err != nil || after.Access.Equal(before.Access) || !after.Refresh.Equal(before.Refresh) {
			t.Fatalf("%v, %v", after, err)
		}
		if !after.Expiry.After(time.Now().Add(365 * 24 * time.Hour)) {
			t.Errorf("a token of eternal life expires at %v", after.Expiry)
		}
	})
}

func TestLoginJoinsFlowWithWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proceed := make(chan struct{})
		w := newWorld(t, func(w *world, _ *oauth.Options) {
			w.browser.Before = func(ctx context.Context, _ string) {
				select {
				case <-proceed:
				case <-ctx.Done():
				}
			}
		})
		results := make(chan error)
		go func() {
			_, err := w.call()
			results <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { results <- w.a.Login(ctx, serverURL) }()
		synctest.Wait()
		cancel()
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("canceled login: %v", err)
		}
		go func() { results <- w.a.Login(t.Context(), serverURL) }()
		synctest.Wait()
		close(proceed)
		for range 2 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		if n := len(w.authorizations()); n != 1 {
			t.Errorf("%d authorization requests", n)
		}
	})
}

func TestStepUpWithoutAUserAgentNeedsALogin(t *testing.T) {
	store := oauth.NewMemory()
	w := newWorld(t, func(w *world, c *oauth.Options) { c.Store = store })
	w.mustCall()
	a, err := oauth.New(oauth.Options{Store: store, HTTP: w.network.Client()})
	if err != nil {
		t.Fatal(err)
	}
	w.resource.Change(func() { w.resource.Need = []string{"more"} })
	w.network.Clear()
	status, err := send(t.Context(), w.network, a, serverURL, tool)
	if status != http.StatusForbidden || !errors.Is(err, oauth.ErrLoginNeeded) || len(w.network.Lines()) != 1 {
		t.Errorf("%d, %v; requests: %q", status, err, w.network.Lines())
	}
	w.mustCall() // an Authorizer with a user agent can still use the token
}

func TestProcessesShareARefreshBeforeTheExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lockedStore{Store: oauth.NewMemory()}
		w := newWorld(t, func(w *world, c *oauth.Options) { c.Store, w.as.Lifetime = store, 600 })
		w.mustCall()
		other, err := oauth.New(oauth.Options{Store: store, HTTP: w.network.Client()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Token(t.Context(), serverURL); err != nil {
			t.Fatal(err)
		}
		time.Sleep(9*time.Minute + 30*time.Second)
		w.mustCall()
		if status, err := send(t.Context(), w.network, other, serverURL, tool); status != http.StatusOK || err != nil {
			t.Fatal(status, err)
		}
		if n := len(w.tokenRequests("refresh_token")); n != 1 {
			t.Errorf("%d refreshes", n)
		}
	})
}

func TestResourceMetadataIsKeptForTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world, _ *oauth.Options) { w.resource.Need = []string{"a"} })
		w.mustCall()
		for i, want := range []int{1, 2} {
			w.resource.Change(func() { w.resource.Need = append(w.resource.Need, fmt.Sprint("scope-", i)) })
			w.mustCall()
			if n := len(gets(w.network, "mcp.example")); n != want {
				t.Errorf("%d requests for resource metadata, want %d", n, want)
			}
			time.Sleep(11 * time.Minute)
		}
	})
}

func TestRequestWithAnOldTokenIsSentAgain(t *testing.T) {
	w := newWorld(t, nil)
	w.mustCall()
	op := tool
	op.Server, _ = url.Parse(serverURL)
	for _, header := range []string{"", "Bearer old"} {
		req, _ := http.NewRequest(http.MethodPost, serverURL, nil)
		req.Header.Set("Authorization", header)
		w.network.Clear()
		again, err := w.a.Challenged(t.Context(), &http.Response{StatusCode: http.StatusUnauthorized, Request: req}, op)
		if !again || err != nil || len(w.network.Lines()) != 0 {
			t.Errorf("%q: again %v, %v; requests: %q", header, again, err, w.network.Lines())
		}
	}
}

// A request that can ask the user does so if the attempt that it joined could not.
func TestLoginAfterAnAttemptWithoutTheUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.mustCall()
		w.as.Revoke(true)
		proceed := make(chan struct{})
		w.as.Override("/token", func(rw http.ResponseWriter, r *http.Request) {
			if r.ParseForm(); r.Form.Get("grant_type") == "refresh_token" {
				<-proceed
			}
			w.as.Serve(rw, r, "/token")
		})
		stream := make(chan error)
		go func() {
			_, err := send(t.Context(), w.network, w.a, serverURL, httpclient.Operation{})
			stream <- err
		}()
		synctest.Wait()
		call := make(chan error)
		go func() {
			_, err := w.call()
			call <- err
		}()
		synctest.Wait()
		close(proceed)
		if err := <-call; err != nil {
			t.Errorf("call: %v", err)
		}
		if err := <-stream; err != nil && !errors.Is(err, oauth.ErrLoginNeeded) {
			t.Errorf("stream: %v", err)
		}
	})
}

func TestMemoryCopiesValues(t *testing.T) {
	store, k := oauth.NewMemory(), oauth.Key{Kind: "token"}
	value := []byte("abc")
	if err := store.Put(t.Context(), k, value); err != nil {
		t.Fatal(err)
	}
	value[0] = 'x'
	got, err := store.Get(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	got[1] = 'x'
	if got, err = store.Get(t.Context(), k); string(got) != "abc" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := errors.Join(store.Delete(t.Context(), k), store.Delete(t.Context(), k)); err != nil {
		t.Error(err)
	}
	if _, err := store.Get(t.Context(), k); !errors.Is(err, oauth.ErrNotFound) {
		t.Error(err)
	}
}

func TestLogoutWaitsForRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world, _ *oauth.Options) { w.as.Lifetime = 100 })
		w.mustCall()
		time.Sleep(99 * time.Second)
		w.as.Override("/token", func(rw http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			w.as.Serve(rw, r, "/token")
		})
		done := make(chan struct{})
		go func() { // ends after the refresh, or after a login that follows the logout
			defer close(done)
			w.call()
		}()
		synctest.Wait()
		if err := w.a.Logout(t.Context(), serverURL); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if token, err := w.a.Token(t.Context(), serverURL); !errors.Is(err, oauth.ErrLoginNeeded) {
			t.Errorf("token after the logout: %v, %v", token, err)
		}
		<-done
	})
}
