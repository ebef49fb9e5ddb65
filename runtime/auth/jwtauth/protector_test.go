package jwtauth_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/jwtauth"
	"github.com/mcpwire/mcpwire/runtime/auth/machine"
)

// protected returns a handler behind a Protector, and the counter of the requests that it served.
func protected(t *testing.T, v jwtauth.Verifier) (http.Handler, *int) {
	t.Helper()
	p, err := auth.NewProtector(auth.Options{Resource: "https://mcp.example.com/mcp", Issuers: []string{issuerURL}, Verifier: v})
	if err != nil {
		t.Fatal(err)
	}
	served := new(int)
	return p.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*served++
		i, _ := auth.FromContext(r.Context())
		w.Write([]byte(i.Principal))
	})), served
}

func send(h http.Handler, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "https://mcp.example.com/mcp", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Proves AUTH-20, M-AUTH-02.
func TestProtectorServesOnlyItsOwnTokens(t *testing.T) {
	s := newIssuer()
	h, served := protected(t, s.verifier(t, jwtauth.Options{}))
	for name, changes := range map[string]map[string]any{
		"another audience": {"aud": "https://other.example.com"},
		"no audience":      {"aud": nil},
		"expired":          {"exp": time.Now().Add(-time.Hour).Unix()},
		"another issuer":   {"iss": "https://evil.example.com"},
	} {
		token := sign(t, p256(), jose.ES256, nil, with(changes))
		for range 2 { // not cached either
			w := send(h, "Authorization", "Bearer "+token)
			if w.Code != http.StatusUnauthorized || !strings.Contains(w.Header().Get("WWW-Authenticate"), `error="invalid_token"`) || *served != 0 {
				t.Errorf("%s: status %d, %s, %d requests served", name, w.Code, w.Header(), *served)
			}
		}
	}
	if w := send(h, "Authorization", "Bearer "+valid(t)); w.Code != http.StatusOK || w.Body.String() != issuerURL+"#ann" || *served != 1 {
		t.Errorf("status %d: %s, %d requests served", w.Code, w.Body, *served)
	}
}

func TestProtectorReturns503WhileIssuerIsDown(t *testing.T) {
	s := newIssuer()
	s.down = http.ErrHandlerTimeout
	h, served := protected(t, s.verifier(t, jwtauth.Options{}))
	w := send(h, "Authorization", "Bearer "+valid(t))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || w.Header().Get("WWW-Authenticate") != "" || *served != 0 {
		t.Errorf("status %d, %s", w.Code, w.Header())
	}
}

func TestProtectorRequiresProofsForBoundTokens(t *testing.T) {
	s := newIssuer()
	h, served := protected(t, s.verifier(t, jwtauth.Options{NonceKey: auth.NewSecret(strings.Repeat("k", 32))}))
	prover := machine.DPoP(nil)
	key, err := prover.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	proof := func(token, nonce string) string {
		t.Helper()
		text, err := prover.Proof(key, http.MethodPost, "https://mcp.example.com/mcp", auth.NewSecret(token), nonce)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	token := sign(t, p256(), jose.ES256, nil, with(map[string]any{"cnf": map[string]any{"jkt": thumbprintOf(t, proof("", ""))}}))

	refused := func(name, want string, header ...string) *httptest.ResponseRecorder {
		t.Helper()
		w := send(h, header...)
		if challenge := w.Header().Get("WWW-Authenticate"); w.Code != http.StatusUnauthorized || !strings.HasPrefix(challenge, "DPoP ") || !strings.Contains(challenge, want) {
			t.Errorf("%s: status %d, %s", name, w.Code, challenge)
		}
		return w
	}
	refused("as a bearer token", "invalid_token", "Authorization", "Bearer "+token)
	refused("without a proof", "invalid_dpop_proof", "Authorization", "DPoP "+token)
	refused("proof of another token", "invalid_dpop_proof", "Authorization", "DPoP "+token, "DPoP", proof("other", ""))
	refused("bearer token", "invalid_token", "Authorization", "DPoP "+valid(t), "DPoP", proof(valid(t), ""))
	nonce := refused("without a nonce", "use_dpop_nonce", "Authorization", "DPoP "+token, "DPoP", proof(token, "")).Header().Get("DPoP-Nonce")
	if nonce == "" || *served != 0 {
		t.Fatalf("nonce %q, %d requests served", nonce, *served)
	}
	text := proof(token, nonce)
	if w := send(h, "Authorization", "DPoP "+token, "DPoP", text); w.Code != http.StatusOK || *served != 1 {
		t.Errorf("status %d: %s, %s", w.Code, w.Body, w.Header())
	}
	refused("the same proof again", "invalid_dpop_proof", "Authorization", "DPoP "+token, "DPoP", text)
}
