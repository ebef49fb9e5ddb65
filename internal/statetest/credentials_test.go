package statetest_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/filestore"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

const (
	protected = "https://mcp.example.com/mcp"
	issuer    = "https://as.example.com"
)

// network answers the requests of an Authorizer, and accepts the token of the grant.
type network struct{ token string }

func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := http.StatusOK, ""
	header := http.Header{"Content-Type": {"application/json"}}
	switch {
	case strings.HasPrefix(r.URL.Path, "/.well-known/oauth-protected-resource"):
		body = `{"resource":"` + protected + `","authorization_servers":["` + issuer + `"]}`
	case strings.HasPrefix(r.URL.Path, "/.well-known/oauth-authorization-server"):
		body = `{"issuer":"` + issuer + `","authorization_endpoint":"` + issuer + `/authorize","token_endpoint":"` + issuer + `/token","response_types_supported":["code"],"code_challenge_methods_supported":["S256"]}`
	case r.Header.Get("Authorization") == "":
		status = http.StatusUnauthorized
		header.Set("WWW-Authenticate", "Bearer")
	default:
		n.token = r.Header.Get("Authorization")
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// grant obtains a token without requests. It counts its calls.
type grant struct{ calls int }

func (g *grant) Token(context.Context, *oauth.Target) (*oauth.Token, error) {
	g.calls++
	return &oauth.Token{Access: auth.NewSecret("<access&token>"), Refresh: auth.NewSecret(odd), Type: "Bearer", Scopes: []string{"a", "<b>"}, Expiry: time.Now().Add(time.Hour)}, nil
}
func (*grant) NeedsUser() bool   { return false }
func (*grant) NeedsClient() bool { return true }

// authorized sends a request with the credentials of a store. It returns the token that was sent,
// and how often the grant was used.
func authorized(t *testing.T, store oauth.Store) (token string, calls int) {
	t.Helper()
	n, g := &network{}, &grant{}
	a, err := oauth.New(oauth.Options{
		Store: store, Principal: odd, Grant: g, HTTP: &http.Client{Transport: n},
		Clients: []oauth.Client{{Issuer: issuer, ID: "client " + odd, Secret: auth.NewSecret(odd)}},
	})
	noError(t, err)
	server, err := url.Parse(protected)
	noError(t, err)
	op := httpclient.Operation{Server: server, Method: "tools/call"}
	for again := true; again; op.Attempt++ {
		r, err := http.NewRequestWithContext(t.Context(), "POST", protected, nil)
		noError(t, err)
		noError(t, a.Authorize(r, op))
		w, err := n.RoundTrip(r)
		noError(t, err)
		if w.StatusCode == http.StatusOK {
			break
		}
		again, err = a.Challenged(t.Context(), w, op)
		noError(t, err)
	}
	return n.token, g.calls
}

// lockName returns the name of the file that exists while the lock of a key that is not UTF-8 is
// held.
func lockName(t *testing.T, store oauth.Store, dir string) string {
	t.Helper()
	unlock, err := store.Lock(t.Context(), oauth.Key{Kind: "token", Resource: protected, Principal: odd + "\xff\\ufffd"})
	noError(t, err)
	defer unlock()
	held, err := filepath.Glob(filepath.Join(dir, "credentials.json.*.lock"))
	noError(t, err)
	if len(held) != 1 {
		t.Fatalf("locks %q, want one", held)
	}
	return filepath.Base(held[0])
}

// credentialFacts are facts about the files of credentials.
type credentialFacts struct{ Lock string }

// credentialKeys are the keys of the files of credentials, by name.
var credentialKeys = map[string][]byte{"credentials.json": nil, "sealed.json": []byte(strings.Repeat("k", 32))}

var oddKey = oauth.Key{Kind: "token", Issuer: odd, Resource: protected, Principal: odd}

func writeCredentials(t *testing.T, dir string) {
	for name, key := range credentialKeys {
		file := filepath.Join(t.TempDir(), name)
		store := must(filestore.Open(file, key))
		if token, calls := authorized(t, store); token == "" || calls != 1 {
			t.Fatalf("token %q after %d calls of the grant", token, calls)
		}
		noError(t, store.Put(t.Context(), oddKey, []byte(odd+"\xff")))
		text, err := os.ReadFile(file)
		noError(t, err)
		noError(t, os.WriteFile(filepath.Join(dir, name), text, 0o666))
		if key == nil {
			saveFacts(t, dir, "locks.json", credentialFacts{lockName(t, store, filepath.Dir(file))})
		}
	}
}

func readCredentials(t *testing.T, dir string) {
	for name, key := range credentialKeys {
		text, err := os.ReadFile(filepath.Join(dir, name))
		noError(t, err)
		file := filepath.Join(t.TempDir(), name)
		noError(t, os.WriteFile(file, text, 0o600)) // the permissions that the store demands
		store := must(filestore.Open(file, key))
		token, calls := authorized(t, store)
		equal(t, "token", "Bearer <access&token>", token)
		equal(t, "calls of the grant", 0, calls)
		value, err := store.Get(t.Context(), oddKey)
		noError(t, err)
		equal(t, "value", odd+"\xff", string(value))
		if key == nil {
			equal(t, "file of a lock", loadFacts[credentialFacts](t, dir, "locks.json").Lock, lockName(t, store, filepath.Dir(file)))
		}
	}
}
