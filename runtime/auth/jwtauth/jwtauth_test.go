package jwtauth_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/jwtauth"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
)

const issuerURL = "https://as.example.com"

// issuer is an authorization server in memory. Tests may change its fields between requests.
type issuer struct {
	mu       sync.Mutex
	keys     []jose.JSONWebKey
	pages    map[string]string // replace what the issuer serves, by URL
	header   http.Header       // of the keys
	down     error
	requests []string
	block    chan struct{} // requests wait until it is closed; nil: they do not
}

func (s *issuer) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.requests = append(s.requests, req.URL.String())
	block := s.block
	s.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return nil, s.down
	}
	answer := func(status int, text string) (*http.Response, error) {
		header := http.Header{}
		if !strings.HasSuffix(req.URL.Path, "/keys") { // they need no content type
			header.Set("Content-Type", "application/json")
		}
		maps.Copy(header, s.header)
		if status == http.StatusFound {
			header.Set("Location", text)
		}
		return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(text)), Request: req}, nil
	}
	if page, ok := s.pages[req.URL.String()]; ok {
		if to, ok := strings.CutPrefix(page, "-> "); ok {
			return answer(http.StatusFound, to)
		}
		return answer(http.StatusOK, page)
	}
	switch req.URL.String() {
	case issuerURL + "/.well-known/oauth-authorization-server":
		return answer(http.StatusOK, `{"issuer":"`+issuerURL+`","jwks_uri":"`+issuerURL+`/keys"}`)
	case issuerURL + "/keys":
		text, err := json.Marshal(jose.JSONWebKeySet{Keys: s.keys})
		if err != nil {
			return nil, err
		}
		return answer(http.StatusOK, string(text))
	}
	return answer(http.StatusNotFound, "not found")
}

// asked returns the paths of the requests since the previous call of asked.
func (s *issuer) asked() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := strings.ReplaceAll(strings.Join(s.requests, " "), issuerURL, "")
	s.requests = nil
	return list
}

const discovered = "/.well-known/oauth-authorization-server /keys"

func (s *issuer) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *issuer) verifier(t *testing.T, o jwtauth.Options) jwtauth.Verifier {
	t.Helper()
	o.HTTP = &http.Client{Transport: s}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	v, err := jwtauth.New(issuerURL, &o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

var p256 = sync.OnceValue(func() *ecdsa.PrivateKey { return newP256() })

func newP256() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

var rsa2048 = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func public(key crypto.Signer, id string) jose.JSONWebKey {
	return jose.JSONWebKey{Key: key.Public(), KeyID: id}
}

// newIssuer returns an issuer with the key of p256, whose id is "a".
func newIssuer() *issuer {
	return &issuer{keys: []jose.JSONWebKey{public(p256(), "a")}, pages: map[string]string{}}
}

// sign returns a token. header replaces the members typ and kid, "at+jwt" and "a".
func sign(t *testing.T, key any, alg jose.SignatureAlgorithm, header, claims map[string]any) string {
	t.Helper()
	o := (&jose.SignerOptions{}).WithType("at+jwt").WithHeader("kid", "a")
	for name, value := range header {
		if o.ExtraHeaders[jose.HeaderKey(name)] = value; value == nil {
			delete(o.ExtraHeaders, jose.HeaderKey(name))
		}
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, o)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// with returns valid claims with changes: nil removes one.
func with(changes map[string]any) map[string]any {
	claims := map[string]any{
		"iss": issuerURL, "sub": "ann", "aud": "https://mcp.example.com/mcp", "client_id": "app",
		"exp": time.Now().Add(time.Hour).Unix(), "scope": "read write",
	}
	for name, value := range changes {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	return claims
}

func valid(t *testing.T) string { return sign(t, p256(), jose.ES256, nil, with(nil)) }

func bearer(token string) *auth.Credentials {
	return &auth.Credentials{Scheme: "Bearer", Token: auth.NewSecret(token), Method: "POST", URL: "https://mcp.example.com/mcp"}
}

func TestVerifyReturnsClaims(t *testing.T) {
	s := newIssuer()
	v := s.verifier(t, jwtauth.Options{})
	expiry := time.Now().Add(time.Hour).Truncate(time.Second)
	for _, c := range []struct {
		name   string
		claims map[string]any
		want   auth.Identity
	}{
		{"user", map[string]any{"email": "ann@example.com"}, auth.Identity{
			Subject: "ann", ClientID: "app", Audience: []string{"https://mcp.example.com/mcp"}, Scopes: []string{"read", "write"},
			Claims: map[string]any{"email": "ann@example.com"},
		}},
		{"other forms", map[string]any{"aud": []string{"a", "b"}, "scope": nil, "scp": []string{"read"}, "client_id": nil, "azp": "app"}, auth.Identity{
			Subject: "ann", ClientID: "app", Audience: []string{"a", "b"}, Scopes: []string{"read"}, Claims: map[string]any{"azp": "app"},
		}},
		{"bound to a key", map[string]any{"scope": nil, "scp": "read", "cnf": map[string]any{"jkt": "thumbprint"}}, auth.Identity{
			Subject: "ann", ClientID: "app", Audience: []string{"https://mcp.example.com/mcp"}, Scopes: []string{"read"},
			Claims: map[string]any{}, Thumbprint: "thumbprint",
		}},
	} {
		c.claims["exp"] = expiry.Unix()
		c.want.Issuer = issuerURL
		got, err := v.Verify(t.Context(), bearer(sign(t, p256(), jose.ES256, nil, with(c.claims))))
		if err != nil {
			t.Error(c.name, err)
			continue
		}
		if !got.Expiry.Equal(expiry) {
			t.Errorf("%s: expiry %v, want %v", c.name, got.Expiry, expiry)
		}
		if got.Expiry = (time.Time{}); !reflect.DeepEqual(got, &c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, &c.want)
		}
	}
	if got := s.asked(); got != discovered {
		t.Errorf("requests for three tokens: %s", got)
	}
}

func TestVerifySupportsAlgorithms(t *testing.T) {
	p384, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	s := newIssuer()
	for _, c := range []struct {
		alg   jose.SignatureAlgorithm
		key   crypto.Signer
		other bool // not accepted unless it is named
	}{
		{jose.RS256, rsa2048(), false}, {jose.PS256, rsa2048(), false}, {jose.ES256, p256(), false}, {jose.ES384, p384, false},
		{jose.EdDSA, ed, false}, {jose.RS512, rsa2048(), true},
	} {
		s.keys = []jose.JSONWebKey{public(c.key, "a")}
		token := sign(t, c.key, c.alg, nil, with(nil))
		_, err := s.verifier(t, jwtauth.Options{}).Verify(t.Context(), bearer(token))
		if c.other != errors.Is(err, auth.ErrInvalidToken) || c.other == (err == nil) {
			t.Errorf("%s: %v", c.alg, err)
		}
		if _, err := s.verifier(t, jwtauth.Options{Algorithms: []string{string(c.alg)}}).Verify(t.Context(), bearer(token)); err != nil {
			t.Errorf("%s, named: %v", c.alg, err)
		}
	}
}

// Proves AUTH-20, M-AUTH-02.
func TestVerifyRejectsTokens(t *testing.T) {
	s := newIssuer()
	weak, _ := rsa.GenerateKey(rand.Reader, 1024)
	s.keys = append(s.keys,
		public(rsa2048(), "rsa"),
		jose.JSONWebKey{Key: rsa2048().Public(), KeyID: "rs256", Algorithm: "RS256"},
		jose.JSONWebKey{Key: p256().Public(), KeyID: "encryption", Use: "enc"},
		public(weak, "weak"),
	)
	der, err := x509.MarshalPKIXPublicKey(p256().Public())
	if err != nil {
		t.Fatal(err)
	}
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	other := newP256()
	parts := strings.Split(valid(t), ".")
	encoded := base64.RawURLEncoding.EncodeToString
	changed, _ := json.Marshal(with(map[string]any{"sub": "eve"}))
	for _, c := range []struct {
		want  string
		token string
	}{
		{`algorithm "none"`, encoded([]byte(`{"alg":"none","typ":"at+jwt"}`)) + "." + parts[1] + "."},
		{`algorithm "HS256"`, sign(t, publicPEM, jose.HS256, nil, with(nil))},
		{"wrong signature", parts[0] + "." + encoded(changed) + "." + parts[2]},
		{"wrong signature", sign(t, other, jose.ES256, nil, with(nil))},
		{"wrong signature", sign(t, other, jose.ES256, map[string]any{"jwk": public(other, "a")}, with(nil))},
		{"wrong signature", sign(t, p256(), jose.ES256, map[string]any{"crit": []string{"extension"}, "extension": true}, with(nil))},
		{"no key for ES256", sign(t, p256(), jose.ES256, map[string]any{"kid": "rsa"}, with(nil))},
		{"no key for PS256", sign(t, rsa2048(), jose.PS256, map[string]any{"kid": "rs256"}, with(nil))},
		{"no key for RS256", sign(t, weak, jose.RS256, map[string]any{"kid": "weak"}, with(nil))},
		{`no key with the id "encryption"`, sign(t, p256(), jose.ES256, map[string]any{"kid": "encryption"}, with(nil))},
		{`type "dpop+jwt"`, sign(t, p256(), jose.ES256, map[string]any{"typ": "dpop+jwt"}, with(nil))},
		{`type "id+jwt"`, sign(t, p256(), jose.ES256, map[string]any{"typ": "application/id+jwt"}, with(nil))},
		{"issuer", sign(t, p256(), jose.ES256, nil, with(map[string]any{"iss": "https://evil.example.com"}))},
		{"issuer", sign(t, p256(), jose.ES256, nil, with(map[string]any{"iss": issuerURL + "/"}))},
		{"issuer", sign(t, p256(), jose.ES256, nil, with(map[string]any{"iss": nil}))},
		{"no expiry", sign(t, p256(), jose.ES256, nil, with(map[string]any{"exp": nil}))},
		{"not valid before", sign(t, p256(), jose.ES256, nil, with(map[string]any{"nbf": time.Now().Add(10 * time.Minute).Unix()}))},
		{"method other than DPoP", sign(t, p256(), jose.ES256, nil, with(map[string]any{"cnf": map[string]any{"x5t#S256": "a"}}))},
		{"malformed claims", sign(t, p256(), jose.ES256, nil, with(map[string]any{"sub": 1}))},
		{"not a signed JSON Web Token", "planted-opaque-token"},
		{"not a signed JSON Web Token", "planted.opaque.token"},
		{"not a signed JSON Web Token", encoded([]byte(`{"alg":"ES256","alg":"ES256"}`)) + "." + parts[1] + "." + parts[2]},
		{"more than", valid(t) + strings.Repeat("A", 16<<10)},
	} {
		i, err := s.verifier(t, jwtauth.Options{}).Verify(t.Context(), bearer(c.token))
		if i != nil || !errors.Is(err, auth.ErrInvalidToken) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v", c.want, i, err)
		} else if strings.Contains(err.Error(), c.token) || strings.Contains(err.Error(), "planted") || len(err.Error()) > 500 {
			t.Errorf("the error has the token: %v", err)
		}
	}
}

func TestVerifyAcceptsEachTypeOfToken(t *testing.T) {
	s := newIssuer()
	for _, typ := range []any{"at+jwt", "application/at+jwt", "AT+JWT", "JWT", nil} {
		if _, err := s.verifier(t, jwtauth.Options{}).Verify(t.Context(), bearer(sign(t, p256(), jose.ES256, map[string]any{"typ": typ}, with(nil)))); err != nil {
			t.Errorf("%v: %v", typ, err)
		}
	}
	strict := s.verifier(t, jwtauth.Options{Types: []string{"at+jwt"}})
	if _, err := strict.Verify(t.Context(), bearer(sign(t, p256(), jose.ES256, map[string]any{"typ": "JWT"}, with(nil)))); !errors.Is(err, auth.ErrInvalidToken) {
		t.Errorf("type JWT: %v, want ErrInvalidToken", err)
	}
}

func TestVerifyTriesKeysForTokenWithoutKeyID(t *testing.T) {
	s := newIssuer()
	s.keys = append([]jose.JSONWebKey{public(newP256(), "b"), public(rsa2048(), "rsa")}, s.keys...)
	token := sign(t, p256(), jose.ES256, map[string]any{"kid": nil}, with(nil))
	if _, err := s.verifier(t, jwtauth.Options{}).Verify(t.Context(), bearer(token)); err != nil {
		t.Error(err)
	}
	for range 8 { // more would make each token expensive
		s.keys = append([]jose.JSONWebKey{public(newP256(), "b")}, s.keys...)
	}
	if _, err := s.verifier(t, jwtauth.Options{}).Verify(t.Context(), bearer(token)); !errors.Is(err, auth.ErrInvalidToken) {
		t.Errorf("the ninth key was tried: %v", err)
	}
}

func TestNewRejectsInvalidOptions(t *testing.T) {
	for _, c := range []struct {
		want, issuer string
		options      *jwtauth.Options
	}{
		{`algorithm "HS256" is not supported`, issuerURL, &jwtauth.Options{Algorithms: []string{"HS256"}}},
		{`algorithm "none" is not supported`, issuerURL, &jwtauth.Options{Algorithms: []string{"none"}}},
		{"not https", "http://as.example.com", nil},
		{"not https", "as.example.com", nil},
		{"issuer", "https://planted:planted@as.example.com", nil},
		{"Keys", issuerURL, &jwtauth.Options{Keys: "http://as.example.com/keys"}},
		{"32", issuerURL, &jwtauth.Options{NonceKey: auth.NewSecret("planted")}},
		{"negative", issuerURL, &jwtauth.Options{Skew: -1}},
	} {
		if _, err := jwtauth.New(c.issuer, c.options); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %v", c.want, err)
		}
	}
	for _, loopback := range []string{"http://localhost:8080", "http://127.0.0.1:8080", "http://[::1]:8080"} {
		if _, err := jwtauth.New(loopback, nil); err != nil {
			t.Error(err)
		}
	}
}

func TestRotatedKeyIsFetchedForItsFirstToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newIssuer()
		v := s.verifier(t, jwtauth.Options{})
		if _, err := v.Verify(t.Context(), bearer(valid(t))); err != nil {
			t.Fatal(err)
		}
		s.asked()
		time.Sleep(30 * time.Second)
		next := newP256()
		s.set(func() { s.keys = []jose.JSONWebKey{public(next, "b")} })
		if _, err := v.Verify(t.Context(), bearer(sign(t, next, jose.ES256, map[string]any{"kid": "b"}, with(nil)))); err != nil {
			t.Error(err)
		}
		if got := s.asked(); got != discovered {
			t.Errorf("requests: %s", got)
		}
		// The key set no longer has the old key.
		if _, err := v.Verify(t.Context(), bearer(valid(t))); !errors.Is(err, auth.ErrInvalidToken) {
			t.Errorf("token of the old key: %v", err)
		}
	})
}

func TestFetchesForUnknownKeyIDsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newIssuer()
		v := s.verifier(t, jwtauth.Options{})
		for i := range 1000 {
			token := sign(t, p256(), jose.ES256, map[string]any{"kid": fmt.Sprint("random ", i)}, with(nil))
			if _, err := v.Verify(t.Context(), bearer(token)); !errors.Is(err, auth.ErrInvalidToken) {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if got := strings.Count(s.asked(), "/keys"); got != 4 {
			t.Errorf("%d fetches in 100 seconds, want 4", got)
		}
	})
}

func TestConcurrentRequestsShareOneFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newIssuer()
		s.block = make(chan struct{})
		v := s.verifier(t, jwtauth.Options{})
		token := valid(t)
		impatient, cancel := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() { _, err := v.Verify(impatient, bearer(token)); first <- err }()
		synctest.Wait()
		others := make(chan error, 20)
		for range cap(others) {
			go func() { _, err := v.Verify(t.Context(), bearer(token)); others <- err }()
		}
		synctest.Wait()
		cancel() // ends the request that has begun the fetch, not the fetch
		if err := <-first; !errors.Is(err, auth.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("canceled request: %v", err)
		}
		close(s.block)
		for range cap(others) {
			if err := <-others; err != nil {
				t.Error(err)
			}
		}
		if got := s.asked(); got != discovered {
			t.Errorf("requests: %s", got)
		}
	})
}

func TestKeysAreFetchedAgainAfterMaxAge(t *testing.T) {
	for _, c := range []struct {
		control string
		want    time.Duration
	}{
		{"", time.Hour},
		{"public, max-age=7200", 2 * time.Hour},
		{"max-age=1", 5 * time.Minute},
		{"max-age=99999999", 24*time.Hour - time.Second}, // then they are stale
		{"no-store", 5 * time.Minute},
		{"max-age=-1", time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newIssuer()
			s.header = http.Header{"Cache-Control": {c.control}}
			v := s.verifier(t, jwtauth.Options{Keys: issuerURL + "/keys"})
			verify := func() {
				if _, err := v.Verify(t.Context(), bearer(valid(t))); err != nil {
					t.Error(c.control, err)
				}
			}
			verify()
			time.Sleep(c.want - time.Second)
			verify()
			if got := s.asked(); got != "/keys" {
				t.Errorf("%s: requests before %v: %s", c.control, c.want, got)
			}
			time.Sleep(2 * time.Second)
			verify()
			if got := s.asked(); got != "/keys" {
				t.Errorf("%s: requests after %v: %s", c.control, c.want, got)
			}
		})
	}
}

// A request whose key is known waits only shortly for fresh keys of an issuer that hangs.
func TestStaleKeysAreUsedWhileIssuerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newIssuer()
		v := s.verifier(t, jwtauth.Options{})
		verify := func(most time.Duration) {
			t.Helper()
			begun := time.Now()
			if _, err := v.Verify(t.Context(), bearer(valid(t))); err != nil {
				t.Error(err)
			}
			if waited := time.Since(begun); waited > most {
				t.Errorf("a request waited %v", waited)
			}
		}
		verify(0)
		time.Sleep(time.Hour)
		hang := make(chan struct{})
		s.set(func() { s.block = hang })
		verify(500 * time.Millisecond)
		time.Sleep(10 * time.Second) // the fetch has failed
		verify(0)
		s.set(func() { s.block = nil; s.keys = nil })
		close(hang)
	})
}

func TestKeysAreUsedForOneDayWhileIssuerIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newIssuer()
		var log bytes.Buffer
		v := s.verifier(t, jwtauth.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		verify := func() error {
			_, err := v.Verify(t.Context(), bearer(valid(t)))
			return err
		}
		if err := verify(); err != nil {
			t.Fatal(err)
		}
		s.set(func() { s.down = errors.New("connection refused") })
		time.Sleep(time.Hour)
		s.asked()
		for range 100 { // within one second
			if err := verify(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if got := s.asked(); got != "/.well-known/oauth-authorization-server" { // it is not asked for the other places
			t.Errorf("requests: %s", got)
		}
		if !strings.Contains(log.String(), "connection refused") {
			t.Errorf("log: %s", log.String())
		}
		unknown := sign(t, p256(), jose.ES256, map[string]any{"kid": "new"}, with(nil))
		if _, err := v.Verify(t.Context(), bearer(unknown)); !errors.Is(err, auth.ErrUnavailable) {
			t.Errorf("unknown key: %v, want ErrUnavailable: the issuer may have rotated its keys", err)
		}

		// While there are keys, a request does not wait for an unresponsive issuer.
		s.set(func() { s.down, s.block = nil, make(chan struct{}) })
		time.Sleep(time.Minute)
		start := time.Now()
		if err := verify(); err != nil || time.Since(start) > 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		synctest.Wait()
		time.Sleep(23 * time.Hour)
		if err := verify(); !errors.Is(err, auth.ErrUnavailable) {
			t.Errorf("after a day: %v, want ErrUnavailable", err)
		}

		s.set(func() { close(s.block); s.block = nil })
		time.Sleep(5 * time.Second)
		if err := verify(); err != nil {
			t.Errorf("after the issuer is back: %v", err)
		}
	})
}

func TestVerifyIsUnavailableWithoutKeys(t *testing.T) {
	const metadata = issuerURL + "/.well-known/oauth-authorization-server"
	openid := issuerURL + "/.well-known/openid-configuration"
	for _, c := range []struct {
		want  string
		pages map[string]string
	}{
		{"https://evil.example.com", map[string]string{metadata: `{"issuer":"https://evil.example.com","jwks_uri":"` + issuerURL + `/keys"}`}},
		{"not https", map[string]string{metadata: `{"issuer":"` + issuerURL + `","jwks_uri":"http://as.example.com/keys"}`}},
		{"not a public address", map[string]string{metadata: `{"issuer":"` + issuerURL + `","jwks_uri":"https://169.254.169.254/keys"}`}},
		{"not allowed", map[string]string{metadata: `{"issuer":"` + issuerURL + `","jwks_uri":"https://localhost/keys"}`}},
		{"has no jwks_uri", map[string]string{metadata: `{"issuer":"` + issuerURL + `"}`}},
		{"not a JSON object", map[string]string{metadata: `<html>planted</html>`, openid: `[]`}},
		{"not a key set", map[string]string{issuerURL + "/keys": `<html>planted</html>`}},
		{"more than 1048576 bytes", map[string]string{issuerURL + "/keys": strings.Repeat(" ", 1<<20) + `{"keys":[]}`}},
		{"more than 100", map[string]string{issuerURL + "/keys": `{"keys":[` + strings.Repeat("{},", 100) + `{}]}`}},
		{"no usable key", map[string]string{issuerURL + "/keys": `{"keys":[{"kty":"new"},{"kty":"oct","k":"AAAA"}]}`}},
		{"more than 3 redirects", map[string]string{issuerURL + "/keys": "-> " + issuerURL + "/keys"}},
		{"not https", map[string]string{issuerURL + "/keys": "-> http://as.example.com/keys"}},
		{"not a public address", map[string]string{issuerURL + "/keys": "-> https://10.0.0.1/keys"}},
	} {
		s := newIssuer()
		s.pages = c.pages
		_, err := s.verifier(t, jwtauth.Options{}).Verify(t.Context(), bearer(valid(t)))
		if !errors.Is(err, auth.ErrUnavailable) || errors.Is(err, auth.ErrInvalidToken) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %v", c.want, err)
		}
	}
}

func TestKeysAreFetchedFromALoopbackIssuer(t *testing.T) {
	var base string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/.well-known/oauth-authorization-server":
			fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, base, base+"/keys")
		case "/keys":
			json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public(p256(), "a")}})
		}
	}))
	defer server.Close()
	base = server.URL
	v, err := jwtauth.New(base, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(t.Context(), bearer(sign(t, p256(), jose.ES256, nil, with(map[string]any{"iss": base})))); err != nil {
		t.Error(err)
	}
}

func TestNetworkAllowsAddressOfKeys(t *testing.T) {
	s := newIssuer()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: s.keys})
	if err != nil {
		t.Fatal(err)
	}
	s.pages = map[string]string{
		issuerURL + "/.well-known/oauth-authorization-server": `{"issuer":"` + issuerURL + `","jwks_uri":"https://10.0.0.1/keys"}`,
		"https://10.0.0.1/keys":                               string(text),
	}
	allowed := oauth.Network{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	if _, err := s.verifier(t, jwtauth.Options{Network: allowed}).Verify(t.Context(), bearer(valid(t))); err != nil {
		t.Error(err)
	}
}

func TestMetadataOfAnotherIssuerEndsDiscovery(t *testing.T) {
	s := newIssuer()
	s.pages[issuerURL+"/.well-known/oauth-authorization-server"] = `{"issuer":"https://evil.example.com"}`
	if _, err := s.verifier(t, jwtauth.Options{}).Verify(t.Context(), bearer(valid(t))); !errors.Is(err, auth.ErrUnavailable) {
		t.Error(err)
	}
	if got := s.asked(); got != "/.well-known/oauth-authorization-server" {
		t.Errorf("requests: %s", got)
	}
}

func TestMetadataIsFoundAtEachURL(t *testing.T) {
	for _, c := range []struct{ issuer, places string }{
		{issuerURL, "/.well-known/oauth-authorization-server /.well-known/openid-configuration"},
		{issuerURL + "/tenant", "/.well-known/oauth-authorization-server/tenant /.well-known/openid-configuration/tenant /tenant/.well-known/openid-configuration"},
	} {
		s := newIssuer()
		places := strings.Fields(c.places)
		s.pages = map[string]string{
			issuerURL + "/.well-known/oauth-authorization-server": "<html>", // that of another issuer
			issuerURL + places[len(places)-1]:                     `{"issuer":"` + c.issuer + `","jwks_uri":"` + issuerURL + `/keys"}`,
		}
		v, err := jwtauth.New(c.issuer, &jwtauth.Options{HTTP: &http.Client{Transport: s}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Verify(t.Context(), bearer(sign(t, p256(), jose.ES256, nil, with(map[string]any{"iss": c.issuer})))); err != nil {
			t.Error(err)
		}
		if got := s.asked(); got != c.places+" /keys" {
			t.Errorf("requests: %s", got)
		}
	}
}

func TestUnusableKeysInTheSetAreIgnored(t *testing.T) {
	s := newIssuer()
	key, err := json.Marshal(s.keys[0])
	if err != nil {
		t.Fatal(err)
	}
	s.pages[issuerURL+"/keys"] = `{"keys":[{"kty":"new","kid":"a"},{"kty":"EC","crv":"P-256","kid":"a"},17,` + string(key) + `]}`
	if _, err := s.verifier(t, jwtauth.Options{}).Verify(t.Context(), bearer(valid(t))); err != nil {
		t.Error(err)
	}
}

type transport func()

func (f transport) RoundTrip(*http.Request) (*http.Response, error) {
	f()
	return nil, errors.New("unused")
}

func TestPanicOfTransportFailsFetch(t *testing.T) {
	for _, f := range []func(){func() { panic("broken transport") }, runtime.Goexit} {
		v, err := jwtauth.New(issuerURL, &jwtauth.Options{HTTP: &http.Client{Transport: transport(f)}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Verify(t.Context(), bearer(valid(t))); !errors.Is(err, auth.ErrUnavailable) {
			t.Error(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	s := newIssuer()
	v, err := jwtauth.New(issuerURL, &jwtauth.Options{HTTP: &http.Client{Transport: s}})
	if err != nil {
		b.Fatal(err)
	}
	t := &testing.T{}
	c := bearer(sign(t, p256(), jose.ES256, nil, with(nil)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Verify(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}
