package jwtauth_test

import (
	"errors"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/jwtauth"
)

// FuzzClaims verifies tokens and proofs with valid signatures and any content: a client signs its
// proofs itself.
func FuzzClaims(f *testing.F) {
	f.Add([]byte(`{"iss":"https://as.example.com","exp":4000000000,"aud":["a"],"scope":"a b","cnf":{"jkt":"a"}}`))
	f.Add([]byte(`{"iss":"https://as.example.com","exp":1e300,"nbf":-1e300,"aud":"a","scp":["a"]}`))
	f.Add([]byte(`{"jti":"a","htm":"POST","htu":"https://mcp.example.com/mcp","iat":1e300,"ath":""}`))
	f.Add([]byte(`{"jti":"a","htm":"POST","htu":"https://mcp.example.com/mcp?%zz#","iat":null,"ath":{}}`))
	f.Add([]byte(`[]`))
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: p256()},
		(&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt"))
	if err != nil {
		f.Fatal(err)
	}
	s := newIssuer()
	f.Fuzz(func(t *testing.T, claims []byte) {
		signed, err := signer.Sign(claims)
		if err != nil {
			t.Fatal(err)
		}
		text, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		v := s.verifier(t, jwtauth.Options{Types: []string{"dpop+jwt"}})
		switch i, err := v.Verify(t.Context(), bearer(text)); {
		case (i == nil) == (err == nil), err != nil && !errors.Is(err, auth.ErrInvalidToken):
			t.Errorf("%+v, %v", i, err)
		case i != nil && (i.Issuer != issuerURL || i.Expiry.IsZero()):
			t.Errorf("%+v", i)
		}
		// The token has no hash in the claims.
		if err := v.VerifyProof(t.Context(), dpop(text), boundTo(t, p256())); !errors.Is(err, auth.ErrInvalidToken) {
			t.Errorf("%v", err)
		}
	})
}
