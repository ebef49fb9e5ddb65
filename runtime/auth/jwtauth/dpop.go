package jwtauth

import (
	"context"
	"crypto"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/url"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/authtext"
)

const (
	proofWindow  = 5 * time.Minute // how far iat may be from the current time, in both directions
	maxReplays   = 100_000
	maxProofID   = 512 // bytes
	nonceTagSize = 16
)

// VerifyProof implements auth.ProofVerifier (RFC 9449, section 4.3). A proof is accepted once, and
// only within 5 minutes before or after its time of issue. The Verifier holds the ids of up to
// 100,000 accepted proofs in memory. Options.NonceKey limits the time in which a proof can be
// replayed beyond that number, or against another process.
func (v *verifier) VerifyProof(_ context.Context, c *auth.Credentials, i *auth.Identity) error {
	if len(c.Proof) > maxToken {
		return invalid("proof: more than %d bytes", maxToken)
	}
	proof, err := jose.ParseSignedCompact(c.Proof, v.algorithms)
	if err != nil {
		return malformed(err, "proof: not a signed JSON Web Token")
	}
	header := &proof.Signatures[0].Protected
	if typ, _ := header.ExtraHeaders[jose.HeaderType].(string); typ != "dpop+jwt" {
		return invalid("proof: type %.50q, want %q", typ, "dpop+jwt")
	}
	key := header.JSONWebKey // public: package jose rejects others
	if key == nil || !fits(key, header.Algorithm) {
		return invalid("proof: no usable key")
	}
	hash, err := key.Thumbprint(crypto.SHA256)
	if err != nil || base64.RawURLEncoding.EncodeToString(hash) != i.Thumbprint {
		return invalid("proof: key is not that of the token")
	}
	payload, err := proof.Verify(key.Key)
	if err != nil {
		return invalid("proof: wrong signature")
	}
	var claims struct {
		ID       string   `json:"jti"`
		Method   string   `json:"htm"`
		URL      string   `json:"htu"`
		IssuedAt *float64 `json:"iat"`
		Token    string   `json:"ath"`
		Nonce    string   `json:"nonce"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return invalid("proof: malformed claims")
	}
	token := sha256.Sum256([]byte(c.Token.Reveal()))
	now := time.Now()
	switch {
	case claims.ID == "" || len(claims.ID) > maxProofID:
		return invalid("proof: id of %d bytes, want 1 to %d", len(claims.ID), maxProofID)
	case claims.Method != c.Method:
		return invalid("proof: method %.50q, want %q", claims.Method, c.Method)
	case !sameURL(claims.URL, c.URL):
		return invalid("proof: URL %.200q, want %q", claims.URL, c.URL)
	case claims.Token != base64.RawURLEncoding.EncodeToString(token[:]):
		return invalid("proof: issued for another token")
	case claims.IssuedAt == nil:
		return invalid("proof: no time of issue")
	}
	if age := float64(now.Unix()) - *claims.IssuedAt; !(age <= proofWindow.Seconds() && -age <= proofWindow.Seconds()) {
		return invalid("proof: issued %.0f seconds ago", age)
	}
	if v.nonces != nil && !v.nonces.valid(claims.Nonce, now) {
		return &auth.NonceError{Nonce: v.nonces.make(now)}
	}
	if !v.proofs.add(sha256.Sum256([]byte(i.Thumbprint+claims.ID)), now) {
		return invalid("proof: used before")
	}
	return nil
}

// sameURL reports whether the URLs of a proof and of the request are equal without query and
// fragment.
func sameURL(claim, want string) bool {
	a, err := bare(claim)
	if err != nil {
		return false
	}
	b, err := bare(want)
	return err == nil && a == b
}

func bare(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", err
	}
	u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = "", false, "", ""
	return authtext.Canonical(u.String())
}

// nonces makes and checks nonces. A nonce has the time of issue and an authentication tag, so none
// are stored.
type nonces struct {
	key      auth.Secret
	lifetime time.Duration
}

func (n *nonces) make(now time.Time) string {
	text := binary.BigEndian.AppendUint64(nil, uint64(now.Unix()))
	return base64.RawURLEncoding.EncodeToString(append(text, n.tag(text)...))
}

func (n *nonces) valid(nonce string, now time.Time) bool {
	text, err := base64.RawURLEncoding.DecodeString(nonce)
	if err != nil || len(text) != 8+nonceTagSize || !hmac.Equal(text[8:], n.tag(text[:8])) {
		return false
	}
	age := now.Sub(time.Unix(int64(binary.BigEndian.Uint64(text)), 0))
	return age <= n.lifetime && age >= -defaultSkew // the clock of the process that made it may be ahead
}

func (n *nonces) tag(text []byte) []byte {
	h := hmac.New(sha256.New, []byte(n.key.Reveal()))
	h.Write([]byte("mcpwire DPoP nonce"))
	h.Write(text)
	return h.Sum(nil)[:nonceTagSize]
}

// replays holds the hashes of accepted proofs for at least 10 minutes, the time in which a proof is
// valid. It has two generations, and drops the older one as a whole.
type replays struct {
	mu      sync.Mutex
	young   map[[sha256.Size]byte]struct{}
	old     map[[sha256.Size]byte]struct{}
	started time.Time // when young began
}

// add adds a proof and reports whether it is new.
func (r *replays) add(proof [sha256.Size]byte, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if age := now.Sub(r.started); age >= 2*proofWindow || len(r.young) >= maxReplays/2 {
		r.old, r.young, r.started = r.young, map[[sha256.Size]byte]struct{}{}, now
		if age >= 4*proofWindow {
			r.old = nil
		}
	}
	_, young := r.young[proof]
	_, old := r.old[proof]
	if young || old {
		return false
	}
	r.young[proof] = struct{}{}
	return true
}
