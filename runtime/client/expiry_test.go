package client_test

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// renewer is an Authorizer that has a new token after each challenge. The token is the time when it
// was issued.
type renewer struct {
	mu      sync.Mutex
	token   string
	renewed int
}

func (a *renewer) Authorize(r *http.Request, _ httpclient.Operation) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	r.Header.Set("Authorization", "Bearer "+a.token)
	return nil
}

func (a *renewer) Challenged(context.Context, *http.Response, httpclient.Operation) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.token = strconv.FormatInt(time.Now().Unix(), 10)
	a.renewed++
	return true, nil
}

// When the token of an open stream expires, the server ends the stream, and the client opens it
// again with a new token.
func TestSubscriptionOutlivesItsToken(t *testing.T) {
	for _, revision := range []mcp.Revision{mcp.Revision20251125, mcp.Revision20260728} {
		t.Run(string(revision), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const resource = "https://mcp.example.com/mcp"
				p, err := auth.NewProtector(auth.Options{
					Resource: resource, Issuers: []string{"https://as.example.com"}, Skew: time.Second,
					Verifier: auth.VerifierFunc(func(_ context.Context, c *auth.Credentials) (*auth.Identity, error) {
						issued, err := strconv.ParseInt(c.Token.Reveal(), 10, 64)
						return &auth.Identity{Subject: "ann", Audience: []string{resource}, Expiry: time.Unix(issued, 0).Add(10 * time.Minute)}, err
					}),
				})
				if err != nil {
					t.Fatal(err)
				}
				at := new(network)
				s := server.New("s", "1", nil)
				server.AddResource(s, "x:one", "one", noContent)
				defer serveOwn(t, at, s, &streamable.HandlerOptions{Auth: p})()
				var changes changeLog
				a := &renewer{token: strconv.FormatInt(time.Now().Unix(), 10)}
				c := dialOwn(t, at, client.Options{Notifications: &changes, Auth: a}, revision)
				if err := c.Subscribe(t.Context(), "x:one"); err != nil {
					t.Fatal(err)
				}
				for range 3 {
					time.Sleep(15 * time.Minute)
					changes.take() // a client that has listened again reports what it may have missed
					s.ResourceUpdated("x:one")
					if got := changes.take(); !slices.Equal(got, []string{"x:one"}) {
						t.Errorf("changes %q", got)
					}
				}
				if a.renewed == 0 || a.renewed > 6 {
					t.Errorf("%d new tokens", a.renewed)
				}
			})
		})
	}
}
