package oauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/authtext"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/fetch"
)

// Options configures an Authorizer. The zero value uses stored tokens only.
type Options struct {
	User  UserAgent // how the user authorizes; nil: only stored tokens and grants without a user are used
	Grant Grant     // nil: the authorization code grant with User

	// The client id comes from the first source that applies to the authorization server: Clients,
	// ClientIDURL, dynamic registration, AskClient. A Grant without a user uses only Clients, whose
	// Issuer must not be "*", and AskClient, which should return clients only for issuers that it
	// trusts: the server names the issuer, and the Grant presents a credential to it.
	Clients        []Client       // pre-registered, each at its Issuer
	ClientIDURL    string         // URL of a Client ID Metadata Document, for authorization servers that support them
	Registration   ClientMetadata // for dynamic registration
	NoRegistration bool           // disables dynamic registration
	AskClient      func(ctx context.Context, issuer string) (*Client, error)

	Store     Store  // default: one in memory
	Principal string // on whose behalf tokens are stored and used; set it in programs with several users

	Scopes    []string // requested in addition to the scopes that the server demands
	NoOffline bool     // never requests offline_access

	// Issuer is used for servers without resource metadata. It and the issuers of Clients are
	// trusted: their endpoints may have several origins even if their responses have no iss (RFC
	// 9207).
	Issuer string
	// ChooseIssuer chooses one of the issuers that a server names, or fails. By default, that is
	// the current issuer if it is still listed, else the first. A Grant without a user prefers
	// issuers of Clients.
	ChooseIssuer func(ctx context.Context, issuers []string) (issuer string, err error)

	Prover      Prover // makes DPoP proofs; nil: tokens are bearer tokens
	RequireDPoP bool   // refuses bearer tokens; needs Prover

	HTTP    *http.Client // its transport sends the requests to authorization servers; default: http.DefaultTransport
	Network Network      // addresses that may be reached

	MaxStepUps   int           // flows for more scopes per operation in 10 minutes; default 2
	LoginTimeout time.Duration // how long the user may take; default 5 minutes
	Skew         time.Duration // how long before its expiry a token is refreshed; default 1 minute
	Logger       *slog.Logger  // default: nothing is logged
}

// Network lists the addresses that may be reached in addition to public addresses and the hosts
// that the caller has named. The named hosts are those of the MCP servers and of Options.Issuer. If
// one of them is a loopback address, all loopback addresses may be reached.
type Network struct {
	AllowPrivate bool           // all addresses
	Allow        []netip.Prefix // these addresses
}

// Authorizer authorizes the requests of clients. It implements [httpclient.Authorizer] and is safe
// for concurrent use. One Authorizer can be used for any number of servers. Concurrent requests to
// a server share one flow.
type Authorizer struct {
	config    *Options
	principal string
	shared    *shared
}

// shared is the state that the Authorizers of all principals share.
type shared struct {
	fetch  *fetch.Client
	nonces nonces

	mu      sync.Mutex
	servers map[serverKey]*server
	written map[writtenURL]*server // a subset of servers, looked up without parsing the URL
	sweepAt int                    // number of servers that triggers the removal of unused ones
	issuers map[string]cachedIssuer
	binding sync.Mutex // held while a client is bound to its first issuer
}

type serverKey struct{ url, principal string }

// writtenURL is a principal and the URL of a server before canonicalization.
type writtenURL struct{ scheme, host, path, rawPath, principal string }

type cachedIssuer struct {
	metadata *auth.ServerMetadata
	until    time.Time
}

// New returns an Authorizer. It fails if the configuration is invalid.
func New(c Options) (*Authorizer, error) {
	c.Clients = slices.Clone(c.Clients)
	c.Scopes = slices.Clone(c.Scopes)
	if c.Store == nil {
		c.Store = newMemory()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.MaxStepUps = cmp.Or(c.MaxStepUps, 2)
	c.LoginTimeout = cmp.Or(c.LoginTimeout, 5*time.Minute)
	c.Skew = cmp.Or(c.Skew, time.Minute)
	for i, client := range c.Clients {
		switch {
		case client.Issuer == "":
			return nil, fmt.Errorf("oauth: client %q has no Issuer", client.ID)
		case client.ID == "":
			return nil, fmt.Errorf("oauth: client of issuer %q has no ID", client.Issuer)
		case client.Issuer == "*" && c.Grant != nil && !c.Grant.NeedsUser():
			return nil, fmt.Errorf("oauth: client %q: a grant without a user needs the Issuer of the client, not \"*\"", client.ID)
		case client.Issuer != "*":
			c.Clients[i] = client.at(client.Issuer)
		}
	}
	if c.ClientIDURL != "" {
		if err := checkClientIDURL(c.ClientIDURL); err != nil {
			return nil, err
		}
	}
	for _, uri := range c.Registration.RedirectURIs {
		if err := checkRedirectURI(uri); err != nil {
			return nil, fmt.Errorf("oauth: %w", err)
		}
	}
	switch {
	case c.RequireDPoP && c.Prover == nil:
		return nil, errors.New("oauth: RequireDPoP needs a Prover")
	case c.MaxStepUps < 0:
		return nil, fmt.Errorf("oauth: negative MaxStepUps (%d)", c.MaxStepUps)
	case c.LoginTimeout < 0:
		return nil, fmt.Errorf("oauth: negative LoginTimeout (%v)", c.LoginTimeout)
	case c.Skew < 0:
		return nil, fmt.Errorf("oauth: negative Skew (%v)", c.Skew)
	}
	guarded := fetch.New(c.HTTP, fetch.Network(c.Network))
	if c.Issuer != "" {
		u, err := url.Parse(c.Issuer)
		if err != nil || u.Host == "" {
			return nil, fmt.Errorf("oauth: issuer %q is not a URL", fetch.Show(c.Issuer))
		}
		guarded = guarded.For(u)
		if err := guarded.CheckEndpoint(c.Issuer); err != nil {
			return nil, fmt.Errorf("oauth: issuer: %w", err)
		}
	}
	return &Authorizer{config: &c, principal: c.Principal, shared: &shared{
		fetch: guarded, servers: map[serverKey]*server{}, written: map[writtenURL]*server{}, sweepAt: minSweep, issuers: map[string]cachedIssuer{},
	}}, nil
}

// For returns an Authorizer for another principal. Both share the configuration, the Store and the
// cached metadata of authorization servers.
func (a *Authorizer) For(principal string) *Authorizer {
	return &Authorizer{a.config, principal, a.shared}
}

// minSweep is the number of servers below which unused servers are kept.
const minSweep = 1000

// server returns the state of a server, which it creates if necessary.
func (a *Authorizer) server(u *url.URL) (*server, error) {
	if u == nil {
		return nil, errors.New("oauth: no server URL")
	}
	sh, now := a.shared, time.Now()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	simple := u.User == nil && u.Opaque == "" && u.RawQuery == "" && !u.ForceQuery && u.Fragment == ""
	written := writtenURL{u.Scheme, u.Host, u.Path, u.RawPath, a.principal}
	if s := sh.written[written]; s != nil && simple {
		s.used = now
		return s, nil
	}
	canonical, err := authtext.Canonical(u.String())
	if err != nil {
		return nil, err
	}
	k := serverKey{canonical, a.principal}
	s := sh.servers[k]
	if s == nil {
		if len(sh.servers) >= sh.sweepAt {
			for k, old := range sh.servers {
				if now.Sub(old.used) > window && old.idle() {
					delete(sh.servers, k)
				}
			}
			sh.sweepAt = max(minSweep, 2*len(sh.servers))
			clear(sh.written)
		}
		parsed, err := url.Parse(canonical)
		if err != nil {
			return nil, err
		}
		s = &server{a: a, url: parsed, canonical: canonical, fetch: sh.fetch.For(parsed)}
		sh.servers[k] = s
	}
	if simple && len(sh.written) < 2*sh.sweepAt {
		sh.written[written] = s
	}
	s.used = now
	return s, nil
}

// issuer returns the metadata of an authorization server. It caches metadata for 10 minutes.
func (s *shared) issuer(ctx context.Context, c *fetch.Client, issuer string) (*auth.ServerMetadata, error) {
	s.mu.Lock()
	cached, ok := s.issuers[issuer]
	s.mu.Unlock()
	if ok && time.Now().Before(cached.until) {
		return cached.metadata, nil
	}
	m, err := discoverServer(ctx, c, issuer)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.issuers) >= minSweep {
		clear(s.issuers)
	}
	s.issuers[issuer] = cachedIssuer{m, time.Now().Add(window)}
	return m, nil
}
