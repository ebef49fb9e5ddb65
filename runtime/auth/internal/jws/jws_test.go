package jws

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"reflect"
	"strings"
	"testing"
)

// RFC 7515, appendix A.2.
const (
	rsaN = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"
	rsaD = "Eq5xpGnNCivDflJsRQBXHx1hdR1k6Ulwe2JZD50LpXyWPEAeP88vLNO97IjlA7_GQ5sLKMgvfTeXZx9SE-7YwVol2NXOoAJe46sui395IW_GO-pWJ1O0BkTGoVEn2bKVRUCgu-GjBVaYLU6f3l9kJfFNS3E0QbVdxzubSu3Mkqzjkn439X0M_V51gfpRLI9JYanrC4D4qAdGcopV_0ZHHzQlBjudU2QvXt4ehNYTCBr6XCLQUShb1juUO1ZdiYoFaFQT5Tw8bGUl_x_jTj3ccPDVZFD9pIuhLhBOneufuBiB4cS98l2SR_RQyGWSeWjnczT0QU91p1DhOVRuOopznQ"
	rsaP = "4BzEEOtIpmVdVEZNCqS7baC4crd0pqnRH_5IB3jw3bcxGn6QLvnEtfdUdiYrqBdss1l58BQ3KhooKeQTa9AB0Hw_Py5PJdTJNPY8cQn7ouZ2KKDcmnPGBY5t7yLc1QlQ5xHdwW1VhvKn-nXqhJTBgIPgtldC-KDV5z-y2XDwGUc"
	rsaQ = "uQPEfgmVtjL0Uyyx88GZFF1fOunH3-7cepKmtH4pxhtCoHqpWmT8YAmZxaewHgHAjLYsp1ZSe7zFYHj7C6ul7TjeLQeZD_YwD66t62wDmpe_HlB-TnBA-njbglfIsRLtXlnDzQkv5dTltRJ11BKBBypeeF6689rjcJIDEz9RWdc"
)

func number(text string) *big.Int { return new(big.Int).SetBytes(decode(text)) }

func decode(text string) []byte {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return b
}

func rsaKey(t *testing.T) *rsa.PrivateKey {
	key := &rsa.PrivateKey{
		PublicKey: rsa.PublicKey{N: number(rsaN), E: 65537},
		D:         number(rsaD), Primes: []*big.Int{number(rsaP), number(rsaQ)},
	}
	key.Precompute()
	if err := key.Validate(); err != nil {
		t.Fatal(err)
	}
	return key
}

func newKey(t *testing.T, signer crypto.Signer, alg string) *Key {
	key, err := NewKey(signer, alg)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Deterministic algorithms return the signatures of the specifications.
func TestSignatureEqualsVector(t *testing.T) {
	seed := decode("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A")
	ec, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), unhex("C9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721"))
	if err != nil {
		t.Fatal(err)
	}
	for _, vector := range []struct {
		name, input, signature string
		key                    *Key
	}{
		{"RFC 7515 A.2",
			"eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ",
			"cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw",
			newKey(t, rsaKey(t), RS256)},
		{"RFC 8037 A.4",
			"eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
			"hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
			newKey(t, ed25519.NewKeyFromSeed(seed), EdDSA)},
		{"RFC 6979 A.2.5", "sample",
			base64.RawURLEncoding.EncodeToString(append(
				unhex("EFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716"),
				unhex("F7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8")...)),
			newKey(t, ec, ES256)},
	} {
		signature, err := vector.key.sign(nil, []byte(vector.input)) // ECDSA without randomness is that of RFC 6979
		if err != nil {
			t.Fatal(vector.name, err)
		}
		if got := base64.RawURLEncoding.EncodeToString(signature); got != vector.signature {
			t.Errorf("%s: %s", vector.name, got)
		}
	}
}

func unhex(hex string) []byte {
	n, _ := new(big.Int).SetString(hex, 16)
	return n.FillBytes(make([]byte, len(hex)/2))
}

// The hash of the public key is its thumbprint.
func TestPublicKeyHasThumbprintOfVector(t *testing.T) {
	for name, vector := range map[string]struct {
		key        crypto.PublicKey
		thumbprint string
	}{
		"RFC 7638 3.1": {&rsa.PublicKey{E: 65537, N: number("0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw")},
			"NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"},
		"RFC 9449 6.1": {point(t, "l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs", "9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA"),
			"0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"},
		"RFC 8037 A.3": {ed25519.PublicKey(decode("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo")),
			"kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"},
	} {
		jwk, err := publicJWK(vector.key)
		if err != nil {
			t.Fatal(name, err)
		}
		hash := sha256.Sum256(jwk)
		if got := base64.RawURLEncoding.EncodeToString(hash[:]); got != vector.thumbprint {
			t.Errorf("%s: thumbprint %s of %s", name, got, jwk)
		}
	}
}

func point(t *testing.T, x, y string) *ecdsa.PublicKey {
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append([]byte{4}, append(decode(x), decode(y)...)...))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestSignedTokenVerifies(t *testing.T) {
	p256, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	p384, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	public, ed, _ := ed25519.GenerateKey(rand.Reader)
	private := rsaKey(t)
	numbers := func(b []byte) (r, s *big.Int) {
		return new(big.Int).SetBytes(b[:len(b)/2]), new(big.Int).SetBytes(b[len(b)/2:])
	}
	for alg, c := range map[string]struct {
		signer crypto.Signer
		verify func(input, signature []byte) bool
	}{
		ES256: {p256, func(input, signature []byte) bool {
			hash := sha256.Sum256(input)
			r, s := numbers(signature)
			return len(signature) == 64 && ecdsa.Verify(&p256.PublicKey, hash[:], r, s)
		}},
		ES384: {p384, func(input, signature []byte) bool {
			hash := sha512.Sum384(input)
			r, s := numbers(signature)
			return len(signature) == 96 && ecdsa.Verify(&p384.PublicKey, hash[:], r, s)
		}},
		RS256: {private, func(input, signature []byte) bool {
			hash := sha256.Sum256(input)
			return rsa.VerifyPKCS1v15(&private.PublicKey, crypto.SHA256, hash[:], signature) == nil
		}},
		PS256: {private, func(input, signature []byte) bool {
			hash := sha256.Sum256(input)
			return rsa.VerifyPSS(&private.PublicKey, crypto.SHA256, hash[:], signature, &rsa.PSSOptions{SaltLength: 32}) == nil
		}},
		EdDSA: {ed, func(input, signature []byte) bool { return ed25519.Verify(public, input, signature) }},
	} {
		token, err := newKey(t, c.signer, alg).Sign(map[string]any{"typ": "JWT"}, map[string]any{"sub": "a"})
		if err != nil {
			t.Fatal(alg, err)
		}
		parts := strings.Split(token, ".")
		if len(parts) != 3 || !c.verify([]byte(parts[0]+"."+parts[1]), decode(parts[2])) {
			t.Errorf("%s: %s does not verify", alg, token)
			continue
		}
		var header, claims map[string]any
		if err := json.Unmarshal(decode(parts[0]), &header); err != nil {
			t.Error(err)
		}
		if err := json.Unmarshal(decode(parts[1]), &claims); err != nil {
			t.Error(err)
		}
		if !reflect.DeepEqual(header, map[string]any{"alg": alg, "typ": "JWT"}) || !reflect.DeepEqual(claims, map[string]any{"sub": "a"}) {
			t.Errorf("%s: header %v, claims %v", alg, header, claims)
		}
	}
}

// signerOf is a signer, such as a hardware module, that returns the same numbers for all messages.
type signerOf struct {
	*ecdsa.PrivateKey
	r, s *big.Int
}

func (s signerOf) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	return asn1.Marshal(struct{ R, S *big.Int }{s.r, s.s})
}

func TestShortECDSANumbersArePadded(t *testing.T) {
	private, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	signature, err := newKey(t, signerOf{private, big.NewInt(1), big.NewInt(2)}, ES256).sign(rand.Reader, nil)
	if err != nil || len(signature) != 64 || signature[31] != 1 || signature[63] != 2 {
		t.Errorf("%x, %v", signature, err)
	}
}

func TestMalformedECDSANumbersAreRefused(t *testing.T) {
	private, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	for _, n := range []*big.Int{big.NewInt(-1), new(big.Int).Lsh(big.NewInt(1), 256)} {
		for _, signer := range []signerOf{{private, n, big.NewInt(1)}, {private, big.NewInt(1), n}} {
			if signature, err := newKey(t, signer, ES256).sign(rand.Reader, nil); err == nil {
				t.Errorf("%v: %x", n, signature)
			}
		}
	}
}

func TestParseKeyReadsEachFormOfPEM(t *testing.T) {
	p256, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	pkcs8 := func(key any) []byte {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	sec1, err := x509.MarshalECPrivateKey(p256)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	for _, c := range []struct {
		name, alg, want string
		text            []byte
	}{
		{"PKCS #8", "", ES256, block("PRIVATE KEY", pkcs8(p256))},
		{"SEC 1 after parameters", "", ES256, append(block("EC PARAMETERS", []byte{1}), block("EC PRIVATE KEY", sec1)...)},
		{"PKCS #1", "", RS256, block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey(t)))},
		{"RSA for PS256", PS256, PS256, block("PRIVATE KEY", pkcs8(rsaKey(t)))},
		{"Ed25519", "", EdDSA, block("PRIVATE KEY", pkcs8(ed))},
	} {
		key, err := ParseKey(c.text, c.alg)
		if err != nil || key.Algorithm() != c.want {
			t.Errorf("%s: %v, %v", c.name, key, err)
		}
	}
}

func TestUnusableKeyIsRefusedWithoutItsText(t *testing.T) {
	p521, _ := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	p256, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	der, _ := x509.MarshalPKCS8PrivateKey(p521)
	small, _ := x509.MarshalPKCS8PrivateKey(p256)
	planted := []byte("planted-secret-bytes")
	for _, c := range []struct {
		want, alg string
		text      []byte
	}{
		{"no PEM block", "", planted},
		{"malformed PRIVATE KEY", "", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: planted})},
		{"encrypted", "", pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: planted})},
		{"P-521 is not supported", "", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})},
		{`does not sign with "RS256"`, RS256, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: small})},
		{`does not sign with "none"`, "none", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: small})},
	} {
		_, err := ParseKey(c.text, c.alg)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %v", c.want, err)
		}
	}
	weak := &rsa.PrivateKey{PublicKey: rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), 1023), E: 65537}}
	if _, err := NewKey(weak, RS256); err == nil || !strings.Contains(err.Error(), "1024 bits") {
		t.Errorf("weak RSA key: %v", err)
	}
	if _, err := NewKey(nil, ""); err == nil {
		t.Error("no key was accepted")
	}
}

func TestGeneratedKeyCanBeParsed(t *testing.T) {
	key, text, err := Generate()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseKey(text, "")
	if err != nil || string(again.JWK()) != string(key.JWK()) || again.Algorithm() != ES256 {
		t.Errorf("%s, %v", again.JWK(), err)
	}
}
