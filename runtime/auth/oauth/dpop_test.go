package oauth_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth/internal/mockas"
	"github.com/mcpwire/mcpwire/runtime/auth/machine"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
)

// proofClaims are claims of a DPoP proof.
type proofClaims struct{ JTI, HTM, HTU, Nonce, ATH string }

func readProof(t *testing.T, r mockas.Request) (c proofClaims) {
	t.Helper()
	parts := strings.Split(r.Header.Get("DPoP"), ".")
	if len(parts) != 3 {
		t.Fatalf("%s %s has the proof %q", r.Method, r.URL, r.Header.Get("DPoP"))
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func jwkOf(t *testing.T, r mockas.Request) string {
	t.Helper()
	first, _, _ := strings.Cut(r.Header.Get("DPoP"), ".")
	text, err := base64.RawURLEncoding.DecodeString(first)
	var header struct{ JWK json.RawMessage }
	if err != nil || json.Unmarshal(text, &header) != nil || header.JWK == nil {
		t.Fatalf("the proof of %s %s has no key", r.Method, r.URL)
	}
	return string(header.JWK)
}

// newBoundWorld is a world whose tokens are bound to keys, with nonces of the token endpoint and of
// the server; "" demands no nonce.
func newBoundWorld(t *testing.T, tokenNonce, serverNonce string, configure func(*world, *oauth.Options)) *world {
	return newWorld(t, func(w *world, c *oauth.Options) {
		c.Prover = machine.DPoP(nil)
		w.document()["dpop_signing_alg_values_supported"] = []string{"ES256"}
		w.as.Override("/token", func(rw http.ResponseWriter, r *http.Request) {
			if tokenNonce != "" && nonceOf(r) != tokenNonce {
				rw.Header().Set("DPoP-Nonce", tokenNonce)
				mockas.Fail(rw, http.StatusBadRequest, "use_dpop_nonce", "")
				return
			}
			w.as.Serve(rw, r, "/token")
		})
		w.as.Type = "DPoP"
		w.network.Handle("mcp.example", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			token, bound := strings.CutPrefix(r.Header.Get("Authorization"), "DPoP ")
			switch {
			case r.Method == http.MethodGet:
				w.resource.ServeHTTP(rw, r)
			case !bound || w.as.Lookup(token) == nil:
				rw.Header().Set("WWW-Authenticate", `DPoP algs="ES256"`)
				rw.WriteHeader(http.StatusUnauthorized)
			case serverNonce != "" && nonceOf(r) != serverNonce:
				rw.Header().Set("DPoP-Nonce", serverNonce)
				rw.Header().Set("WWW-Authenticate", `DPoP error="use_dpop_nonce"`)
				rw.WriteHeader(http.StatusUnauthorized)
			}
		}))
		if configure != nil {
			configure(w, c)
		}
	})
}

func nonceOf(r *http.Request) string {
	parts := strings.Split(r.Header.Get("DPoP"), ".")
	if len(parts) != 3 {
		return ""
	}
	text, _ := base64.RawURLEncoding.DecodeString(parts[1])
	var c proofClaims
	json.Unmarshal(text, &c)
	return c.Nonce
}

func TestBoundTokens(t *testing.T) {
	for _, test := range []struct {
		name, tokenNonce, serverNonce string
		tokens, sent                  int // requests to the token endpoint and to the server
	}{
		{"without nonces", "", "", 1, 2},
		{"nonce of the token endpoint", "n1", "", 2, 2},
		{"nonce of the server", "", "n2", 1, 3},
		{"both", "n1", "n2", 2, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newBoundWorld(t, test.tokenNonce, test.serverNonce, nil)
			w.mustCall()
			tokens, sent := w.network.Requests("POST https://as.example/token"), w.network.Requests("POST "+serverURL)
			if len(tokens) != test.tokens || len(sent) != test.sent {
				t.Fatalf("requests: %q", w.network.Lines())
			}
			w.mustCall() // with the nonces that are known now
			if sent = w.network.Requests("POST " + serverURL); len(sent) != test.sent+1 {
				t.Fatalf("requests: %q", w.network.Lines())
			}
			var ids []string
			for _, r := range slices.Concat(tokens, sent[1:]) {
				c := readProof(t, r)
				if slices.Contains(ids, c.JTI) || c.HTM != r.Method || c.HTU != r.URL {
					t.Errorf("proof of %s %s: %+v", r.Method, r.URL, c)
				}
				ids = append(ids, c.JTI)
				if jwkOf(t, r) != jwkOf(t, tokens[0]) {
					t.Errorf("%s %s has another key", r.Method, r.URL)
				}
				if (c.ATH != "") != (r.URL == serverURL) {
					t.Errorf("ath of %s is %q", r.URL, c.ATH)
				}
			}
			// A refresh has the key of the token.
			w.as.Revoke(false)
			w.mustCall()
			refreshed := w.network.Requests("POST https://as.example/token")
			if last := refreshed[len(refreshed)-1]; last.Form.Get("grant_type") != "refresh_token" || jwkOf(t, last) != jwkOf(t, tokens[0]) {
				t.Errorf("refresh: %v", last.Form)
			}
		})
	}
}

func TestNonceRetriesAreLimited(t *testing.T) {
	w := newBoundWorld(t, "n1", "", func(w *world, _ *oauth.Options) {
		n := 0
		w.as.Override("/token", func(rw http.ResponseWriter, r *http.Request) {
			n++
			rw.Header().Set("DPoP-Nonce", strings.Repeat("n", n))
			mockas.Fail(rw, http.StatusBadRequest, "use_dpop_nonce", "")
		})
	})
	if _, err := w.call(); err == nil || !strings.Contains(err.Error(), "use_dpop_nonce") {
		t.Errorf("call: %v", err)
	}
	if n := len(w.network.Requests("POST https://as.example/token")); n != 2 {
		t.Errorf("%d token requests", n)
	}
	w = newBoundWorld(t, "", "", nil)
	w.mustCall()
	n := 0
	w.network.Handle("mcp.example", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		n++
		rw.Header().Set("DPoP-Nonce", strings.Repeat("n", n))
		rw.Header().Set("WWW-Authenticate", `DPoP error="use_dpop_nonce"`)
		rw.WriteHeader(http.StatusUnauthorized)
	}))
	if status, err := w.call(); status != http.StatusUnauthorized || err != nil || n != 4 {
		t.Errorf("%d, %v, %d requests", status, err, n)
	}
}

func TestRepeatedNonceIsARejection(t *testing.T) {
	w := newBoundWorld(t, "", "", nil)
	w.mustCall()
	w.network.Clear()
	next := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.resource.ServeHTTP(rw, r)
			return
		}
		rw.Header().Set("DPoP-Nonce", "same")
		rw.Header().Set("WWW-Authenticate", `DPoP error="use_dpop_nonce"`)
		rw.WriteHeader(http.StatusUnauthorized)
	})
	w.network.Handle("mcp.example", next)
	w.call()
	sent := w.network.Requests("POST " + serverURL)
	if len(w.tokenRequests("refresh_token")) != 1 || readProof(t, sent[0]).Nonce != "" || readProof(t, sent[1]).Nonce != "same" {
		t.Errorf("requests: %q", w.network.Lines())
	}
}

func TestBoundTokenIsNotSentAsBearer(t *testing.T) {
	store := oauth.NewMemory()
	w := newBoundWorld(t, "", "", func(_ *world, c *oauth.Options) { c.Store = store })
	w.mustCall()
	a, err := oauth.New(oauth.Options{Store: store, HTTP: w.network.Client()})
	if err != nil {
		t.Fatal(err)
	}
	w.network.Clear()
	if _, err := send(t.Context(), w.network, a, serverURL, tool); err == nil || !strings.Contains(err.Error(), "Options.Prover") || len(w.network.Lines()) != 0 {
		t.Errorf("%v; requests: %q", err, w.network.Lines())
	}
}

func TestBearerTokenIsRefusedIfDPoPIsRequired(t *testing.T) {
	for _, required := range []bool{false, true} {
		w := newWorld(t, func(w *world, c *oauth.Options) { c.Prover, c.RequireDPoP = machine.DPoP(nil), required })
		_, err := w.call()
		if required != (err != nil && strings.Contains(err.Error(), "RequireDPoP")) || !required && err != nil {
			t.Errorf("required %v: %v", required, err)
		}
		for _, r := range w.network.Requests("POST https://as.example/token") {
			if (r.Header.Get("DPoP") != "") != required { // the server does not offer DPoP
				t.Errorf("required %v: proof %q", required, r.Header.Get("DPoP"))
			}
		}
	}
}

// A bound token is replaced with a bound token even without a challenge, for example before it
// expires.
func TestBoundTokenIsReplacedByABoundToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBoundWorld(t, "", "", func(w *world, c *oauth.Options) {
			delete(w.document(), "dpop_signing_alg_values_supported") // the challenge of the server says it
			w.as.AddClient("machine", "")
			w.as.NoRefresh, w.as.Lifetime = true, 600
			c.Grant, c.Clients = clientCredentials{}, []oauth.Client{{Issuer: issuer, ID: "machine"}}
		})
		w.mustCall()
		time.Sleep(10 * time.Minute)
		w.mustCall()
		for _, r := range w.network.Requests("POST https://as.example/token") {
			readProof(t, r)
		}
		if n := len(w.network.Requests("POST " + serverURL)); n != 3 {
			t.Errorf("requests: %q", w.network.Lines())
		}
	})
}
