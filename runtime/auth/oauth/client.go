package oauth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth/internal/clientauth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/fetch"
)

// stored returns the stored registration at the issuer of the flow. It returns nil if there is no
// valid registration, or if Options names another client for this issuer.
func (f *flow) stored(ctx context.Context) (*Client, error) {
	c, m := f.s.a.config, f.endpoints.metadata
	for _, known := range c.Clients {
		if known.Issuer == m.Issuer || known.Issuer == "*" {
			return nil, nil
		}
	}
	if c.ClientIDURL != "" && m.ClientIDDocuments {
		return nil, nil
	}
	var s storedClient
	found, err := get(ctx, c.Store, clientKey(m.Issuer), &s)
	if errors.Is(err, errMalformed) {
		return nil, nil
	}
	if err != nil || !found || !s.Expires.IsZero() && time.Now().After(s.Expires.Add(-c.Skew)) {
		return nil, err
	}
	return s.client(m.Issuer), nil
}

// knownRedirects returns the redirect URIs that are already registered at the issuer.
func (f *flow) knownRedirects(ctx context.Context) ([]string, error) {
	for _, known := range f.s.a.config.Clients {
		if known.Issuer == f.endpoints.metadata.Issuer || known.Issuer == "*" {
			return slices.Clone(known.RedirectURIs), nil
		}
	}
	s, err := f.stored(ctx)
	if s == nil || err != nil {
		return nil, err
	}
	return s.RedirectURIs, nil
}

// client returns the client for the issuer of the flow. It registers one if necessary. redirectURI
// is "" for grants without redirects. For a grant without a user, it returns only clients that the
// caller has configured for the issuer: the grant presents a credential, and the server, which may
// be hostile, has named the issuer.
func (f *flow) client(ctx context.Context, old binding, redirectURI string) (*Client, error) {
	f.registered = false
	c, m := f.s.a.config, f.endpoints.metadata
	if known, err := f.registeredBefore(ctx, old); known != nil || err != nil {
		return known, err
	}
	if f.s.a.quiet() {
		return f.askClient(ctx)
	}
	if c.ClientIDURL != "" && m.ClientIDDocuments {
		return &Client{Issuer: m.Issuer, ID: c.ClientIDURL, Method: clientauth.None}, nil
	}
	s, err := f.stored(ctx)
	if err != nil {
		return nil, err
	}
	f.registered = true
	if s != nil && (redirectURI == "" || slices.Contains(s.RedirectURIs, redirectURI)) {
		return s, nil
	}
	if m.RegistrationEndpoint != "" && !c.NoRegistration {
		if err := checkEndpoints(f.s.fetch, m.RegistrationEndpoint); err != nil {
			return nil, err
		}
		metadata := c.Registration
		if redirectURI != "" {
			metadata = metadata.withDefaults(redirectURI)
		} else {
			metadata = metadata.withDefaults()
		}
		client, err := register(ctx, f.s.fetch, m, metadata)
		if err != nil {
			return nil, err
		}
		if redirectURI != "" && !slices.Contains(client.RedirectURIs, redirectURI) {
			return nil, &Error{Op: "register", Issuer: m.Issuer, Err: fmt.Errorf("redirect URI %q was not registered", redirectURI)}
		}
		f.s.a.config.Logger.Info("client registered", "issuer", m.Issuer, "client", client.ID)
		return client, put(ctx, c.Store, clientKey(m.Issuer), storeClient(client))
	}
	f.registered = false
	return f.askClient(ctx)
}

// askClient returns the client of Options.AskClient.
func (f *flow) askClient(ctx context.Context) (*Client, error) {
	c, m := f.s.a.config, f.endpoints.metadata
	if c.AskClient != nil {
		client, err := c.AskClient(ctx, m.Issuer)
		if err != nil {
			return nil, err
		}
		if client == nil || client.ID == "" || client.Issuer != "" && client.Issuer != m.Issuer {
			return nil, fmt.Errorf("%w: AskClient returned no client for %q", ErrNoClient, m.Issuer)
		}
		answer := client.at(m.Issuer)
		return &answer, nil
	}
	var issuers []string
	for _, known := range c.Clients {
		issuers = append(issuers, known.Issuer)
	}
	if issuers != nil {
		return nil, fmt.Errorf("%w: issuer %q: clients are configured for %s", ErrNoClient, fetch.Printable(m.Issuer), strings.Join(issuers, ", "))
	}
	return nil, fmt.Errorf("%w: %q has no registration for this client", ErrNoClient, fetch.Printable(m.Issuer))
}

// unregister removes the registration of the flow from the store, so that the next flow registers
// again.
func (f *flow) unregister(ctx context.Context) error {
	if !f.registered {
		return nil
	}
	return f.s.store().Delete(ctx, clientKey(f.endpoints.metadata.Issuer))
}

// registeredBefore returns the configured client for the issuer of the flow, or nil if Options has
// no such client. It fails if the server has changed its issuer and the configured client belongs
// to the old one: credentials must not be sent to another issuer.
func (f *flow) registeredBefore(ctx context.Context, old binding) (*Client, error) {
	c, issuer := f.s.a.config, f.endpoints.metadata.Issuer
	for _, known := range c.Clients {
		if known.Issuer == issuer {
			return &known, nil
		}
	}
	for _, known := range c.Clients {
		if known.Issuer == "*" {
			bound, err := f.bind(ctx, known.ID)
			if err != nil {
				return nil, err
			}
			if bound != issuer {
				return nil, fmt.Errorf("%w: client %q is bound to issuer %q, but the server names %q", ErrNoClient, known.ID, bound, fetch.Printable(issuer))
			}
			known = known.at(issuer)
			return &known, nil
		}
		if known.Issuer == old.Issuer {
			return nil, fmt.Errorf("%w: the configured client is registered at %q, but the server now names %q", ErrNoClient, old.Issuer, fetch.Printable(issuer))
		}
	}
	return nil, nil
}

// at returns c as a client of one issuer, the only one that gets its secret.
func (c Client) at(issuer string) Client {
	c.Issuer, c.Secret = issuer, c.Secret.For(issuer)
	return c
}

// names reports whether the caller has named an issuer, and so trusts it.
func (c *Options) names(issuer string) bool {
	return issuer != "" && (issuer == c.Issuer || slices.ContainsFunc(c.Clients, func(known Client) bool { return known.Issuer == issuer }))
}

// boundKey is the key of the issuer to which the client with issuer "*" and this id is bound.
func boundKey(id string) Key { return Key{Kind: kindClient, Issuer: "*", Resource: id} }

// bind returns the issuer to which a client with issuer "*" is bound. If the client is not bound
// yet, bind binds it to the issuer of the flow.
func (f *flow) bind(ctx context.Context, id string) (string, error) {
	mu := &f.s.a.shared.binding
	mu.Lock()
	defer mu.Unlock()
	k := boundKey(id)
	unlock, err := f.s.store().Lock(ctx, k)
	if err != nil {
		return "", err
	}
	defer unlock()
	var b binding
	found, err := get(ctx, f.s.store(), k, &b)
	if err != nil || found {
		return b.Issuer, err
	}
	b.Issuer = f.endpoints.metadata.Issuer
	if b.Issuer == "" {
		return "", errors.New("no issuer")
	}
	return b.Issuer, put(ctx, f.s.store(), k, b)
}
