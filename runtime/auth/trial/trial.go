// Package trial is an authorization server for trials and tests. It runs on a loopback address,
// does not ask for passwords, and keeps its state in memory. Do not protect real data with it.
//
// It serves authorization server metadata, dynamic registration, Client ID Metadata Documents, the
// authorization code grant with PKCE, the client credentials grant, refresh tokens with rotation
// for the scope offline_access, and revocation. Its access tokens are opaque: a Server is the
// [auth.Verifier] of a Protector in the same process.
//
//	as, err := trial.New(trial.Options{Issuer: "http://127.0.0.1:8080", Scopes: []string{"write"}})
//	p, err := auth.NewProtector(auth.Options{
//		Resource: "http://127.0.0.1:8080/mcp", Issuers: []string{"http://127.0.0.1:8080"}, Verifier: as,
//	})
//	served, err := s.Handler(&streamable.HandlerOptions{Auth: p})
//	handler := as.Handler(p.Handler(served))
package trial

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/fetch"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/issuer"
)

// Defaults of [Options].
const (
	defaultAccessTTL  = 5 * time.Minute
	defaultRefreshTTL = time.Hour
)

// Options configures a [Server].
type Options struct {
	Issuer    string   // URL with a loopback host, such as "http://127.0.0.1:8080/auth"; required
	Resources []string // URLs of the servers that it issues tokens for; nil means any
	Scopes    []string // that clients may request, besides offline_access; there are no default scopes
	Users     []string // that the login page offers; default: "user"
	Clients   []Client // registered in advance
	// Approve skips the login page and logs in the first of Users, if the redirect URI of the client
	// is on this computer.
	Approve bool

	AccessTTL  time.Duration // lifetime of access tokens; default: 5 minutes
	RefreshTTL time.Duration // lifetime of refresh tokens; default: an hour

	// HTTP provides the transport for Client ID Metadata Documents. The default is
	// [http.DefaultTransport].
	HTTP *http.Client
	// Now returns the current time. The default is [time.Now].
	Now func() time.Time
}

// Client is a client that is registered in advance.
type Client struct {
	ID string
	// Secret authenticates the client. It is empty for a public client. Only a client with a secret
	// may use the client credentials grant.
	Secret       auth.Secret
	RedirectURIs []string // the port of an http URI is ignored
}

// Server is an authorization server. It is safe for concurrent use.
type Server struct {
	server *issuer.Server
	host   string
}

// New returns a Server. It fails if the host of the issuer is not a loopback address.
func New(o Options) (*Server, error) {
	u, err := url.Parse(o.Issuer)
	if err != nil {
		return nil, fmt.Errorf("trial: issuer is not a URL")
	}
	if address, err := netip.ParseAddr(u.Hostname()); u.Hostname() != "localhost" && (err != nil || !address.IsLoopback()) {
		return nil, fmt.Errorf("trial: issuer host %q is not a loopback address", u.Hostname())
	}
	s := &Server{host: u.Host}
	c := issuer.Config{
		Issuer: o.Issuer, Name: "Trial login", Resources: o.Resources, Scopes: o.Scopes, Users: o.Users,
		Notice:            "Trial authorization server: it asks for no password and protects nothing.",
		Documents:         fetch.New(o.HTTP, fetch.Network{}).For(u),
		ClientCredentials: true,
		AccessTTL:         cmp.Or(o.AccessTTL, defaultAccessTTL),
		RefreshTTL:        cmp.Or(o.RefreshTTL, defaultRefreshTTL),
		Now:               o.Now,
		Approved: func(w http.ResponseWriter, _ *http.Request, a *issuer.Authorization, user string) {
			s.server.Complete(w, a, &issuer.Grant{Subject: user})
		},
		// A website that redirects a browser here must not get tokens for servers on this computer.
		Skip: func(a *issuer.Authorization) bool { return o.Approve && strings.HasPrefix(a.RedirectURI, "http:") },
	}
	if len(c.Users) == 0 {
		c.Users = []string{"user"}
	}
	for _, client := range o.Clients {
		c.Clients = append(c.Clients, issuer.Client{ID: client.ID, Secret: client.Secret, RedirectURIs: client.RedirectURIs})
	}
	if s.server, err = issuer.New(c); err != nil {
		return nil, fmt.Errorf("trial: %w", err)
	}
	return s, nil
}

// Handler returns a handler that serves /authorize, /token, /register and /revoke below the path of
// the issuer, and the metadata at /.well-known/oauth-authorization-server followed by the path of
// the issuer. It passes all other requests to next, including those with a Host other than that of
// the issuer. If next is nil, they get status 404.
func (s *Server) Handler(next http.Handler) http.Handler {
	if next == nil {
		next = http.NotFoundHandler()
	}
	own := s.server.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != s.host { // for example a website whose name resolves to this computer (DNS rebinding)
			next.ServeHTTP(w, r)
			return
		}
		own.ServeHTTP(w, r)
	})
}

// Verify implements [auth.Verifier].
func (s *Server) Verify(ctx context.Context, c *auth.Credentials) (*auth.Identity, error) {
	return s.server.Verify(ctx, c)
}

// Revoke revokes all tokens of a user.
func (s *Server) Revoke(user string) {
	s.server.Revoke(func(g *issuer.Grant) bool { return g.Subject == user })
}
