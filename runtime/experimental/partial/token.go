package partial

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
)

// KeySize is the size of a key in bytes.
const KeySize = 32

var errToken = errors.New("the resume token is not valid for this request")

// maxToken is the largest size of a token in bytes. Longer ones are rejected undecoded.
const maxToken = 1 << 20

// idSize is how many random bytes name an operation.
const idSize = 16

// point is the content of a token: where an operation continues.
type point struct {
	id      [idSize]byte
	expires time.Time // to the millisecond
	state   []byte
}

// sealer turns points into tokens and back. A token is, in base64url, a nonce and the point
// encrypted with AES-256-GCM and authenticated together with the binding.
type sealer []cipher.AEAD // the first one seals

func newSealer(keys [][]byte) (sealer, error) {
	var s sealer
	for i, key := range keys {
		if len(key) != KeySize {
			return nil, fmt.Errorf("partial: key %d has %d bytes, want %d", i, len(key), KeySize)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, err
		}
		s = append(s, aead)
	}
	return s, nil
}

func (s sealer) seal(p point, bound []byte) string {
	text := binary.BigEndian.AppendUint64(nil, uint64(p.expires.UnixMilli()))
	text = append(append(text, p.id[:]...), p.state...)
	return base64.RawURLEncoding.EncodeToString(s[0].Seal(nil, nil, text, bound))
}

func (s sealer) open(token string, bound []byte) (p point, err error) {
	if len(token) > maxToken {
		return p, errToken
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil {
		return p, errToken
	}
	for _, aead := range s {
		text, err := aead.Open(nil, nil, sealed, bound)
		if err != nil || len(text) < 8+idSize {
			continue
		}
		p.expires = time.UnixMilli(int64(binary.BigEndian.Uint64(text)))
		p.state = text[8+copy(p.id[:], text[8:]):]
		return p, nil
	}
	return p, errToken
}

// binding is a hash of the requests that a token is valid for. It does not depend on the order of
// members in params, nor on _meta, in which each request has a progress token of its own.
func binding(method, principal string, params json.RawMessage) ([]byte, error) {
	members := map[string]any{}
	if len(params) > 0 {
		if err := codec.Unmarshal(params, value.Of(&members), codec.AllowSize(params)...); err != nil {
			return nil, err
		}
	}
	delete(members, tokenMember)
	delete(members, "_meta")
	text, err := codec.Marshal(value.Of([]any{"mcpwire resume 1", method, []byte(principal), members}))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	return sum[:], nil
}
