// Package jws signs JSON Web Tokens (RFC 7515, RFC 7519). It does not verify tokens: verification
// of untrusted tokens uses a library that is designed for hostile input.
package jws

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
)

// Names of the supported signature algorithms (RFC 7518, section 3.1; RFC 8037).
const (
	ES256 = "ES256"
	ES384 = "ES384"
	RS256 = "RS256"
	PS256 = "PS256"
	EdDSA = "EdDSA"
)

// Key is a private key with its signature algorithm. It is safe for concurrent use. Its printed
// form does not reveal the private key.
type Key struct {
	// private is the Sign method of the crypto.Signer. It is a function, because with some verbs,
	// package fmt would print the value behind an interface or a pointer.
	private func(random io.Reader, digest []byte, options crypto.SignerOpts) ([]byte, error)
	alg     string
	jwk     json.RawMessage
}

// NewKey returns a key that signs with alg. If alg is empty, the type of the key determines it:
// ES256, ES384, RS256 or EdDSA. NewKey fails if signer cannot sign with alg.
func NewKey(signer crypto.Signer, alg string) (*Key, error) {
	if signer == nil {
		return nil, errors.New("jws: no key")
	}
	var usable []string
	switch public := signer.Public().(type) {
	case *ecdsa.PublicKey:
		switch public.Curve {
		case elliptic.P256():
			usable = []string{ES256}
		case elliptic.P384():
			usable = []string{ES384}
		default:
			return nil, fmt.Errorf("jws: curve %s is not supported: use P-256 or P-384", public.Curve.Params().Name)
		}
	case *rsa.PublicKey:
		if public.N.BitLen() < 2048 { // RFC 7518, section 3.3
			return nil, fmt.Errorf("jws: RSA key has %d bits: at least 2048 are needed", public.N.BitLen())
		}
		usable = []string{RS256, PS256}
	case ed25519.PublicKey:
		usable = []string{EdDSA}
	default:
		return nil, fmt.Errorf("jws: key type %T is not supported", public)
	}
	if alg == "" {
		alg = usable[0]
	}
	for _, name := range usable {
		if name == alg {
			jwk, err := publicJWK(signer.Public())
			return &Key{signer.Sign, alg, jwk}, err
		}
	}
	return nil, fmt.Errorf("jws: a key of type %T does not sign with %q: use %q", signer.Public(), alg, usable)
}

// ParseKey returns the key in the first PEM block with a private key: PKCS #8, PKCS #1 or SEC 1.
// Its errors contain no part of text.
func ParseKey(text []byte, alg string) (*Key, error) {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return nil, errors.New("jws: no PEM block with a private key")
		}
		var key any
		var err error
		switch text = rest; block.Type {
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case "ENCRYPTED PRIVATE KEY":
			return nil, errors.New("jws: private key is encrypted: decrypt it first")
		default:
			continue // such as EC PARAMETERS, which openssl writes before the key
		}
		if err != nil {
			return nil, fmt.Errorf("jws: malformed %s", block.Type)
		}
		signer, ok := key.(crypto.Signer)
		if !ok {
			return nil, fmt.Errorf("jws: key type %T is not supported", key)
		}
		return NewKey(signer, alg)
	}
}

// Generate returns a new ES256 key and its PEM encoding.
func Generate() (*Key, []byte, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	key, err := NewKey(private, ES256)
	return key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

// Algorithm returns the name of the algorithm.
func (k *Key) Algorithm() string { return k.alg }

// JWK returns the public key as JSON with only the required members, in lexical order. Its SHA-256
// hash is the thumbprint of the key (RFC 7638). The caller must not modify the result.
func (k *Key) JWK() json.RawMessage { return k.jwk }

// Sign returns the compact serialization of a signed token (RFC 7515, section 3.1). It sets alg in
// header.
func (k *Key) Sign(header, claims map[string]any) (string, error) {
	header["alg"] = k.alg
	head, err := json.Marshal(header)
	if err != nil {
		return "", fmt.Errorf("jws: header: %w", err)
	}
	body, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("jws: claims: %w", err)
	}
	text := append(encode(nil, head), '.')
	text = encode(text, body)
	signature, err := k.sign(rand.Reader, text)
	if err != nil {
		return "", fmt.Errorf("jws: sign: %w", err)
	}
	return string(encode(append(text, '.'), signature)), nil
}

func (k *Key) sign(random io.Reader, input []byte) ([]byte, error) {
	if k.alg == EdDSA {
		return k.private(random, input, crypto.Hash(0))
	}
	hash := crypto.SHA256
	if k.alg == ES384 {
		hash = crypto.SHA384
	}
	var options crypto.SignerOpts = hash
	if k.alg == PS256 {
		options = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: hash}
	}
	h := hash.New()
	h.Write(input)
	signature, err := k.private(random, h.Sum(nil), options)
	if err != nil || k.alg == RS256 || k.alg == PS256 {
		return signature, err
	}
	// A crypto.Signer returns ECDSA signatures in ASN.1. JWS needs the two numbers, padded to full
	// length (RFC 7518, section 3.4).
	var numbers struct{ R, S *big.Int }
	if rest, err := asn1.Unmarshal(signature, &numbers); err != nil || len(rest) != 0 {
		return nil, errors.New("malformed ECDSA signature")
	}
	size := hash.Size() // P-256 and P-384 have the size of their hashes
	if numbers.R.Sign() < 0 || numbers.S.Sign() < 0 || max(numbers.R.BitLen(), numbers.S.BitLen()) > 8*size {
		return nil, errors.New("malformed ECDSA signature")
	}
	out := make([]byte, 2*size)
	numbers.R.FillBytes(out[:size])
	numbers.S.FillBytes(out[size:])
	return out, nil
}

// publicJWK returns a key as a JSON Web Key (RFC 7517; RFC 7518, section 6; RFC 8037, section 2).
func publicJWK(key crypto.PublicKey) (json.RawMessage, error) {
	members := map[string]string{} // json.Marshal sorts them
	set := func(name string, value []byte) { members[name] = base64.RawURLEncoding.EncodeToString(value) }
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		members["kty"], members["crv"] = "EC", key.Curve.Params().Name
		size := (key.Curve.Params().BitSize + 7) / 8
		point, err := key.Bytes() // 4, x, y
		if err != nil {
			return nil, fmt.Errorf("jws: public key: %w", err)
		}
		set("x", point[1:1+size])
		set("y", point[1+size:])
	case *rsa.PublicKey:
		members["kty"] = "RSA"
		set("n", key.N.Bytes())
		set("e", big.NewInt(int64(key.E)).Bytes())
	case ed25519.PublicKey:
		members["kty"], members["crv"] = "OKP", "Ed25519"
		set("x", key)
	}
	return json.Marshal(members)
}

func encode(dst, src []byte) []byte { return base64.RawURLEncoding.AppendEncode(dst, src) }
