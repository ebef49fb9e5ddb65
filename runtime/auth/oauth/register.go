package oauth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/authtext"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/clientauth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/fetch"
)

// ClientMetadata describes a client in dynamic registration (RFC 7591, section 2) and in a Client
// ID Metadata Document.
type ClientMetadata struct {
	ClientName              string   `json:"client_name,omitempty"` // default "mcpwire"
	ClientURI               string   `json:"client_uri,omitempty"`
	LogoURI                 string   `json:"logo_uri,omitempty"`
	ApplicationType         string   `json:"application_type,omitempty"` // default "native" if all redirect URIs are loopback URIs, else "web"
	RedirectURIs            []string `json:"redirect_uris,omitempty"`    // default: that of the UserAgent
	GrantTypes              []string `json:"grant_types,omitempty"`      // default authorization_code and refresh_token
	ResponseTypes           []string `json:"response_types,omitempty"`   // default code
	TokenEndpointAuthMethod string   `json:"token_endpoint_auth_method,omitempty"`
	Scope                   string   `json:"scope,omitempty"`
	Contacts                []string `json:"contacts,omitempty"`
	SoftwareID              string   `json:"software_id,omitempty"`
	SoftwareVersion         string   `json:"software_version,omitempty"`
	JWKSURI                 string   `json:"jwks_uri,omitempty"`
}

// withDefaults returns m with defaults for a client with these redirect URIs.
func (m ClientMetadata) withDefaults(redirectURIs ...string) ClientMetadata {
	m.ClientName = cmp.Or(m.ClientName, "mcpwire")
	for _, uri := range redirectURIs {
		if !slices.Contains(m.RedirectURIs, uri) {
			m.RedirectURIs = append(slices.Clip(m.RedirectURIs), uri)
		}
	}
	if m.ApplicationType == "" {
		m.ApplicationType = "native"
		if slices.ContainsFunc(m.RedirectURIs, func(uri string) bool { return !isLoopback(uri) }) {
			m.ApplicationType = "web"
		}
	}
	if m.GrantTypes == nil {
		m.GrantTypes = []string{"authorization_code", "refresh_token"}
	}
	if m.ResponseTypes == nil && slices.Contains(m.GrantTypes, "authorization_code") {
		m.ResponseTypes = []string{"code"}
	}
	return m
}

// isLoopback reports whether uri is an http URI with a loopback address or localhost.
func isLoopback(uri string) bool {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "http" {
		return false
	}
	address, err := netip.ParseAddr(u.Hostname())
	return err == nil && address.IsLoopback() || u.Hostname() == "localhost"
}

// checkRedirectURI checks that a redirect URI uses https, or http at a loopback address, and has
// neither user nor fragment.
func checkRedirectURI(uri string) error {
	u, err := url.Parse(uri)
	if err != nil || strings.Contains(uri, "#") || u.User != nil || !(u.Scheme == "https" && u.Host != "" || isLoopback(uri)) {
		return fmt.Errorf("redirect URI %q must use https, or http at a loopback address, without user and fragment", fetch.Printable(uri))
	}
	return nil
}

// checkClientIDURL checks the URL of a Client ID Metadata Document.
func checkClientIDURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Contains(raw, "#"):
		err = errors.New("must use https, without user and fragment")
	case u.Path == "" || u.Path == "/":
		err = errors.New("must have a path")
	default:
		_, err = authtext.Canonical(raw)
	}
	if err != nil {
		return fmt.Errorf("oauth: client id URL %q: %w", fetch.Show(raw), err)
	}
	return nil
}

// ClientIDDocument returns a handler that serves a Client ID Metadata Document. clientIDURL is both
// the client id and the URL at which the document is to be served. more adds further members. If it
// has no TokenEndpointAuthMethod, the client is public.
func ClientIDDocument(clientIDURL, name string, redirectURIs []string, more ClientMetadata) (http.Handler, error) {
	if err := checkClientIDURL(clientIDURL); err != nil {
		return nil, err
	}
	switch {
	case name == "":
		return nil, errors.New("oauth: client id document: empty name")
	case len(redirectURIs) == 0:
		return nil, errors.New("oauth: client id document: no redirect URI")
	}
	more.ClientName, more.RedirectURIs = name, nil
	more = more.withDefaults(redirectURIs...)
	more.TokenEndpointAuthMethod = cmp.Or(more.TokenEndpointAuthMethod, clientauth.None)
	for _, uri := range more.RedirectURIs {
		if err := checkRedirectURI(uri); err != nil {
			return nil, fmt.Errorf("oauth: %w", err)
		}
	}
	document, err := json.Marshal(struct {
		ClientID string `json:"client_id"`
		ClientMetadata
	}{clientIDURL, more})
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(document)))
		w.Header().Set("Cache-Control", "max-age=3600")
		if r.Method == http.MethodGet {
			w.Write(document)
		}
	}), nil
}

// register registers a client (RFC 7591, section 3).
func register(ctx context.Context, c *fetch.Client, m *auth.ServerMetadata, metadata ClientMetadata) (*Client, error) {
	if metadata.TokenEndpointAuthMethod == "" {
		metadata.TokenEndpointAuthMethod = preferredMethod(m.TokenEndpointAuthMethods)
	}
	r, err := c.PostJSON(ctx, m.RegistrationEndpoint, nil, metadata)
	if err != nil {
		return nil, &Error{Op: "register", Issuer: m.Issuer, Err: err}
	}
	if r.Status != http.StatusCreated && r.Status != http.StatusOK {
		return nil, refusal("register", m.Issuer, r, nil, nil)
	}
	var answer struct {
		ID           string   `json:"client_id"`
		Secret       string   `json:"client_secret"`
		Expires      int64    `json:"client_secret_expires_at"`
		Method       string   `json:"token_endpoint_auth_method"`
		RedirectURIs []string `json:"redirect_uris"`
	}
	if err := r.JSON(&answer); err != nil {
		return nil, &Error{Op: "register", Issuer: m.Issuer, Err: err}
	}
	if answer.ID == "" {
		return nil, &Error{Op: "register", Issuer: m.Issuer, Err: errors.New("the response has no client_id")}
	}
	client := &Client{Issuer: m.Issuer, ID: answer.ID, Secret: auth.NewSecret(answer.Secret).For(m.Issuer), Method: answer.Method, RedirectURIs: answer.RedirectURIs}
	if client.RedirectURIs == nil {
		client.RedirectURIs = metadata.RedirectURIs
	}
	if answer.Expires > 0 && answer.Secret != "" {
		client.Expires = time.Unix(answer.Expires, 0)
	}
	return client, nil
}

// preferredMethod returns the authentication method to register, chosen from the offered ones.
func preferredMethod(offered []string) string {
	for _, method := range []string{clientauth.None, clientauth.Basic, clientauth.Post} {
		if slices.Contains(offered, method) {
			return method
		}
	}
	return clientauth.Basic // the default of metadata without the member (RFC 8414, section 2)
}
