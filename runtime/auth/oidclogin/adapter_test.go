package oidclogin_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/machine"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
	"github.com/mcpwire/mcpwire/runtime/auth/oidclogin"
)

type tokens []*oauth2.Token // the next ones; the last one stays

func (s *tokens) Token() (*oauth2.Token, error) {
	if len(*s) == 0 {
		return nil, &oauth2.RetrieveError{Response: &http.Response{StatusCode: 400}, Body: []byte("planted"), ErrorCode: "invalid_grant"}
	}
	t := (*s)[0]
	if len(*s) > 1 {
		*s = (*s)[1:]
	}
	return t, nil
}

func TestFromOAuth2ReturnsTokensForItsServer(t *testing.T) {
	expiry := time.Now().Add(time.Hour)
	s, err := oidclogin.FromOAuth2("HTTPS://MCP.example.com/mcp", &tokens{{AccessToken: "one", Expiry: expiry}, {AccessToken: "two", TokenType: "bearer"}})
	if err != nil {
		t.Fatal(err)
	}
	const server = "https://mcp.example.com/mcp"
	if got, err := s(t.Context(), oauth.TokenRequest{Server: "https://evil.example.com/mcp"}); got != nil || err != nil {
		t.Errorf("another server: %v, %v", got, err)
	}
	got, err := s(t.Context(), oauth.TokenRequest{Server: server})
	if err != nil || got.Access.Reveal() != "one" || got.Type != "Bearer" || !got.Expiry.Equal(expiry) {
		t.Fatalf("%+v, %v", got, err)
	}
	got, err = s(t.Context(), oauth.TokenRequest{Server: server, Challenged: true, Rejected: got.Access})
	if err != nil || got.Access.Reveal() != "two" || got.Type != "Bearer" {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err = s(t.Context(), oauth.TokenRequest{Server: server, Rejected: got.Access}); got != nil || err != nil {
		t.Errorf("rejected token: %v, %v", got, err)
	}
}

func TestErrorOfFromOAuth2DoesNotQuoteResponse(t *testing.T) {
	s, err := oidclogin.FromOAuth2("https://mcp.example.com", &tokens{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s(t.Context(), oauth.TokenRequest{Server: "https://mcp.example.com"}); err == nil ||
		!strings.Contains(err.Error(), "invalid_grant") || strings.Contains(err.Error(), "planted") {
		t.Error(err)
	}
	if _, err := oidclogin.FromOAuth2("mcp.example.com", &tokens{}); err == nil {
		t.Error("a relative URL was accepted")
	}
}

// authorizationServer issues tokens of one type to all clients.
type authorizationServer struct{ kind string }

func (s authorizationServer) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	switch req.URL.String() {
	case "https://as.example.com/.well-known/oauth-authorization-server":
		io.WriteString(w, `{"issuer":"https://as.example.com","token_endpoint":"https://as.example.com/token","dpop_signing_alg_values_supported":["ES256"]}`)
	case "https://as.example.com/token":
		io.WriteString(w, `{"access_token":"access","refresh_token":"refresh","token_type":"`+s.kind+`","expires_in":3600}`)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
	resp := w.Result()
	resp.Request = req
	return resp, nil
}

func TestToOAuth2ReturnsTokensOfAuthorizer(t *testing.T) {
	for _, kind := range []string{"Bearer", "DPoP"} {
		a, err := oauth.New(oauth.Options{
			Grant: machine.ClientCredentials(), Issuer: "https://as.example.com", HTTP: &http.Client{Transport: authorizationServer{kind}},
			Clients: []oauth.Client{{Issuer: "https://as.example.com", ID: "robot", Secret: auth.NewSecret("hunter2")}},
			Prover:  machine.DPoP(nil),
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := oidclogin.ToOAuth2(t.Context(), a, "https://mcp.example.com/mcp").Token()
		switch {
		case kind == "DPoP":
			if err == nil || !strings.Contains(err.Error(), "bound to a key") {
				t.Errorf("DPoP: %v, %v", got, err)
			}
		case err != nil || got.AccessToken != "access" || got.RefreshToken != "" || got.Type() != "Bearer" || !got.Valid() || got.Expiry.IsZero():
			t.Errorf("%+v, %v", got, err)
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := oidclogin.ToOAuth2(canceled, a, "https://other.example.com/mcp").Token(); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
	}
}
