package loopback_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/loopback"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
	"github.com/mcpwire/mcpwire/runtime/auth/trial"
)

// The user agent opens a browser. The browser logs in at an authorization server and is redirected
// to the listener. The second login reuses the registration of the first.
func TestLoginWithBrowser(t *testing.T) {
	var handler http.Handler
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	defer web.Close()
	logins, err := trial.New(trial.Options{Issuer: web.URL + "/auth", Scopes: []string{"read"}, Approve: true})
	if err != nil {
		t.Fatal(err)
	}
	protector, err := auth.NewProtector(auth.Options{Resource: web.URL + "/mcp", Issuers: []string{web.URL + "/auth"}, Verifier: logins, Scopes: []string{"read"}})
	if err != nil {
		t.Fatal(err)
	}
	var registrations atomic.Int32
	served := logins.Handler(protector.Handler(nil))
	handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/register") {
			registrations.Add(1)
		}
		served.ServeHTTP(w, r)
	})
	opened := make(chan string, 2) // pages
	user := loopback.New(&loopback.Options{Open: func(address string) error {
		resp, err := http.Get(address)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		opened <- resp.Request.URL.Path
		return nil
	}})
	a, err := oauth.New(oauth.Options{User: user})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := a.Login(t.Context(), web.URL+"/mcp"); err != nil {
			t.Fatal(err)
		}
		token, err := a.Token(t.Context(), web.URL+"/mcp")
		if err != nil || !slices.Contains(token.Scopes, "read") {
			t.Errorf("token %v, %v", token, err)
		}
	}
	first, second := <-opened, <-opened
	if !strings.HasPrefix(first, "/callback/") || second != first || registrations.Load() != 1 {
		t.Errorf("%d registrations, redirected to %s and %s", registrations.Load(), first, second)
	}
}
