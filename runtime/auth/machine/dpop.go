package machine

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/jws"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
)

// DPoP returns a Prover for tokens that are bound to a key (RFC 9449). All tokens are bound to k.
// If k is nil, each token is bound to a new ES256 key, and oauth stores that key with the token.
func DPoP(k *Key) oauth.Prover {
	if k == nil {
		return &prover{}
	}
	return &prover{key: k.key}
}

type prover struct {
	key  *jws.Key                 // nil: each token has its own key
	last atomic.Pointer[tokenKey] // the last parsed key: parsing takes about as long as signing
}

type tokenKey struct {
	text auth.Secret
	key  *jws.Key
}

func (p *prover) keyOf(text auth.Secret) (*jws.Key, error) {
	if p.key != nil {
		return p.key, nil
	}
	if last := p.last.Load(); last != nil && last.text.Equal(text) {
		return last.key, nil
	}
	key, err := jws.ParseKey([]byte(text.Reveal()), jws.ES256)
	if err != nil {
		return nil, fmt.Errorf("machine: DPoP key: %w", err)
	}
	p.last.Store(&tokenKey{text, key})
	return key, nil
}

func (p *prover) Algorithm() string {
	if p.key == nil {
		return jws.ES256
	}
	return p.key.Algorithm()
}

func (p *prover) NewKey() (auth.Secret, error) {
	if p.key != nil {
		return auth.Secret{}, nil
	}
	_, text, err := jws.Generate()
	if err != nil {
		return auth.Secret{}, fmt.Errorf("machine: DPoP key: %w", err)
	}
	return auth.NewSecret(string(text)), nil
}

func (p *prover) Proof(text auth.Secret, method, target string, token auth.Secret, nonce string) (string, error) {
	key, err := p.keyOf(text)
	if err != nil {
		return "", err
	}
	// The claim is the URL without query and fragment (RFC 9449, section 4.2).
	u, err := url.Parse(target)
	if err != nil {
		return "", errors.New("machine: DPoP: malformed URL") // the text of err contains the URL with its query
	}
	u.User, u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = nil, "", false, "", ""
	claims := map[string]any{
		"jti": rand.Text(),
		"htm": method,
		"htu": u.String(),
		"iat": time.Now().Unix(),
	}
	if !token.Empty() {
		hash := sha256.Sum256([]byte(token.Reveal()))
		claims["ath"] = base64.RawURLEncoding.EncodeToString(hash[:])
	}
	if nonce != "" {
		claims["nonce"] = nonce
	}
	proof, err := key.Sign(map[string]any{"typ": "dpop+jwt", "jwk": key.JWK()}, claims)
	if err != nil {
		return "", fmt.Errorf("machine: DPoP: %w", err)
	}
	return proof, nil
}
