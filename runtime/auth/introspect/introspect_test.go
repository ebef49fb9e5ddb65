package introspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/introspect"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
)

const issuer = "https://as.example.com"

// server is an introspection endpoint that always sends the same response.
type server struct {
	url    string
	status int
	kind   string
	answer string
	form   url.Values
	header http.Header
	count  int

	web         *httptest.Server
	connections atomic.Int64
}

func newServer(t *testing.T, answer string) *server {
	s := &server{status: http.StatusOK, kind: "application/json", answer: answer}
	h := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil || r.Method != http.MethodPost || r.URL.RawQuery != "" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		s.form, s.header, s.count = r.PostForm, r.Header, s.count+1
		w.Header().Set("Content-Type", s.kind)
		w.Header().Set("Location", "/")
		w.WriteHeader(s.status)
		w.Write([]byte(s.answer))
	}))
	h.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.connections.Add(1)
		}
	}
	h.Start()
	t.Cleanup(h.Close)
	s.url, s.web = h.URL+"/introspect", h
	return s
}

func (s *server) verifier(t *testing.T, client oauth.Client) introspect.Verifier {
	t.Helper()
	if client.ID == "" {
		client = oauth.Client{Issuer: issuer, ID: "mcp server", Secret: auth.NewSecret("planted secret")}
	}
	v, err := introspect.New(s.url, client, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

var credentials = &auth.Credentials{Scheme: "Bearer", Token: auth.NewSecret("planted-token")}

// Verifications share a connection, and go on over another one when the server has closed it.
func TestConnectionsAreReused(t *testing.T) {
	s := newServer(t, `{"active":true}`)
	v := s.verifier(t, oauth.Client{})
	verify := func() {
		t.Helper()
		for range 10 {
			if _, err := v.Verify(t.Context(), credentials); err != nil {
				t.Fatal(err)
			}
		}
	}
	verify()
	s.web.CloseClientConnections()
	verify()
	// A busy machine may need more than two: a connection is not kept if its request is not known to
	// be written when the response has arrived.
	if n := s.connections.Load(); n > 10 {
		t.Errorf("%d connections for 20 verifications", n)
	}
	if s.header["Idempotency-Key"] != nil {
		t.Error("the server gets an idempotency key")
	}
}

func TestVerifyReturnsIdentity(t *testing.T) {
	for _, c := range []struct {
		answer string
		want   auth.Identity
	}{
		{`{"active":true}`, auth.Identity{Issuer: issuer, Claims: map[string]any{}}},
		{`{"active":true,"iss":"https://as.example.com","sub":"ann","client_id":"app","aud":"https://mcp.example.com/mcp","scope":"read write",
			"exp":4000000000,"nbf":1,"username":"Ann","cnf":{"jkt":"thumbprint"}}`, auth.Identity{
			Issuer: issuer, Subject: "ann", ClientID: "app", Audience: []string{"https://mcp.example.com/mcp"}, Scopes: []string{"read", "write"},
			Expiry: time.Unix(4000000000, 0), Thumbprint: "thumbprint", Claims: map[string]any{"username": "Ann", "nbf": 1.0},
		}},
		{`{"active":true,"exp":1e300}`, auth.Identity{Issuer: issuer, Expiry: time.Unix(1<<40, 0), Claims: map[string]any{}}},
		{`{"active":true,"aud":["a","b"]}`, auth.Identity{Issuer: issuer, Audience: []string{"a", "b"}, Claims: map[string]any{}}},
	} {
		s := newServer(t, c.answer)
		got, err := s.verifier(t, oauth.Client{}).Verify(t.Context(), credentials)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(got.Scopes) == 0 {
			got.Scopes = nil
		}
		if !reflect.DeepEqual(got, &c.want) {
			t.Errorf("%s: %+v", c.answer, got)
		}
		if want := (url.Values{"token": {"planted-token"}, "token_type_hint": {"access_token"}}); !reflect.DeepEqual(s.form, want) {
			t.Errorf("form %v, want %v", s.form, want)
		}
		if user, password, _ := (&http.Request{Header: s.header}).BasicAuth(); user != "mcp+server" || password != "planted+secret" {
			t.Errorf("authentication: %q, %q", user, password)
		}
	}
}

type assertion struct{}

func (assertion) Method() string { return "private_key_jwt" }

func (assertion) Apply(_ context.Context, issuer, clientID string, form url.Values, _ http.Header) error {
	form.Set("client_assertion", clientID+" at "+issuer)
	return nil
}

func TestVerifyAuthenticatesWithMethodOfClient(t *testing.T) {
	s := newServer(t, `{"active":true}`)
	for want, client := range map[string]oauth.Client{
		"client_id=id&client_secret=secret&":                   {Issuer: issuer, ID: "id", Secret: auth.NewSecret("secret"), Method: "client_secret_post"},
		"client_assertion=id+at+https%3A%2F%2Fas.example.com&": {Issuer: issuer, ID: "id", Auth: assertion{}},
	} {
		if _, err := s.verifier(t, client).Verify(t.Context(), credentials); err != nil {
			t.Error(err)
		}
		if got := s.form.Encode(); !strings.HasPrefix(got, want) || s.header.Get("Authorization") != "" {
			t.Errorf("form %s, want %s", got, want)
		}
	}
}

// Proves AUTH-20, M-AUTH-02.
func TestVerifyRejectsTokens(t *testing.T) {
	later, _ := json.Marshal(map[string]any{"active": true, "nbf": time.Now().Add(time.Hour).Unix()})
	for want, answer := range map[string]string{
		"not active":             `{"active":false}`,
		"issuer":                 `{"active":true,"iss":"https://as.example.com/"}`,
		"not valid yet":          string(later),
		"method other than DPoP": `{"active":true,"cnf":{"x5t#S256":"a"}}`,
		": not active":           `{}`, // no member says otherwise
		"invalid token: n":       `{"active":false,"iss":"https://evil.example.com"}`,
	} {
		i, err := newServer(t, answer).verifier(t, oauth.Client{}).Verify(t.Context(), credentials)
		if i != nil || !errors.Is(err, auth.ErrInvalidToken) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %v, %v", want, i, err)
		}
	}
}

func TestVerifyIsUnavailableWithoutValidResponse(t *testing.T) {
	for _, c := range []struct {
		name, kind, answer string
		status             int
	}{
		{"client refused", "application/json", `{"error":"invalid_client"}`, 401},
		{"broken", "text/html", "<html>", 500},
		{"redirect", "application/json", `{"active":true}`, 307},
		{"html", "text/html", `<html>planted-token`, 200},
		{"wrong type", "application/json", `{"active":true,"sub":["planted-token"]}`, 200},
		{"list", "application/json", `[]`, 200},
		{"endless", "application/json", `{"active":true,"a":"` + strings.Repeat("a", 64<<10) + `"}`, 200},
	} {
		s := newServer(t, c.answer)
		s.status, s.kind = c.status, c.kind
		i, err := s.verifier(t, oauth.Client{}).Verify(t.Context(), credentials)
		if i != nil || !errors.Is(err, auth.ErrUnavailable) || errors.Is(err, auth.ErrInvalidToken) || strings.Contains(err.Error(), "planted") || s.count != 1 {
			t.Errorf("%s: %v, %v after %d requests", c.name, i, err, s.count)
		}
	}
	v, err := introspect.New("https://as.example.com/introspect", oauth.Client{Issuer: issuer, ID: "id", Auth: assertion{}},
		&introspect.Options{HTTP: &http.Client{Transport: down{}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(t.Context(), credentials); !errors.Is(err, auth.ErrUnavailable) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("no connection: %v", err)
	}
}

type down struct{}

func (down) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection refused")
}

func TestNewRejectsInvalidArguments(t *testing.T) {
	secret := auth.NewSecret("planted")
	for _, c := range []struct {
		want, endpoint string
		client         oauth.Client
	}{
		{"no Issuer", "https://as.example.com/introspect", oauth.Client{ID: "id", Secret: secret}},
		{"no Issuer", "https://as.example.com/introspect", oauth.Client{Issuer: "*", ID: "id", Secret: secret}},
		{"no ID", "https://as.example.com/introspect", oauth.Client{Issuer: issuer, Secret: secret}},
		{"neither Secret nor Auth", "https://as.example.com/introspect", oauth.Client{Issuer: issuer, ID: "id"}},
		{`method "private_key_jwt"`, "https://as.example.com/introspect", oauth.Client{Issuer: issuer, ID: "id", Secret: secret, Method: "private_key_jwt"}},
		{"https", "http://as.example.com/introspect", oauth.Client{Issuer: issuer, ID: "id", Secret: secret}},
		{"user", "https://planted:planted@as.example.com/introspect", oauth.Client{Issuer: issuer, ID: "id", Secret: secret}},
	} {
		if _, err := introspect.New(c.endpoint, c.client, nil); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %v", c.want, err)
		}
	}
}

func TestDefaultCacheTTLIsHalfAMinute(t *testing.T) {
	client := oauth.Client{Issuer: issuer, ID: "id", Secret: auth.NewSecret("secret")}
	for given, want := range map[time.Duration]time.Duration{0: 30 * time.Second, time.Second: time.Second, -1: -1} {
		v, err := introspect.New("https://as.example.com/introspect", client, &introspect.Options{CacheTTL: given})
		if err != nil || v.CacheTTL() != want {
			t.Errorf("%v: %v, want %v (%v)", given, v.CacheTTL(), want, err)
		}
	}
}
