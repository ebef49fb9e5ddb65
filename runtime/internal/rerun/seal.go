package rerun

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
)

// MinKey is the minimum length of a key of [NewKeys], in bytes.
const MinKey = 32

// Errors of sealed texts.
var (
	// ErrKey is returned for a text that was sealed with a key that is not among the Keys.
	ErrKey = errors.New("rerun: sealed with an unknown key")
	// ErrSeal is returned for a text that was changed, or was sealed for another purpose or
	// request.
	ErrSeal = errors.New("rerun: not sealed for this request")
	// ErrExpired is returned for a state that has expired.
	ErrExpired = errors.New("rerun: state has expired")
)

// Keys seals texts that pass through the client, and opens them again. Without the keys, a text can
// be neither read nor changed. Sealing uses AES-256-GCM with random nonces. The key of the cipher
// is derived from a secret and a random salt with HMAC-SHA256. Each process has a salt of its own,
// and changes it long before nonces may repeat. A sealed text is, in base64url without padding,
//
//	format (1 byte) | key id (4) | salt (16) | nonce (12) | ciphertext | tag (16)
//
// The context of a text is additional data: a text opens only in the context in which it was
// sealed. Keys is safe for concurrent use.
type Keys struct {
	keys []key

	mu      sync.Mutex
	salt    [saltSize]byte // of the texts that are sealed
	left    int            // the number of texts until the salt changes
	ciphers map[derived]cipher.AEAD
}

type key struct {
	id     [idSize]byte
	secret []byte
}

// derived identifies a key that is derived from a secret.
type derived struct {
	id   [idSize]byte
	salt [saltSize]byte
}

const (
	sealFormat = 1
	idSize     = 4
	saltSize   = 16
	nonceSize  = 12
	saltAt     = 1 + idSize
	nonceAt    = saltAt + saltSize
	headerSize = nonceAt + nonceSize
	tagSize    = 16

	maxTexts   = 1 << 30 // with one salt
	maxCiphers = 64      // in the cache
)

// NewKeys returns Keys that seal with the first secret and open with all of them. Without secrets,
// it makes a random one.
func NewKeys(secrets ...[]byte) *Keys {
	if len(secrets) == 0 {
		secret := make([]byte, MinKey)
		rand.Read(secret)
		secrets = [][]byte{secret}
	}
	k := new(Keys)
	for _, secret := range secrets {
		next := key{secret: mac(secret, "mcpwire sealing key", nil)}
		copy(next.id[:], mac(secret, "mcpwire key id", nil))
		k.keys = append(k.keys, next)
	}
	return k
}

// mac returns an HMAC-SHA256 of a label and data.
func mac(secret []byte, label string, data []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(label))
	h.Write([]byte{0})
	h.Write(data)
	return h.Sum(nil)
}

// newCipher returns the cipher for a salt.
func (k *key) newCipher(salt [saltSize]byte) cipher.AEAD {
	block, err := aes.NewCipher(mac(k.secret, "text", salt[:]))
	if err != nil {
		panic(err) // not reached: the key has 32 bytes
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // not reached: the block has 16 bytes
	}
	return aead
}

// sealing returns the salt of the next text, and its cipher.
func (k *Keys) sealing() ([saltSize]byte, cipher.AEAD) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.left == 0 {
		rand.Read(k.salt[:])
		k.left = maxTexts
	}
	k.left--
	d := derived{k.keys[0].id, k.salt}
	aead := k.ciphers[d]
	if aead == nil {
		aead = k.keys[0].newCipher(d.salt)
		k.keep(d, aead)
	}
	return d.salt, aead
}

// keep adds a cipher to the cache. The caller must hold mu.
func (k *Keys) keep(d derived, aead cipher.AEAD) {
	if len(k.ciphers) >= maxCiphers || k.ciphers == nil {
		k.ciphers = map[derived]cipher.AEAD{}
	}
	k.ciphers[d] = aead
}

// Seal seals a text for a context.
func (k *Keys) Seal(context, text []byte) string {
	buf := make([]byte, headerSize, headerSize+len(text)+tagSize)
	return k.seal(append(buf, text...), context)
}

// seal seals the text after the place of the header in buf.
func (k *Keys) seal(buf, context []byte) string {
	buf = slices.Grow(buf, tagSize) // seal in place
	salt, aead := k.sealing()
	buf[0] = sealFormat
	copy(buf[1:], k.keys[0].id[:])
	copy(buf[saltAt:], salt[:])
	nonce := buf[nonceAt:headerSize]
	rand.Read(nonce)
	sealed := aead.Seal(buf[headerSize:headerSize], nonce, buf[headerSize:], additional(buf, context))
	return base64.RawURLEncoding.EncodeToString(buf[:headerSize+len(sealed)])
}

// additional returns the additional data of a text.
func additional(header, context []byte) []byte {
	return append(header[:saltAt:saltAt], context...)
}

// Open opens a sealed text in a context. It fails with [ErrKey] or [ErrSeal].
func (k *Keys) Open(context []byte, sealed string) ([]byte, error) {
	if base64.RawURLEncoding.DecodedLen(len(sealed)) < headerSize+tagSize || strings.ContainsAny(sealed, "\r\n") { // which decoding ignores
		return nil, ErrSeal
	}
	buf, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil || buf[0] != sealFormat {
		return nil, ErrSeal
	}
	d := derived{[idSize]byte(buf[1:]), [saltSize]byte(buf[saltAt:])}
	i := slices.IndexFunc(k.keys, func(key key) bool { return key.id == d.id })
	if i < 0 {
		return nil, ErrKey
	}
	k.mu.Lock()
	aead := k.ciphers[d]
	k.mu.Unlock()
	known := aead != nil
	if !known {
		aead = k.keys[i].newCipher(d.salt)
	}
	text, err := aead.Open(buf[headerSize:headerSize], buf[nonceAt:headerSize], buf[headerSize:], additional(buf, context))
	if err != nil {
		return nil, ErrSeal
	}
	if !known {
		k.mu.Lock()
		k.keep(d, aead)
		k.mu.Unlock()
	}
	return text, nil
}

// Context identifies the call to which a state belongs.
type Context struct {
	Principal string
	Method    string
	Name      string          // of the tool or prompt, or the URI of the resource
	Arguments json.RawMessage // well-formed, or nil for none
}

// digest returns the additional data of the states of the call. Arguments that are written in
// another way, such as with members in another order, are the same arguments.
func (c *Context) digest() []byte {
	var room [256]byte
	buf := room[:0]
	for _, part := range []string{"state", c.Principal, c.Method, c.Name} {
		buf = appendText(buf, part)
	}
	sum := canonicalSum(buf, c.Arguments)
	return sum[:]
}

// SealState seals a state for a call.
func (k *Keys) SealState(c *Context, s *State) string {
	buf := make([]byte, headerSize, 512)
	return k.seal(s.append(buf), c.digest())
}

// OpenState opens a sealed state of a call. It fails with [ErrKey], [ErrSeal] or [ErrExpired].
func (k *Keys) OpenState(c *Context, sealed string, now time.Time) (*State, error) {
	text, err := k.Open(c.digest(), sealed)
	if err != nil {
		return nil, err
	}
	s, err := decodeState(text)
	if err != nil {
		return nil, err
	}
	if !now.Before(s.Expires) {
		return nil, ErrExpired
	}
	return s, nil
}
