package auth_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/authtext"
)

const (
	resource = "https://mcp.example.com/mcp"
	issuer   = "https://as.example.com"
)

// tokens is a verifier with a table of tokens. It fails for all others.
type tokens struct {
	mu    sync.Mutex
	table map[string]auth.Identity
	calls atomic.Int64
	err   error // for all tokens
	ttl   time.Duration
}

func (v *tokens) Verify(ctx context.Context, c *auth.Credentials) (*auth.Identity, error) {
	v.calls.Add(1)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err != nil {
		return nil, v.err
	}
	i, ok := v.table[c.Token.Reveal()]
	if !ok {
		return nil, auth.ErrInvalidToken
	}
	return &i, nil
}

func (v *tokens) CacheTTL() time.Duration { return v.ttl }

// prover is a verifier that accepts the proof "good", and demands a nonce for "old".
type prover struct{ tokens }

func (*prover) VerifyProof(ctx context.Context, c *auth.Credentials, i *auth.Identity) error {
	switch {
	case c.Proof == "good" && c.Method == "POST" && c.URL == resource:
		return nil
	case c.Proof == "old":
		return &auth.NonceError{Nonce: "n1"}
	}
	return errors.New("wrong proof")
}

func newProtector(t testing.TB, c auth.Options) *auth.Protector {
	t.Helper()
	if c.Resource == "" {
		c.Resource = resource
	}
	if c.Issuers == nil {
		c.Issuers = []string{issuer}
	}
	c.Logger = slog.New(slog.DiscardHandler)
	p, err := auth.NewProtector(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func post(header ...string) *http.Request {
	r := httptest.NewRequest("POST", resource, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

func granted(subject string, change ...func(*auth.Identity)) auth.Identity {
	i := auth.Identity{Issuer: issuer, Subject: subject, Audience: []string{resource}, Scopes: []string{"mcp"}}
	for _, f := range change {
		f(&i)
	}
	return i
}

// Proves AUTH-06, AUTH-20, AUTH-21, AUTH-33, M-AUTH-02.
func TestAuthenticate(t *testing.T) {
	now := time.Now()
	table := map[string]auth.Identity{
		"good":           granted("ann"),
		"upper-case":     granted("ann", func(i *auth.Identity) { i.Audience = []string{"HTTPS://MCP.Example.com:443/mcp"} }),
		"second":         granted("ann", func(i *auth.Identity) { i.Audience = []string{"other", "api://mcp"} }),
		"no-issuer":      granted("ann", func(i *auth.Identity) { i.Issuer = "" }),
		"just-expired":   granted("ann", func(i *auth.Identity) { i.Expiry = now.Add(-30 * time.Second) }),
		"expired":        granted("ann", func(i *auth.Identity) { i.Expiry = now.Add(-2 * time.Minute) }),
		"other-audience": granted("ann", func(i *auth.Identity) { i.Audience = []string{resource + "/x", "https://mcp.example.com"} }),
		"no-audience":    granted("ann", func(i *auth.Identity) { i.Audience = nil }),
		"other-issuer":   granted("ann", func(i *auth.Identity) { i.Issuer = issuer + "/" }),
		"nobody":         granted(""),
		"narrow":         granted("ann", func(i *auth.Identity) { i.Scopes = []string{"other"} }),
		"broad":          granted("ann", func(i *auth.Identity) { i.Scopes = []string{"admin"} }),
		"claims":         granted("ann", func(i *auth.Identity) { i.Claims = map[string]any{"a": strings.Repeat("x", 20<<10)} }),
		"scopes":         granted("ann", func(i *auth.Identity) { i.Scopes = make([]string, 101) }),
		"bound":          granted("ann", func(i *auth.Identity) { i.Thumbprint = "x" }),
	}
	p := newProtector(t, auth.Options{
		Verifier: &tokens{table: table}, Audience: []string{"api://mcp"}, Scopes: []string{"mcp"}, Now: func() time.Time { return now },
		Imply: func(s string) []string { return map[string][]string{"admin": {"write"}, "write": {"mcp", "admin"}}[s] },
	})
	const metadata = `resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"`
	challenge := func(text, description string) string {
		if text != "" {
			text = `error="` + text + `", `
		}
		if description != "" {
			description = `, error_description="` + description + `"`
		}
		return "Bearer " + text + `scope="mcp", ` + metadata + description
	}
	invalid := func(description string) string { return challenge("invalid_token", description) }
	for _, test := range []struct {
		name      string
		r         *http.Request
		status    int
		challenge string
	}{
		{"valid token", post("Authorization", "Bearer good"), 200, ""},
		{"scheme in lower case", post("Authorization", "bearer  good"), 200, ""},
		{"audience in upper case", post("Authorization", "Bearer upper-case"), 200, ""},
		{"further audience", post("Authorization", "Bearer second"), 200, ""},
		{"no issuer, only one is possible", post("Authorization", "Bearer no-issuer"), 200, ""},
		{"expired within the skew", post("Authorization", "Bearer just-expired"), 200, ""},
		{"implied scope", post("Authorization", "Bearer broad"), 200, ""},
		{"no token", post(), 401, challenge("", "")},
		{"other scheme", post("Authorization", "Basic YTpi"), 401, challenge("", "")},
		{"DPoP without support", post("Authorization", "DPoP good", "DPoP", "good"), 401, challenge("", "")},
		{"unknown token", post("Authorization", "Bearer x"), 401, invalid("the access token is invalid")},
		{"expired token", post("Authorization", "Bearer expired"), 401, invalid("the access token has expired")},
		{"other audience", post("Authorization", "Bearer other-audience"), 401, invalid("the access token is for another audience")},
		{"no audience", post("Authorization", "Bearer no-audience"), 401, invalid("the access token is for another audience")},
		{"other issuer", post("Authorization", "Bearer other-issuer"), 401, invalid("the access token is of another issuer")},
		{"no principal", post("Authorization", "Bearer nobody"), 401, invalid("the access token names no principal")},
		{"too many claims", post("Authorization", "Bearer claims"), 401, invalid("the access token has too many claims")},
		{"too many scopes", post("Authorization", "Bearer scopes"), 401, invalid("the access token has too many scopes")},
		{"long token", post("Authorization", "Bearer "+strings.Repeat("x", 17<<10)), 401, invalid("the access token has more than 16384 bytes")},
		{"bound token as bearer", post("Authorization", "Bearer bound"), 401, "DPoP" + strings.TrimPrefix(invalid("the access token is bound to a key, and needs a proof"), "Bearer")},
		{"too few scopes", post("Authorization", "Bearer narrow"), 403, challenge("insufficient_scope", "the access token has too few scopes")},
		{"two headers", post("Authorization", "Bearer good", "Authorization", "Bearer good"), 400, challenge("invalid_request", "more than one Authorization header")},
		{"malformed", post("Authorization", "Bearer a b"), 400, challenge("invalid_request", "the Authorization header is malformed")},
		{"empty token", post("Authorization", "Bearer"), 400, challenge("invalid_request", "the Authorization header is malformed")},
		{"token in the URL", httptest.NewRequest("POST", resource+"?access_token=good", nil), 400, challenge("invalid_request", "the URL has an access token")},
	} {
		t.Run(test.name, func(t *testing.T) {
			i, err := p.Authenticate(test.r)
			if test.status == 200 {
				if err != nil || i.Principal != issuer+"#ann" {
					t.Errorf("%+v, %v", i, err)
				}
				return
			}
			denied, ok := errors.AsType[*auth.Denied](err)
			if !ok || i != nil {
				t.Fatalf("%v, %v", i, err)
			}
			w := httptest.NewRecorder()
			denied.Write(w)
			if got := w.Header().Get("WWW-Authenticate"); w.Code != test.status || got != test.challenge || w.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("status %d, want %d; challenge\n%s, want\n%s", w.Code, test.status, got, test.challenge)
			}
		})
	}
}

// Proves AUTH-21.
func TestUnavailableVerifierDoesNotRejectToken(t *testing.T) {
	for name, err := range map[string]error{
		"unavailable": fmt.Errorf("%w: dial", auth.ErrUnavailable),
		"timeout":     context.DeadlineExceeded,
	} {
		p := newProtector(t, auth.Options{Verifier: &tokens{err: err}})
		_, got := p.Authenticate(post("Authorization", "Bearer x"))
		denied, ok := errors.AsType[*auth.Denied](got)
		if !ok || denied.Status != http.StatusServiceUnavailable || challenge(denied) != "" || !errors.Is(got, auth.ErrUnavailable) {
			t.Errorf("%s: %v", name, got)
			continue
		}
		w := httptest.NewRecorder()
		denied.Write(w)
		if w.Header().Get("Retry-After") == "" || w.Header().Get("WWW-Authenticate") != "" {
			t.Errorf("%s: header %v", name, w.Header())
		}
	}
	p := newProtector(t, auth.Options{Verifier: auth.VerifierFunc(func(context.Context, *auth.Credentials) (*auth.Identity, error) { panic("secret") })})
	_, err := p.Authenticate(post("Authorization", "Bearer x"))
	if denied, ok := errors.AsType[*auth.Denied](err); !ok || denied.Status != http.StatusInternalServerError || strings.Contains(denied.Reason, "secret") {
		t.Errorf("panic: %v", err)
	}
}

func TestDPoP(t *testing.T) {
	v := &prover{tokens: tokens{table: map[string]auth.Identity{
		"bearer": granted("ann"), "bound": granted("ann", func(i *auth.Identity) { i.Thumbprint = "x" }),
	}, ttl: time.Hour}}
	metadata := auth.ResourceMetadata{DPoPAlgorithms: []string{"ES256", "EdDSA"}}
	optional := newProtector(t, auth.Options{Verifier: v, Metadata: metadata})
	required := newProtector(t, auth.Options{Verifier: v, Metadata: metadata, RequireDPoP: true})
	if !metadataOf(t, required).DPoPRequired || metadataOf(t, optional).DPoPRequired {
		t.Error("metadata does not say whether DPoP is required")
	}
	for _, test := range []struct {
		name       string
		p          *auth.Protector
		r          *http.Request
		code, want string
	}{
		{"proof", optional, post("Authorization", "DPoP bound", "DPoP", "good"), "", ""},
		{"proof of a cached token", optional, post("Authorization", "DPoP bound", "DPoP", "bad"), "DPoP", "invalid_dpop_proof"},
		{"no proof", optional, post("Authorization", "DPoP bound"), "DPoP", "invalid_dpop_proof"},
		{"two proofs", optional, post("Authorization", "DPoP bound", "DPoP", "good", "DPoP", "good"), "DPoP", "invalid_dpop_proof"},
		{"nonce", optional, post("Authorization", "DPoP bound", "DPoP", "old"), "DPoP", "use_dpop_nonce"},
		{"token without a key", optional, post("Authorization", "DPoP bearer", "DPoP", "good"), "DPoP", "invalid_token"},
		{"bearer", optional, post("Authorization", "Bearer bearer"), "", ""},
		{"bearer, DPoP required", required, post("Authorization", "Bearer bearer"), "DPoP", ""},
	} {
		_, err := test.p.Authenticate(test.r)
		denied, ok := errors.AsType[*auth.Denied](err)
		if !ok {
			if err != nil || test.code != "" {
				t.Errorf("%s: %v", test.name, err)
			}
			continue
		}
		w := httptest.NewRecorder()
		denied.Write(w)
		c := authtext.ParseChallenges(w.Header()["Www-Authenticate"])[0]
		if w.Code != 401 || c.Scheme != test.code || c.Param("error") != test.want || c.Param("algs") != "ES256 EdDSA" {
			t.Errorf("%s: status %d, %s", test.name, w.Code, c)
		}
		if nonce := w.Header().Get("DPoP-Nonce"); (nonce == "n1") != (test.want == "use_dpop_nonce") {
			t.Errorf("%s: nonce %q", test.name, nonce)
		}
	}
}

func TestProtectorCachesVerifiedTokens(t *testing.T) {
	now := time.Now()
	v := &tokens{ttl: time.Minute, table: map[string]auth.Identity{
		"long": granted("ann"), "short": granted("bob", func(i *auth.Identity) { i.Expiry = now.Add(10 * time.Second) }),
	}}
	p := newProtector(t, auth.Options{Verifier: v, Skew: time.Second, Now: func() time.Time { return now }})
	try := func(token string, calls int64, ok bool) {
		t.Helper()
		before := v.calls.Load()
		if _, err := p.Authenticate(post("Authorization", "Bearer "+token)); (err == nil) != ok || v.calls.Load()-before != calls {
			t.Errorf("%s: %v, verified %d times", token, err, v.calls.Load()-before)
		}
	}
	try("long", 1, true)
	try("short", 1, true)
	try("long", 0, true)
	try("short", 0, true)
	try("unknown", 1, false)
	try("unknown", 0, false) // a rejection is remembered for 5 seconds
	v.table["unknown"] = granted("eve")
	now = now.Add(4 * time.Second)
	try("unknown", 0, false)
	now = now.Add(time.Second)
	try("unknown", 1, true)
	now = now.Add(7 * time.Second)
	try("long", 0, true)
	try("short", 1, false)
	now = now.Add(time.Minute)
	delete(v.table, "long")
	try("long", 1, false)

	direct := newProtector(t, auth.Options{Verifier: v, CacheTTL: -1})
	v.table["long"] = granted("ann")
	for range 2 {
		if _, err := direct.Authenticate(post("Authorization", "Bearer long")); err != nil {
			t.Error(err)
		}
	}
	if n := v.calls.Load(); n != 8 {
		t.Errorf("verified %d times", n)
	}
}

func TestTokenCacheIsBounded(t *testing.T) {
	v := &tokens{ttl: time.Hour, table: map[string]auth.Identity{}}
	p := newProtector(t, auth.Options{Verifier: v, CacheSize: 100})
	for n := range 300 {
		token := fmt.Sprint("t", n)
		v.table[token] = granted(token)
		for _, token := range []string{token, "t0"} {
			if _, err := p.Authenticate(post("Authorization", "Bearer "+token)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := v.calls.Load(); n != 300 {
		t.Errorf("verified %d times; the token that is used most was dropped", n)
	}
	for n := range 300 {
		p.Authenticate(post("Authorization", fmt.Sprint("Bearer t", 299-n)))
	}
	if n := v.calls.Load() - 300; n != 201 { // t0 and the newest 99 were
		t.Errorf("%d of 300 tokens were not in the cache", n)
	}
}

func TestNewProtectorRejectsConfig(t *testing.T) {
	good := auth.Options{Resource: resource, Issuers: []string{issuer}, Verifier: &tokens{}}
	for name, change := range map[string]func(*auth.Options){
		"Resource":               func(c *auth.Options) { c.Resource = "" },
		"fragment":               func(c *auth.Options) { c.Resource += "#" },
		`want "https://`:         func(c *auth.Options) { c.Resource = "https://MCP.example.com/mcp" },
		"not https":              func(c *auth.Options) { c.Resource = "http://mcp.example.com/mcp" },
		"no Issuers":             func(c *auth.Options) { c.Issuers = nil },
		`issuer "as"`:            func(c *auth.Options) { c.Issuers = []string{"as"} },
		"has a query":            func(c *auth.Options) { c.Issuers = []string{issuer + "?a"} },
		"no Verifier":            func(c *auth.Options) { c.Verifier = nil },
		`scope "a b"`:            func(c *auth.Options) { c.Scopes = []string{"a b"} },
		`scope "offline_access"`: func(c *auth.Options) { c.Scopes = []string{"offline_access"} },
		"no VerifyProof":         func(c *auth.Options) { c.RequireDPoP = true },
		"exclude each other":     func(c *auth.Options) { c.RequireDPoP, c.NoDPoP = true, true },
		"negative Skew":          func(c *auth.Options) { c.Skew = -1 },
		"Metadata.Resource":      func(c *auth.Options) { c.Metadata.Resource = resource },
	} {
		c := good
		change(&c)
		if _, err := auth.NewProtector(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	good.Resource = "http://127.0.0.1:8080/mcp"
	if _, err := auth.NewProtector(good); err != nil {
		t.Error(err)
	}
}

// Proves AUTH-03, AUTH-04, M-AUTH-01.
func TestMetadataIsServedAtWellKnownPaths(t *testing.T) {
	p := newProtector(t, auth.Options{
		Resource: "https://mcp.example.com/base/mcp", Verifier: &tokens{}, Scopes: []string{"mcp"},
		Metadata: auth.ResourceMetadata{Name: "Example"},
	})
	next := 0
	h := p.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { next++ }))
	const w = "/.well-known/oauth-protected-resource"
	_, err := p.Authenticate(post())
	if got := challenge(err.(*auth.Denied)); !strings.Contains(got, `resource_metadata="https://mcp.example.com`+w+`/base/mcp"`) {
		t.Errorf("the challenge is %s", got)
	}
	for _, path := range []string{w + "/base/mcp", w, w + "/mcp", "/base" + w, "/base" + w + "/mcp", "/base/mcp" + w} {
		r := httptest.NewRequest("GET", "http://10.0.0.1"+path, nil)
		r.Header.Set("X-Forwarded-Host", "evil.example.com")
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		var m auth.ResourceMetadata
		if err := json.Unmarshal(rec.Body.Bytes(), &m); err != nil {
			t.Fatalf("%s: %v: %s", path, err, rec.Body)
		}
		if rec.Code != 200 || m.Resource != "https://mcp.example.com/base/mcp" || len(m.AuthorizationServers) != 1 || m.AuthorizationServers[0] != issuer ||
			len(m.ScopesSupported) != 1 || m.Name != "Example" || rec.Header().Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: status %d, %v, %+v", path, rec.Code, rec.Header(), m)
		}
	}
	for method, status := range map[string]int{"OPTIONS": 204, "POST": 405, "HEAD": 200} {
		rec := httptest.NewRecorder()
		if h.ServeHTTP(rec, httptest.NewRequest(method, w, nil)); rec.Code != status {
			t.Errorf("%s: status %d", method, rec.Code)
		}
	}
	if next > 0 {
		t.Error("a request for the metadata was passed on")
	}
	for _, path := range []string{"/base/mcp", w + "/other", w + "/base", "/other" + w} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", path, nil))
	}
	if next != 4 {
		t.Errorf("%d of 4 other requests were passed on", next)
	}
}

func TestMiddleware(t *testing.T) {
	p := newProtector(t, auth.Options{Verifier: &tokens{table: map[string]auth.Identity{"good": granted("ann")}}})
	h := p.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i, _ := auth.FromContext(r.Context())
		io.WriteString(w, i.Subject)
	}))
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, post("Authorization", "Bearer good")); w.Code != 200 || w.Body.String() != "ann" {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	if h.ServeHTTP(w, post("Authorization", "Bearer bad")); w.Code != 401 || strings.Contains(w.Body.String(), "bad") {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
}

func TestWatchEndsStreamWithToken(t *testing.T) {
	r := post("Authorization", "Bearer t")
	for _, test := range []struct {
		name    string
		expires time.Duration // 0 for never
		change  func(*tokens) // after five minutes
		want    time.Duration // 0 for never
	}{
		{"expiry", time.Hour, func(*tokens) {}, time.Hour + time.Minute},
		{"revocation", time.Hour, func(v *tokens) { v.err = auth.ErrInvalidToken }, 6 * time.Minute},
		{"narrower scopes", 0, func(v *tokens) {
			v.table = map[string]auth.Identity{"t": granted("ann", func(i *auth.Identity) { i.Scopes = nil })}
		}, 6 * time.Minute},
		{"another principal", 0, func(v *tokens) { v.table = map[string]auth.Identity{"t": granted("bob")} }, 6 * time.Minute},
		{"unavailable verifier", time.Hour, func(v *tokens) { v.err = auth.ErrUnavailable }, time.Hour + time.Minute},
		{"unavailable verifier, no expiry", 0, func(v *tokens) { v.err = auth.ErrUnavailable }, 0},
		{"no expiry", 0, func(*tokens) {}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				v := &tokens{ttl: time.Hour, table: map[string]auth.Identity{"t": granted("ann", func(i *auth.Identity) {
					if test.expires > 0 {
						i.Expiry = start.Add(test.expires)
					}
				})}}
				p := newProtector(t, auth.Options{Verifier: v, Scopes: []string{"mcp"}})
				i, err := p.Authenticate(r)
				if err != nil {
					t.Fatal(err)
				}
				var end atomic.Int64
				stop := p.Watch(r, i, func(err error) {
					if !end.CompareAndSwap(0, int64(time.Since(start))) || !errors.Is(err, auth.ErrExpired) {
						t.Errorf("ended again, or with %v", err)
					}
				})
				stopped := p.Watch(r, i, func(err error) { t.Errorf("ended after stop: %v", err) })
				stopped()
				time.Sleep(5*time.Minute + time.Second)
				synctest.Wait()
				v.mu.Lock()
				test.change(v)
				v.mu.Unlock()
				time.Sleep(24 * time.Hour)
				synctest.Wait()
				ended := time.Duration(end.Load())
				if early := test.want - ended; early < -time.Second || early > time.Minute || (ended == 0) != (test.want == 0) {
					t.Errorf("ended after %v, want %v", ended, test.want)
				}
				stop()
			})
		})
	}
}

// The recheck of an open stream removes a revoked token from the cache.
func TestRecheckRemovesRevokedTokenFromCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &tokens{ttl: time.Hour, table: map[string]auth.Identity{"t": granted("ann")}}
		p := newProtector(t, auth.Options{Verifier: v})
		r := post("Authorization", "Bearer t")
		i, err := p.Authenticate(r)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Watch(r, i, func(error) {})()
		v.mu.Lock()
		v.err = auth.ErrInvalidToken
		v.mu.Unlock()
		if _, err := p.Authenticate(r); err != nil {
			t.Errorf("cached token: %v", err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if _, err := p.Authenticate(r); err == nil {
			t.Error("a revoked token is still cached")
		}
	})
}

// Concurrent requests with one token share one verification. If the verifying request is canceled,
// another one verifies.
func TestConcurrentRequestsShareVerification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		p := newProtector(t, auth.Options{CacheTTL: time.Hour, Verifier: auth.VerifierFunc(func(ctx context.Context, c *auth.Credentials) (*auth.Identity, error) {
			calls.Add(1)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			if c.Token.Reveal() == "bad" {
				return nil, auth.ErrInvalidToken
			}
			i := granted("ann")
			return &i, nil
		})})
		outcomes := make(chan error)
		try := func(ctx context.Context, token string) {
			go func() {
				_, err := p.Authenticate(post("Authorization", "Bearer "+token).WithContext(ctx))
				outcomes <- err
			}()
			synctest.Wait()
		}
		statuses := func(n int) map[int]int {
			count := map[int]int{}
			for range n {
				status := 200
				if denied, ok := errors.AsType[*auth.Denied](<-outcomes); ok {
					status = denied.Status
				}
				count[status]++
			}
			return count
		}
		first, cancel := context.WithCancel(t.Context())
		waiter, leave := context.WithCancel(t.Context())
		try(first, "good")
		try(waiter, "good")
		for range 10 {
			try(t.Context(), "good")
			try(t.Context(), "bad")
		}
		leave()
		cancel()
		if got := statuses(22); got[503] != 2 || got[200] != 10 || got[401] != 10 || calls.Load() != 3 {
			t.Errorf("statuses %v, verified %d times", got, calls.Load())
		}
	})
}

// Only a single Authorization header with the valid token is accepted. Denied errors do not repeat
// the header.
func FuzzAuthenticate(f *testing.F) {
	f.Add("Bearer secret-token", "", "", "")
	f.Add("bearer  secret-token ", "", "a=b", "proof")
	f.Add("DPoP secret-token", "Bearer secret-token", "access_token=secret-token", "")
	f.Add("Bearer \"secret-token\"", "", "%61ccess_token", "")
	p := newProtector(f, auth.Options{Scopes: []string{"mcp"}, Verifier: &prover{tokens: tokens{table: map[string]auth.Identity{"secret-token": granted("ann")}}}})
	f.Fuzz(func(t *testing.T, first, second, query, proof string) {
		r := post()
		r.URL.RawQuery = query
		r.Header["Authorization"] = []string{first}
		if second != "" {
			r.Header["Authorization"] = []string{first, second}
		}
		if proof != "" {
			r.Header["Dpop"] = []string{proof}
		}
		i, err := p.Authenticate(r)
		scheme, token, _ := strings.Cut(first, " ")
		want := strings.EqualFold(scheme, "bearer") && strings.Trim(token, " ") == "secret-token" && second == "" && !r.URL.Query().Has("access_token")
		if want != (err == nil) || (i != nil) != want {
			t.Fatalf("%q, %q, %q: %v", first, second, query, err)
		}
		if err == nil {
			return
		}
		w := httptest.NewRecorder()
		err.(*auth.Denied).Write(w)
		if text := fmt.Sprint(w.Code, w.Header(), w.Body, err); strings.Contains(text, "secret") || w.Code < 400 || w.Code > 403 {
			t.Fatal(text)
		}
	})
}

// challenge returns the challenge in the response to a rejected request.
func challenge(d *auth.Denied) string {
	header := http.Header{}
	d.SetHeader(header)
	return header.Get("WWW-Authenticate")
}

// metadataOf returns the metadata that p serves.
func metadataOf(t *testing.T, p *auth.Protector) (m auth.ResourceMetadata) {
	t.Helper()
	w := httptest.NewRecorder()
	p.Handler(nil).ServeHTTP(w, httptest.NewRequest("GET", "/.well-known/oauth-protected-resource", nil))
	if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return m
}
