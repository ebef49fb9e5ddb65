package guard

import (
	"context"
	"log/slog"
	"maps"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

func protector(t *testing.T) *auth.Protector {
	t.Helper()
	p, err := auth.NewProtector(auth.Options{
		Resource: "https://mcp.example.com/mcp", Issuers: []string{"https://as.example.com"}, Logger: slog.New(slog.DiscardHandler),
		Verifier: auth.VerifierFunc(func(_ context.Context, c *auth.Credentials) (*auth.Identity, error) {
			switch c.Token.Reveal() {
			case "good":
				return &auth.Identity{Subject: "ann", Audience: []string{"https://mcp.example.com/mcp"}}, nil
			case "down":
				return nil, auth.ErrUnavailable
			}
			return nil, auth.ErrInvalidToken
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Proves AUTH-20, AUTH-22, M-AUTH-03.
func TestAdmitWithAuth(t *testing.T) {
	g := Guard{Auth: protector(t), Origins: []string{"https://app.example.com"}, Methods: "POST"}
	for _, test := range []struct {
		name   string
		method string
		header []string
		status int
	}{
		{"no token", "POST", nil, 401},
		{"bad token", "POST", []string{"Authorization", "Bearer bad"}, 401},
		{"verifier down", "POST", []string{"Authorization", "Bearer down"}, 503},
		{"malformed", "POST", []string{"Authorization", "Bearer"}, 400},
		{"foreign origin", "POST", []string{"Origin", "https://evil.example.com", "Authorization", "Bearer good"}, 403},
		{"preflight", "OPTIONS", []string{"Origin", "https://app.example.com", "Access-Control-Request-Method", "POST"}, 204},
		{"allowed origin without a token", "POST", []string{"Origin", "https://app.example.com"}, 401},
	} {
		w := httptest.NewRecorder()
		r := request(test.method, "192.0.2.7:443", "mcp.example.com", test.header...)
		if _, ok := g.Admit(w, r); ok || w.Code != test.status {
			t.Errorf("%s: admitted %v, status %d", test.name, ok, w.Code)
		}
		if (w.Header().Get("WWW-Authenticate") != "") != (test.status == 401 || test.status == 400) {
			t.Errorf("%s: header %v", test.name, w.Header())
		}
		if strings.HasPrefix(test.name, "allowed") && !strings.Contains(w.Header().Get("Access-Control-Expose-Headers"), "WWW-Authenticate") {
			t.Errorf("%s: header %v", test.name, w.Header())
		}
		if test.status != 204 {
			checkRefusal(t, w)
		}
	}
	r := request("POST", "192.0.2.7:443", "mcp.example.com", "Authorization", "Bearer good", "Proxy-Authorization", "Basic x", "DPoP", "x", "X-Other", "kept")
	before := maps.Clone(r.Header)
	ctx, ok := g.Admit(httptest.NewRecorder(), r)
	if !ok {
		t.Fatal("not admitted")
	}
	header, _ := transport.HTTP(ctx)
	i, _ := auth.FromContext(ctx)
	if p, ok := transport.Principal(ctx); !ok || p != "https://as.example.com#ann" || i == nil || i.Subject != "ann" {
		t.Errorf("principal %q, identity %+v", p, i)
	}
	if len(header["X-Other"]) != 1 || header["Authorization"] != nil || header["Proxy-Authorization"] != nil || header["Dpop"] != nil {
		t.Errorf("header of handlers: %v", header)
	}
	if len(r.Header) != len(before) {
		t.Errorf("the header of the request was changed: %v", r.Header)
	}
}
