package oauth_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/mockas"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

func TestFromSource(t *testing.T) {
	network := &mockas.Network{}
	network.Handle("mcp.example", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Authorization") {
		case "Bearer good":
		case "Bearer narrow":
			w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="write"`)
			w.WriteHeader(http.StatusForbidden)
		default:
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	for _, test := range []struct {
		name, first, second string
		status              int
		asked               int
	}{
		{"accepted", "good", "", 200, 1},
		{"none, then one", "", "good", 200, 3},
		{"rejected, then another", "old", "good", 200, 3},
		{"too narrow, then another", "narrow", "good", 200, 3},
		{"rejected twice", "old", "older", 401, 3},
		{"the same again", "old", "old", 401, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked, token := 0, test.first
			a := oauth.FromSource((func(_ context.Context, r oauth.TokenRequest) (*oauth.Token, error) {
				asked++
				if r.Server != serverURL {
					t.Errorf("asked for %q", r.Server)
				}
				if r.Challenged {
					if r.Rejected.Reveal() != token {
						t.Errorf("rejected is %q", r.Rejected.Reveal())
					}
					token = test.second
				}
				if token == "" {
					return nil, nil
				}
				return &oauth.Token{Access: auth.NewSecret(token)}, nil
			}))
			status, err := send(t.Context(), network, a, serverURL, httpclient.Operation{Method: "tools/call"})
			if status != test.status || err != nil || asked != test.asked {
				t.Errorf("status %d, %v, asked %d times", status, err, asked)
			}
		})
	}
	fault := errors.New("fault")
	a := oauth.FromSource((func(context.Context, oauth.TokenRequest) (*oauth.Token, error) { return nil, fault }))
	if _, err := send(t.Context(), network, a, serverURL, httpclient.Operation{}); !errors.Is(err, fault) {
		t.Errorf("the fault of the source is reported as %v", err)
	}
	a = oauth.FromSource((func(context.Context, oauth.TokenRequest) (*oauth.Token, error) {
		return &oauth.Token{Access: auth.NewSecret("good").For("https://other.example")}, nil
	}))
	if _, err := send(t.Context(), network, a, serverURL, httpclient.Operation{}); !errors.Is(err, auth.ErrRecipient) {
		t.Errorf("a token of another server: %v", err)
	}
}
