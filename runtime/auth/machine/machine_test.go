package machine_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/machine"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
)

// posted is a request that a tokenServer has received.
type posted struct {
	form   url.Values
	header http.Header
}

// tokenServer is a token endpoint that sends answer and records the requests.
type tokenServer struct {
	url      string
	status   int
	answer   map[string]any
	requests []posted
}

func newTokenServer(t *testing.T, answer map[string]any) *tokenServer {
	s := &tokenServer{status: http.StatusOK, answer: answer}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil || r.Method != http.MethodPost || r.URL.RawQuery != "" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		s.requests = append(s.requests, posted{r.PostForm, r.Header})
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(s.status)
		json.NewEncoder(w).Encode(s.answer)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// target returns a Target like those of package oauth, without limits.
func (s *tokenServer) target(client *oauth.Client, scopes ...string) *oauth.Target {
	target := &oauth.Target{
		Metadata: &auth.ServerMetadata{Issuer: "https://as.example.com/tenant", TokenEndpoint: s.url},
		Resource: "https://mcp.example.com/mcp",
		Scopes:   scopes,
		Client:   client,
		Post:     post,
	}
	target.Exchange = func(ctx context.Context, form url.Values) (*oauth.Token, error) {
		header := http.Header{}
		form.Set("resource", target.Resource)
		switch {
		case client.Auth != nil:
			if err := client.Auth.Apply(ctx, target.Metadata.Issuer, client.ID, form, header); err != nil {
				return nil, err
			}
		case client.Secret.Empty():
			form.Set("client_id", client.ID)
		default:
			header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(client.ID+":"+client.Secret.Reveal())))
		}
		var answer struct {
			Token string `json:"access_token"`
			Type  string `json:"token_type"`
		}
		if err := post(ctx, s.url, header, form, &answer); err != nil {
			return nil, err
		}
		return &oauth.Token{Access: auth.NewSecret(answer.Token), Type: answer.Type}, nil
	}
	return target
}

func post(ctx context.Context, endpoint string, header http.Header, form url.Values, result any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header = header.Clone()
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		var answer struct{ Error string }
		json.NewDecoder(resp.Body).Decode(&answer)
		return fmt.Errorf("status %d: %s", resp.StatusCode, answer.Error)
	}
	return json.NewDecoder(resp.Body).Decode(result)
}

// verify returns header and claims of a token that is signed with ES256.
func verify(t *testing.T, token string, key *ecdsa.PublicKey) (header, claims map[string]any) {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("%q is no token", token)
	}
	var raw [3][]byte
	for i, part := range parts {
		var err error
		if raw[i], err = base64.RawURLEncoding.DecodeString(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := json.Unmarshal(raw[0], &header); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw[1], &claims); err != nil {
		t.Fatal(err)
	}
	if key == nil { // the header of the token contains the key
		jwk := header["jwk"].(map[string]any)
		point := append([]byte{4}, append(decode(t, jwk["x"]), decode(t, jwk["y"])...)...)
		var err error
		if key, err = ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point); err != nil {
			t.Fatal(err)
		}
	}
	hash := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if len(raw[2]) != 64 || !ecdsa.Verify(key, hash[:], new(big.Int).SetBytes(raw[2][:32]), new(big.Int).SetBytes(raw[2][32:])) {
		t.Fatalf("%q does not verify", token)
	}
	return header, claims
}

func decode(t *testing.T, value any) []byte {
	b, err := base64.RawURLEncoding.DecodeString(value.(string))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newKey(t *testing.T, id string) (*machine.Key, *ecdsa.PublicKey) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := machine.NewKey(private, "ES256", id)
	if err != nil {
		t.Fatal(err)
	}
	return key, &private.PublicKey
}

func expectForm(t *testing.T, got, want url.Values) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("form %v, want %v", got, want)
	}
}

var granted = map[string]any{"access_token": "access", "token_type": "Bearer"}

func TestClientCredentialsWithSecret(t *testing.T) {
	s := newTokenServer(t, granted)
	client := &oauth.Client{ID: "robot", Secret: auth.NewSecret("hunter2")}
	token, err := machine.ClientCredentials().Token(t.Context(), s.target(client, "a", "b"))
	if err != nil || token.Access.Reveal() != "access" {
		t.Fatal(token, err)
	}
	expectForm(t, s.requests[0].form, url.Values{
		"grant_type": {"client_credentials"},
		"scope":      {"a b"},
		"resource":   {"https://mcp.example.com/mcp"},
	})
}

func TestClientCredentialsWithPrivateKey(t *testing.T) {
	s := newTokenServer(t, granted)
	key, public := newKey(t, "key-1")
	client := &oauth.Client{ID: "robot", Auth: machine.PrivateKeyJWT(key)}
	ids := map[any]bool{}
	for range 2 {
		if _, err := machine.ClientCredentials().Token(t.Context(), s.target(client)); err != nil {
			t.Fatal(err)
		}
		form := s.requests[len(s.requests)-1].form
		header, claims := verify(t, form.Get("client_assertion"), public)
		if want := map[string]any{"alg": "ES256", "typ": "JWT", "kid": "key-1"}; !reflect.DeepEqual(header, want) {
			t.Errorf("header %v, want %v", header, want)
		}
		if claims["exp"].(float64)-claims["iat"].(float64) != 60 {
			t.Errorf("iat %v, exp %v", claims["iat"], claims["exp"])
		}
		ids[claims["jti"]] = true
		for _, name := range []string{"iat", "exp", "jti"} {
			delete(claims, name)
		}
		// The audience is the issuer, not the token endpoint.
		want := map[string]any{"iss": "robot", "sub": "robot", "aud": "https://as.example.com/tenant"}
		if !reflect.DeepEqual(claims, want) {
			t.Errorf("claims %v, want %v", claims, want)
		}
		form.Del("client_assertion")
		expectForm(t, form, url.Values{
			"grant_type":            {"client_credentials"},
			"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
			"resource":              {"https://mcp.example.com/mcp"},
		})
	}
	if len(ids) != 2 {
		t.Errorf("ids of two assertions: %v", ids)
	}
}

func TestClientAssertionIsValidForOneMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, public := newKey(t, "")
		form := url.Values{}
		if err := machine.PrivateKeyJWT(key).Apply(t.Context(), "https://as.example.com", "robot", form, http.Header{}); err != nil {
			t.Fatal(err)
		}
		header, claims := verify(t, form.Get("client_assertion"), public)
		now := float64(time.Now().Unix())
		if claims["iat"] != now || claims["exp"] != now+60 || header["kid"] != nil {
			t.Errorf("header %v, claims %v", header, claims)
		}
	})
}

func TestClientCredentialsNeedAnAuthenticatedClient(t *testing.T) {
	s := newTokenServer(t, granted)
	if _, err := machine.ClientCredentials().Token(t.Context(), s.target(&oauth.Client{ID: "robot"})); err == nil || len(s.requests) != 0 {
		t.Errorf("%v after %d requests", err, len(s.requests))
	}
}

func TestGrantsNeedAClientAndNoUser(t *testing.T) {
	for _, g := range []oauth.Grant{machine.ClientCredentials(), machine.Enterprise(machine.EnterpriseOptions{}), machine.WorkloadIdentity(nil)} {
		if g.NeedsUser() || !g.NeedsClient() {
			t.Errorf("%T: NeedsUser %v, NeedsClient %v", g, g.NeedsUser(), g.NeedsClient())
		}
	}
}

func TestEnterpriseExchangesIDTokenForAccessToken(t *testing.T) {
	key, public := newKey(t, "")
	for _, c := range []struct {
		name   string
		client oauth.Client
		check  func(r posted)
	}{
		{"public client", oauth.Client{ID: "desk"}, func(r posted) {
			if r.form.Get("client_id") != "desk" || r.form.Has("client_secret") || r.header.Get("Authorization") != "" {
				t.Errorf("public client: %v", r)
			}
		}},
		{"secret", oauth.Client{ID: "de:sk", Secret: auth.NewSecret("a b%")}, func(r posted) {
			want := "Basic " + base64.StdEncoding.EncodeToString([]byte("de%3Ask:a+b%25"))
			if r.form.Has("client_id") || r.form.Has("client_secret") || r.header.Get("Authorization") != want {
				t.Errorf("secret: %v", r)
			}
		}},
		{"secret in the form", oauth.Client{ID: "desk", Secret: auth.NewSecret("a b"), Method: "client_secret_post"}, func(r posted) {
			if r.form.Get("client_id") != "desk" || r.form.Get("client_secret") != "a b" || r.header.Get("Authorization") != "" {
				t.Errorf("secret in the form: %v", r)
			}
		}},
		{"private key", oauth.Client{ID: "desk", Auth: machine.PrivateKeyJWT(key)}, func(r posted) {
			if _, claims := verify(t, r.form.Get("client_assertion"), public); claims["aud"] != "https://idp.example.com" || claims["sub"] != "desk" {
				t.Errorf("private key: %v", claims)
			}
		}},
	} {
		idp := newTokenServer(t, map[string]any{
			"access_token": "id-jag", "token_type": "N_A", "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag",
		})
		as := newTokenServer(t, granted)
		g := machine.Enterprise(machine.EnterpriseOptions{
			IDP: "https://idp.example.com", TokenEndpoint: idp.url, Client: c.client,
			IDToken: func(context.Context) (auth.Secret, error) { return auth.NewSecret("id-token"), nil },
		})
		client := &oauth.Client{ID: "mcp-client", Secret: auth.NewSecret("hunter2")}
		token, err := g.Token(t.Context(), as.target(client, "read"))
		if err != nil || token.Access.Reveal() != "access" {
			t.Fatal(c.name, token, err)
		}
		c.check(idp.requests[0])
		for _, name := range []string{"client_id", "client_secret", "client_assertion", "client_assertion_type"} {
			idp.requests[0].form.Del(name)
		}
		expectForm(t, idp.requests[0].form, url.Values{
			"grant_type":           {"urn:ietf:params:oauth:grant-type:token-exchange"},
			"requested_token_type": {"urn:ietf:params:oauth:token-type:id-jag"},
			"audience":             {"https://as.example.com/tenant"},
			"resource":             {"https://mcp.example.com/mcp"},
			"subject_token":        {"id-token"},
			"subject_token_type":   {"urn:ietf:params:oauth:token-type:id_token"},
			"scope":                {"read"},
		})
		expectForm(t, as.requests[0].form, url.Values{
			"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"},
			"assertion":  {"id-jag"},
			"resource":   {"https://mcp.example.com/mcp"},
			"scope":      {"read"},
		})
	}
}

func TestEnterpriseStopsAtTheFirstFailure(t *testing.T) {
	idToken := func(context.Context) (auth.Secret, error) { return auth.NewSecret("planted-id-token"), nil }
	key, _ := newKey(t, "")
	for _, c := range []struct {
		want   string
		config machine.EnterpriseOptions
		status int
		answer map[string]any
	}{
		{"no TokenEndpoint", machine.EnterpriseOptions{Client: oauth.Client{ID: "desk"}, IDToken: idToken}, 0, nil},
		{"no IDToken", machine.EnterpriseOptions{Client: oauth.Client{ID: "desk"}, TokenEndpoint: "idp"}, 0, nil},
		{"no Client.ID", machine.EnterpriseOptions{TokenEndpoint: "idp", IDToken: idToken}, 0, nil},
		{"no IDP", machine.EnterpriseOptions{Client: oauth.Client{ID: "desk", Auth: machine.PrivateKeyJWT(key)}, TokenEndpoint: "idp", IDToken: idToken}, 0, nil},
		{"logged out", machine.EnterpriseOptions{Client: oauth.Client{ID: "desk"}, TokenEndpoint: "idp",
			IDToken: func(context.Context) (auth.Secret, error) { return auth.Secret{}, errors.New("logged out") }}, 0, nil},
		{"ID token is empty", machine.EnterpriseOptions{Client: oauth.Client{ID: "desk"}, TokenEndpoint: "idp",
			IDToken: func(context.Context) (auth.Secret, error) { return auth.Secret{}, nil }}, 0, nil},
		{"invalid_grant", machine.EnterpriseOptions{Client: oauth.Client{ID: "desk"}, TokenEndpoint: "idp", IDToken: idToken},
			400, map[string]any{"error": "invalid_grant"}},
		{"issued token type", machine.EnterpriseOptions{Client: oauth.Client{ID: "desk"}, TokenEndpoint: "idp", IDToken: idToken},
			200, map[string]any{"access_token": "planted", "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}},
		{"no token in the response", machine.EnterpriseOptions{Client: oauth.Client{ID: "desk"}, TokenEndpoint: "idp", IDToken: idToken},
			200, map[string]any{"issued_token_type": "urn:ietf:params:oauth:token-type:id-jag"}},
	} {
		idp, as := newTokenServer(t, c.answer), newTokenServer(t, granted)
		if idp.status = c.status; c.config.TokenEndpoint != "" {
			c.config.TokenEndpoint = idp.url
		}
		_, err := machine.Enterprise(c.config).Token(t.Context(), as.target(&oauth.Client{ID: "mcp-client"}))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %v", c.want, err)
		}
		if len(as.requests) != 0 || len(idp.requests) != min(c.status, 1) {
			t.Errorf("%s: %d requests to the identity provider, %d to the authorization server", c.want, len(idp.requests), len(as.requests))
		}
	}
}

func TestWorkloadIdentitySendsItsAssertionOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	g := machine.WorkloadIdentity(machine.AssertionFile(file))
	s := newTokenServer(t, granted)
	target := s.target(&oauth.Client{ID: "workload"}, "read")
	for i, text := range []string{"first\n", "second"} { // the platform replaces the file
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		token, err := g.Token(t.Context(), target)
		if err != nil || token.Access.Reveal() != "access" {
			t.Fatal(token, err)
		}
		expectForm(t, s.requests[i].form, url.Values{
			"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"},
			"assertion":  {strings.TrimSpace(text)},
			"client_id":  {"workload"},
			"resource":   {"https://mcp.example.com/mcp"},
			"scope":      {"read"},
		})
	}
	s.status, s.answer = 400, map[string]any{"error": "unauthorized_client"}
	if _, err := g.Token(t.Context(), target); err == nil || !strings.Contains(err.Error(), "unauthorized_client") || len(s.requests) != 3 {
		t.Errorf("%v after %d requests, want one that fails", err, len(s.requests))
	}
}

func TestWorkloadIdentityAsksForTheIssuer(t *testing.T) {
	s := newTokenServer(t, granted)
	for _, c := range []struct {
		want  string
		token auth.Secret
		err   error
	}{
		{"no metadata service", auth.Secret{}, errors.New("no metadata service")},
		{"assertion is empty", auth.Secret{}, nil},
	} {
		var audience string
		_, err := machine.WorkloadIdentity(func(_ context.Context, a string) (auth.Secret, error) {
			audience = a
			return c.token, c.err
		}).Token(t.Context(), s.target(&oauth.Client{ID: "workload"}))
		if err == nil || !strings.Contains(err.Error(), c.want) || len(s.requests) != 0 || audience != "https://as.example.com/tenant" {
			t.Errorf("%s: %v, audience %q, %d requests", c.want, err, audience, len(s.requests))
		}
	}
}

func TestAssertionFileRejectsInvalidFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"is empty": " \n", "is longer": strings.Repeat("a", 64<<10+1)} {
		path := filepath.Join(dir, "token")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := machine.AssertionFile(path)(t.Context(), ""); err == nil || !strings.Contains(err.Error(), name) || len(err.Error()) > 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := machine.AssertionFile(filepath.Join(dir, "none"))(t.Context(), ""); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestDPoPProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := machine.DPoP(nil)
		key, err := p.NewKey()
		if err != nil || key.Empty() || p.Algorithm() != "ES256" {
			t.Fatal(err, p.Algorithm())
		}
		// The hash of the token is that of RFC 9449, section 7.1.
		proof, err := p.Proof(key, "POST", "https://user@mcp.example.com/mcp?a=b#c", auth.NewSecret("Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU"), "server nonce")
		if err != nil {
			t.Fatal(err)
		}
		header, claims := verify(t, proof, nil)
		jwk := header["jwk"].(map[string]any)
		if header["typ"] != "dpop+jwt" || header["alg"] != "ES256" || len(header) != 3 || jwk["kty"] != "EC" || jwk["crv"] != "P-256" || len(jwk) != 4 {
			t.Errorf("header %v", header)
		}
		id := claims["jti"]
		delete(claims, "jti")
		want := map[string]any{
			"htm": "POST", "htu": "https://mcp.example.com/mcp", "iat": float64(time.Now().Unix()), "nonce": "server nonce",
			"ath": "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo",
		}
		if !reflect.DeepEqual(claims, want) {
			t.Errorf("claims %v, want %v", claims, want)
		}

		proof, err = p.Proof(key, "POST", "https://as.example.com/token", auth.Secret{}, "")
		if err != nil {
			t.Fatal(err)
		}
		header, claims = verify(t, proof, nil)
		if !reflect.DeepEqual(header["jwk"], jwk) {
			t.Errorf("key %v, want %v", header["jwk"], jwk)
		}
		if claims["jti"] == id || claims["jti"] == "" || len(claims) != 4 {
			t.Errorf("claims at the token endpoint: %v", claims)
		}
		other, err := p.NewKey()
		if err != nil || other.Equal(key) {
			t.Errorf("the second key equals the first: %v", err)
		}
		proof, err = p.Proof(other, "POST", "https://as.example.com/token", auth.Secret{}, "")
		if err != nil {
			t.Fatal(err)
		}
		if header, _ = verify(t, proof, nil); reflect.DeepEqual(header["jwk"], jwk) {
			t.Error("the proof with the second key has the first one")
		}
		if _, err := p.Proof(auth.NewSecret("planted"), "POST", "https://mcp.example.com", auth.Secret{}, ""); err == nil || strings.Contains(err.Error(), "planted") {
			t.Errorf("malformed key: %v", err)
		}
	})
}

func TestDPoPWithConfiguredKeyStoresNoKey(t *testing.T) {
	private, public := newKey(t, "")
	p := machine.DPoP(private)
	key, err := p.NewKey()
	if err != nil || !key.Empty() {
		t.Fatal(key, err)
	}
	proof, err := p.Proof(key, "GET", "https://mcp.example.com/mcp", auth.NewSecret("access"), "")
	if err != nil {
		t.Fatal(err)
	}
	verify(t, proof, public)
}

func TestKeysAndSecretsAreNotPrinted(t *testing.T) {
	seed := []byte("planted-planted-planted-planted-")
	key, err := machine.NewKey(ed25519.NewKeyFromSeed(seed), "", "id")
	if err != nil {
		t.Fatal(err)
	}
	config := machine.EnterpriseOptions{Client: oauth.Client{Secret: auth.NewSecret("planted"), Auth: machine.PrivateKeyJWT(key)}}
	var out strings.Builder
	for _, value := range []any{key, *key, machine.PrivateKeyJWT(key), machine.DPoP(key), config, machine.Enterprise(config)} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
			fmt.Fprintf(&out, verb+"\n", value)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("a", "value", value)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("a", "value", value)
	}
	for _, form := range []string{"planted", fmt.Sprintf("%x", "planted"), "112 108 97 110", "0x70, 0x6c, 0x61"} {
		if strings.Contains(out.String(), form) {
			t.Errorf("%q is in %s", form, out.String())
		}
	}
}

func BenchmarkDPoPProof(b *testing.B) {
	p := machine.DPoP(nil)
	key, err := p.NewKey()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := p.Proof(key, "POST", "https://mcp.example.com/mcp", key, ""); err != nil {
			b.Fatal(err)
		}
	}
}
