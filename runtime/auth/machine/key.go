package machine

import (
	"context"
	"crypto"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth/internal/jws"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
)

// Key is a private key that signs tokens. It is safe for concurrent use. Its printed form does not
// reveal the key.
type Key struct {
	key *jws.Key
	id  string
}

// NewKey returns a Key that signs with s, for example a key in a hardware module. alg is ES256,
// ES384, RS256, PS256 or EdDSA. If alg is empty, the type of the key determines it; RSA keys use
// RS256. id is the member kid of signed tokens. If id is empty, they have no kid.
func NewKey(s crypto.Signer, alg, id string) (*Key, error) {
	key, err := jws.NewKey(s, alg)
	if err != nil {
		return nil, fmt.Errorf("machine: %w", err)
	}
	return &Key{key, id}, nil
}

// ParseKey returns the Key in pem, the content of a PEM file in the unencrypted form PKCS #8, PKCS
// #1 or SEC 1. alg and id have the same meaning as for NewKey.
func ParseKey(pem []byte, alg, id string) (*Key, error) {
	key, err := jws.ParseKey(pem, alg)
	if err != nil {
		return nil, fmt.Errorf("machine: %w", err)
	}
	return &Key{key, id}, nil
}

// PrivateKeyJWT returns the client authentication private_key_jwt (RFC 7523, section 2.2). Each
// assertion has the issuer as its audience and a unique id, and is valid for one minute. Its
// subject is the client id, so requests need no client_id.
func PrivateKeyJWT(k *Key) oauth.ClientAuth { return privateKeyJWT{k} }

type privateKeyJWT struct{ key *Key }

func (privateKeyJWT) Method() string { return "private_key_jwt" }

func (a privateKeyJWT) Apply(_ context.Context, issuer, clientID string, form url.Values, _ http.Header) error {
	header := map[string]any{"typ": "JWT"}
	if a.key.id != "" {
		header["kid"] = a.key.id
	}
	now := time.Now()
	assertion, err := a.key.key.Sign(header, map[string]any{
		"iss": clientID,
		"sub": clientID,
		"aud": issuer,
		"iat": now.Unix(),
		"exp": now.Add(time.Minute).Unix(),
		"jti": rand.Text(),
	})
	if err != nil {
		return fmt.Errorf("machine: client assertion: %w", err)
	}
	form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
	form.Set("client_assertion", assertion)
	return nil
}
