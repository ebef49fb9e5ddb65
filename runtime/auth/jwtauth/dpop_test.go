package jwtauth_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/jwtauth"
	"github.com/mcpwire/mcpwire/runtime/auth/machine"
)

// A proof of package machine is accepted, so client and server agree.
func TestProofOfClientIsAccepted(t *testing.T) {
	prover := machine.DPoP(nil)
	key, err := prover.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	token := auth.NewSecret("access")
	v := newIssuer().verifier(t, jwtauth.Options{})
	for range 2 {
		proof, err := prover.Proof(key, "POST", "https://MCP.example.com:443/mcp?a=b", token, "")
		if err != nil {
			t.Fatal(err)
		}
		c := &auth.Credentials{Scheme: "DPoP", Token: token, Proof: proof, Method: "POST", URL: "https://mcp.example.com/mcp"}
		if err := v.VerifyProof(t.Context(), c, &auth.Identity{Thumbprint: thumbprintOf(t, proof)}); err != nil {
			t.Error(err)
		}
	}
}

func thumbprintOf(t *testing.T, proof string) string {
	t.Helper()
	token, err := jose.ParseSignedCompact(proof, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	hash, err := token.Signatures[0].Protected.JSONWebKey.Thumbprint(crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(hash)
}

// The proof of RFC 9449, section 7.1, with the thumbprint of section 6.1.
func TestProofOfSpecificationIsAccepted(t *testing.T) {
	const proof = "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJoRjQyVVFVZldWQVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19.eyJqdGkiOiJlMWozVl9iS2ljOC1MQUVCIiwiaHRtIjoiR0VUIiwiaHR1IjoiaHR0cHM6Ly9yZXNvdXJjZS5leGFtcGxlLm9yZy9wcm90ZWN0ZWRyZXNvdXJjZSIsImlhdCI6MTU2MjI2MjYxOCwiYXRoIjoiZlVIeU8ycjJaM0RaNTNFc05yV0JiMHhXWG9hTnk1OUlpS0NBcWtzbVFFbyJ9.2oW9RP35yRqzhrtNP86L-Ey71EOptxRimPPToA1plemAgR6pxHF8y6-yqyVnmcw6Fy1dqd-jfxSYoMxhAJpLjA"
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Unix(1562262618, 0)))
		c := &auth.Credentials{Scheme: "DPoP", Token: auth.NewSecret("Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU"), Proof: proof,
			Method: "GET", URL: "https://resource.example.org/protectedresource"}
		if err := newIssuer().verifier(t, jwtauth.Options{}).VerifyProof(t.Context(), c, &auth.Identity{Thumbprint: "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}); err != nil {
			t.Error(err)
		}
	})
}

// proof returns a proof of the key p256 for the token "access". A nil value removes a member.
func proof(t *testing.T, header, claims map[string]any) string {
	t.Helper()
	hash := sha256.Sum256([]byte("access"))
	h := map[string]any{"typ": "dpop+jwt", "kid": nil, "jwk": public(p256(), "")}
	c := map[string]any{
		"jti": fmt.Sprint(time.Now().UnixNano(), claims), "htm": "POST", "htu": "https://mcp.example.com/mcp", "iat": time.Now().Unix(),
		"ath": base64.RawURLEncoding.EncodeToString(hash[:]),
	}
	for name, value := range header {
		h[name] = value
	}
	for name, value := range claims {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
	return sign(t, p256(), jose.ES256, h, c)
}

func dpop(proof string) *auth.Credentials {
	return &auth.Credentials{Scheme: "DPoP", Token: auth.NewSecret("access"), Proof: proof, Method: "POST", URL: "https://mcp.example.com/mcp"}
}

func boundTo(t *testing.T, key *ecdsa.PrivateKey) *auth.Identity {
	t.Helper()
	jwk := public(key, "")
	hash, err := jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return &auth.Identity{Thumbprint: base64.RawURLEncoding.EncodeToString(hash)}
}

func TestVerifyProofRejectsProofs(t *testing.T) {
	v := newIssuer().verifier(t, jwtauth.Options{})
	now := time.Now().Unix()
	identity := boundTo(t, p256())
	parts := strings.Split(proof(t, nil, nil), ".")
	encoded := base64.RawURLEncoding.EncodeToString
	for _, c := range []struct {
		want  string
		proof string
	}{
		{"not a signed JSON Web Token", "planted"},
		{"not a signed JSON Web Token", ""},
		{"more than", strings.Repeat("A", 17<<10)},
		{`algorithm "none"`, encoded([]byte(`{"alg":"none","typ":"dpop+jwt"}`)) + "." + parts[1] + "."},
		{`algorithm "HS256"`, sign(t, []byte(strings.Repeat("k", 32)), jose.HS256, map[string]any{"typ": "dpop+jwt"}, nil)},
		{`type "JWT"`, proof(t, map[string]any{"typ": "JWT"}, nil)},
		{"no usable key", proof(t, map[string]any{"jwk": nil}, nil)},
		{"not a signed JSON Web Token", proof(t, map[string]any{"jwk": jose.JSONWebKey{Key: p256()}}, nil)},
		{"key is not that of the token", proof(t, map[string]any{"jwk": public(newP256(), "")}, nil)},
		{"wrong signature", parts[0] + "." + parts[1] + "." + encoded(make([]byte, 64))},
		{"id of 0 bytes", proof(t, nil, map[string]any{"jti": nil})},
		{"id of 513 bytes", proof(t, nil, map[string]any{"jti": strings.Repeat("a", 513)})},
		{`method "GET"`, proof(t, nil, map[string]any{"htm": "GET"})},
		{"URL", proof(t, nil, map[string]any{"htu": "https://mcp.example.com/other"})},
		{"URL", proof(t, nil, map[string]any{"htu": "https://evil.example.com/mcp"})},
		{"URL", proof(t, nil, map[string]any{"htu": nil})},
		{"another token", proof(t, nil, map[string]any{"ath": nil})},
		{"another token", proof(t, nil, map[string]any{"ath": "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo"})},
		{"no time", proof(t, nil, map[string]any{"iat": nil})},
		{"seconds ago", proof(t, nil, map[string]any{"iat": now - 400})},
		{"seconds ago", proof(t, nil, map[string]any{"iat": now + 400})},
		{"malformed claims", proof(t, nil, map[string]any{"htm": 1})},
	} {
		err := v.VerifyProof(t.Context(), dpop(c.proof), identity)
		if !errors.Is(err, auth.ErrInvalidToken) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %v", c.want, err)
		}
	}
	if err := v.VerifyProof(t.Context(), dpop(proof(t, nil, nil)), &auth.Identity{}); !errors.Is(err, auth.ErrInvalidToken) {
		t.Errorf("token without key: %v", err)
	}
}

func TestProofIsAcceptedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newIssuer().verifier(t, jwtauth.Options{})
		identity := boundTo(t, p256())
		early := proof(t, nil, map[string]any{"iat": time.Now().Add(5 * time.Minute).Unix()})
		if err := v.VerifyProof(t.Context(), dpop(early), identity); err != nil {
			t.Fatal(err)
		}
		for range 100 { // until the proof is too old for its time alone
			time.Sleep(6 * time.Second)
			if err := v.VerifyProof(t.Context(), dpop(early), identity); err == nil || !strings.Contains(err.Error(), "used before") {
				t.Fatal(err)
			}
			if err := v.VerifyProof(t.Context(), dpop(proof(t, nil, nil)), identity); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if err := v.VerifyProof(t.Context(), dpop(early), identity); err == nil || !strings.Contains(err.Error(), "seconds ago") {
			t.Error(err)
		}
	})
}

func TestProofNeedsANonce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, identity := newIssuer(), boundTo(t, p256())
		o := jwtauth.Options{NonceKey: auth.NewSecret(strings.Repeat("k", 32)), NonceLifetime: time.Minute}
		v := s.verifier(t, o)
		nonceFor := func(nonce any) string {
			t.Helper()
			err := v.VerifyProof(t.Context(), dpop(proof(t, nil, map[string]any{"nonce": nonce})), identity)
			if err == nil {
				return ""
			}
			e, ok := errors.AsType[*auth.NonceError](err)
			if !ok || e.Nonce == "" {
				t.Fatalf("nonce %v: %v", nonce, err)
			}
			return e.Nonce
		}
		nonce := nonceFor(nil)
		if nonceFor(nonce) != "" {
			t.Error("the nonce of the server was refused")
		}
		forged := "A" + nonce[1:]
		if nonce[0] == 'A' {
			forged = "B" + nonce[1:]
		}
		for _, other := range []string{"", "x", forged, nonce + "AAAA"} {
			if nonceFor(other) == "" {
				t.Errorf("nonce %q was accepted", other)
			}
		}
		v = s.verifier(t, o) // another process with the same key
		if nonceFor(nonce) != "" {
			t.Error("the nonce of another process was refused")
		}
		time.Sleep(time.Minute + time.Second)
		fresh := nonceFor(nonce)
		if fresh == "" || fresh == nonce {
			t.Errorf("expired nonce: %q", fresh)
		}
		o.NonceKey = auth.NewSecret(strings.Repeat("o", 32))
		v = s.verifier(t, o)
		if nonceFor(fresh) == "" {
			t.Error("the nonce of another key was accepted")
		}
	})
}

func BenchmarkVerifyProof(b *testing.B) {
	v, err := jwtauth.New(issuerURL, nil)
	if err != nil {
		b.Fatal(err)
	}
	prover := machine.DPoP(nil)
	key, err := prover.NewKey()
	if err != nil {
		b.Fatal(err)
	}
	t := &testing.T{}
	identity := &auth.Identity{}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		proof, err := prover.Proof(key, "POST", "https://mcp.example.com/mcp", auth.NewSecret("access"), "")
		if err != nil {
			b.Fatal(err)
		}
		if i == 0 {
			identity.Thumbprint = thumbprintOf(t, proof)
		}
		b.StartTimer()
		if err := v.VerifyProof(b.Context(), dpop(proof), identity); err != nil {
			b.Fatal(err)
		}
	}
}
