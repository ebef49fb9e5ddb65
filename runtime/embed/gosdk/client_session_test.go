package gosdk_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/oauth2"

	"github.com/mcpwire/mcpwire/internal/must"
	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed/gosdk"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/joined/joinedtest"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

// sessions is the option for a revision with sessions.
var sessions = &mcp.ClientSessionOptions{ProtocolVersion: string(wire.Revision20251125)}

func TestHandleEndsWithSession(t *testing.T) {
	for _, row := range []struct {
		name string
		end  func(c *gosdk.Client, lose func()) error
	}{
		{"closed client", func(c *gosdk.Client, _ func()) error { return c.Close() }},
		{"closed session", func(c *gosdk.Client, _ func()) error { return c.Session.Close() }},
		{"session lost by the server", func(c *gosdk.Client, lose func()) error { lose(); return nil }},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := joinedtest.NewServer()
			defer s.Close()
			h := must.Get(s.Handler(nil))
			var lost atomic.Bool
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if lost.Load() && r.Header.Get("Mcp-Session-Id") != "" {
					http.NotFound(w, r)
					return
				}
				h.ServeHTTP(w, r)
			}))
			defer web.Close()
			c, err := gosdk.Connect(t.Context(), newClient(), &mcp.StreamableClientTransport{Endpoint: web.URL}, sessions)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			task, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "forever"})
			if err != nil {
				t.Fatal(err)
			}
			if err := row.end(c, func() {
				lost.Store(true)
				web.CloseClientConnections()
			}); err != nil {
				t.Fatal(err)
			}
			if _, err := task.Result(t.Context()); !errors.Is(err, session.ErrClosed) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// oauthHandler demands one authorization.
type oauthHandler struct{ token atomic.Pointer[oauth2.Token] }

func (h *oauthHandler) TokenSource(context.Context) (oauth2.TokenSource, error) {
	if token := h.token.Load(); token != nil {
		return oauth2.StaticTokenSource(token), nil
	}
	return nil, nil
}

func (h *oauthHandler) Authorize(_ context.Context, _ *http.Request, resp *http.Response) error {
	resp.Body.Close()
	h.token.Store(&oauth2.Token{AccessToken: "valid"})
	return nil
}

func TestClientAuthorizesTaskRequests(t *testing.T) {
	s := joinedtest.NewServer()
	defer s.Close()
	h := must.Get(s.Handler(nil))
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer valid" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}))
	defer web.Close()
	auth := new(oauthHandler)
	c, err := gosdk.Connect(t.Context(), newClient(), &mcp.StreamableClientTransport{Endpoint: web.URL, OAuthHandler: auth}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 {
		r, err := c.Invoke(t.Context(), &mcp.CallToolParams{Name: "job"})
		if got := textOf(r); got != "accept blue" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		auth.token.Store(&oauth2.Token{AccessToken: "expired"})
	}
}

// If the server rejects a request again after an authorization, the request fails.
func TestClientAuthorizesRequestOnce(t *testing.T) {
	s := joinedtest.NewServer()
	defer s.Close()
	h := must.Get(s.Handler(nil))
	var rejects atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rejects.Add(-1) >= 0 {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}))
	defer web.Close()
	c, err := gosdk.Connect(t.Context(), newClient(), &mcp.StreamableClientTransport{Endpoint: web.URL, OAuthHandler: new(oauthHandler)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	rejects.Store(2)
	_, err = c.Invoke(t.Context(), &mcp.CallToolParams{Name: "plain"})
	if e, ok := errors.AsType[*httpclient.StatusError](err); !ok || e.Code != http.StatusUnauthorized {
		t.Errorf("got %v", err)
	}
}

func TestInputHandlerOutlivesContextOfConnect(t *testing.T) {
	s := joinedtest.NewServer()
	defer s.Close()
	web := httptest.NewServer(must.Get(s.Handler(nil)))
	defer web.Close()
	o := &mcp.ClientOptions{ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "decline"}, ctx.Err()
	}}
	ctx, cancel := context.WithCancel(t.Context())
	c, err := gosdk.Connect(ctx, mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, o), &mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cancel()
	r, err := c.Invoke(t.Context(), &mcp.CallToolParams{Name: "job"})
	if got := textOf(r); got != "decline " || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestInputSessionRejectsRequests(t *testing.T) {
	s := joinedtest.NewServer()
	defer s.Close()
	web := httptest.NewServer(must.Get(s.Handler(nil)))
	defer web.Close()
	asked := make(chan error, 1)
	o := &mcp.ClientOptions{ElicitationHandler: func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		_, err := r.Session.ListTools(ctx, nil)
		asked <- err
		return &mcp.ElicitResult{Action: "decline"}, nil
	}}
	c, err := gosdk.Connect(t.Context(), mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, o), &mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := c.Invoke(t.Context(), &mcp.CallToolParams{Name: "job"})
	if got := textOf(r); got != "decline " || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if err := <-asked; err == nil {
		t.Error("the session of input requests has sent a request")
	}
}
