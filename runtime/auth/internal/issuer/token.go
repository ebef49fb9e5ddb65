package issuer

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/authtext"
)

// tokens is a token response (RFC 6749, section 5.1).
type tokens struct {
	Access  string `json:"access_token"`
	Type    string `json:"token_type"`
	Expires int    `json:"expires_in"`
	Refresh string `json:"refresh_token,omitempty"`
	Scope   string `json:"scope,omitempty"`
}

// exchange serves the token endpoint.
func (s *Server) exchange(w http.ResponseWriter, r *http.Request) (any, error) {
	values, err := form(r)
	if err != nil {
		return nil, err
	}
	c, err := s.authenticate(w, r, values)
	if err != nil {
		return nil, err
	}
	switch kind := values.Get("grant_type"); {
	case kind == "authorization_code":
		return s.redeem(c, values)
	case kind == "refresh_token":
		return s.renew(r, c, values)
	case kind == "client_credentials" && s.c.ClientCredentials:
		return s.direct(c, values)
	default:
		return nil, faultf("unsupported_grant_type", "grant_type %q is not supported", kind)
	}
}

// redeem exchanges an authorization code.
func (s *Server) redeem(c *Client, values url.Values) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.c.Now()
	found, ok := s.codes.Get(now, hash(values.Get("code")))
	if !ok || found.authorization.Client.ID != c.ID {
		return nil, faultf("invalid_grant", "the code is unknown or has expired")
	}
	if found.used { // the code may have been stolen (RFC 6749, section 4.1.2)
		s.grants.Delete(found.grant)
		return nil, faultf("invalid_grant", "the code was already used")
	}
	found.used = true
	a := found.authorization
	sum := sha256.Sum256([]byte(values.Get("code_verifier")))
	challenge := base64.RawURLEncoding.EncodeToString(sum[:])
	switch {
	case values.Get("redirect_uri") != a.RedirectURI:
		return nil, faultf("invalid_grant", "the redirect_uri differs from that of the authorization request")
	case subtle.ConstantTimeCompare([]byte(challenge), []byte(a.challenge)) != 1:
		return nil, faultf("invalid_grant", "the code_verifier does not match")
	}
	g, ok := s.grants.Get(now, found.grant)
	if !ok {
		return nil, faultf("invalid_grant", "the grant was revoked")
	}
	return s.issue(g, g.Scopes, values)
}

// renew exchanges a refresh token for a new one and an access token.
func (s *Server) renew(r *http.Request, c *Client, values url.Values) (any, error) {
	unknown := faultf("invalid_grant", "the refresh token is unknown, expired or revoked")
	// find returns the grant of the token. mu must be held.
	find := func() (*Grant, error) {
		g, generation, ok := s.refreshed(values.Get("refresh_token"))
		if !ok || g.ClientID != c.ID {
			return nil, unknown
		}
		if generation != g.generation { // a reused token: it may have been stolen (OAuth 2.1, section 4.3.1)
			s.grants.Delete(g.ID)
			return nil, unknown
		}
		if !s.c.Now().Before(g.expiry) {
			return nil, unknown
		}
		return g, nil
	}
	if s.c.Refreshing != nil {
		s.mu.Lock()
		g, err := find()
		s.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if err := s.c.Refreshing(r.Context(), g); err != nil {
			if errors.Is(err, auth.ErrUnavailable) {
				return nil, &fault{http.StatusServiceUnavailable, "temporarily_unavailable", "the upstream provider is not available"}
			}
			s.End(g.ID)
			return nil, unknown
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := find()
	if err != nil {
		return nil, err
	}
	scopes := g.Scopes
	if requested := values.Get("scope"); requested != "" {
		if scopes, err = s.scopes(requested, g.Scopes); err != nil {
			return nil, err
		}
	}
	return s.issue(g, scopes, values)
}

// refreshToken returns the refresh token of a grant with the given generation. The token has the id
// of the grant, so that the reuse of an earlier token is detected although old tokens are not
// stored.
func (s *Server) refreshToken(g *Grant, generation int) string {
	number := strconv.Itoa(generation)
	return g.ID + "." + number + "." + s.sum("refresh", g.secret+"\x00"+number)
}

// refreshed returns the grant of a refresh token, and the generation of the token. mu must be held.
func (s *Server) refreshed(text string) (g *Grant, generation int, ok bool) {
	id, rest, _ := strings.Cut(text, ".")
	number, _, _ := strings.Cut(rest, ".")
	generation, err := strconv.Atoi(number)
	g, ok = s.grants.Get(s.c.Now(), id)
	if err != nil || !ok || generation < 1 || generation > g.generation || subtle.ConstantTimeCompare([]byte(text), []byte(s.refreshToken(g, generation))) != 1 {
		return nil, 0, false
	}
	return g, generation, true
}

// direct issues a token to a client on its own behalf, for the client credentials grant.
func (s *Server) direct(c *Client, values url.Values) (any, error) {
	if c.Secret.Empty() {
		return nil, faultf("unauthorized_client", "the client has no secret")
	}
	resource, err := s.resource(values.Get("resource"))
	if err != nil {
		return nil, err
	}
	scopes, err := s.scopes(values.Get("scope"), s.c.Scopes)
	if err != nil {
		return nil, err
	}
	g := &Grant{ID: rand.Text(), ClientID: c.ID, Resource: resource, Scopes: scopes}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grants.Put(s.c.Now(), g.ID, g)
	return s.issue(g, scopes, values)
}

// issue returns new tokens for a grant. mu must be held.
func (s *Server) issue(g *Grant, scopes []string, values url.Values) (any, error) {
	if requested := values.Get("resource"); requested != "" {
		if canonical, err := authtext.Canonical(requested); err != nil || canonical != g.Resource {
			return nil, faultf("invalid_target", "the grant is for %q", g.Resource)
		}
	}
	now := s.c.Now()
	answer := &tokens{Access: rand.Text(), Type: "Bearer", Expires: int(s.c.AccessTTL.Seconds()), Scope: strings.Join(scopes, " ")}
	key := hash(answer.Access)
	s.access.Put(now, key, token{g.ID, scopes, now.Add(s.c.AccessTTL)})
	if len(g.access) >= maxAccess {
		s.access.Delete(g.access[0])
		g.access = slices.Delete(g.access, 0, 1)
	}
	g.access = append(g.access, key)
	if slices.Contains(g.Scopes, offlineAccess) {
		if g.secret == "" {
			g.secret = rand.Text()
		}
		g.generation++
		g.expiry = now.Add(s.c.RefreshTTL)
		answer.Refresh = s.refreshToken(g, g.generation)
		s.grants.Put(now, g.ID, g)
	}
	return answer, nil
}

// revoke serves the revocation endpoint (RFC 7009). It revokes the whole grant of a token.
func (s *Server) revoke(w http.ResponseWriter, r *http.Request) (any, error) {
	values, err := form(r)
	if err != nil {
		return nil, err
	}
	c, err := s.authenticate(w, r, values)
	if err != nil {
		return nil, err
	}
	text, id := values.Get("token"), ""
	s.mu.Lock()
	now := s.c.Now()
	if t, ok := s.access.Get(now, hash(text)); ok {
		id = t.grant
	} else if g, _, ok := s.refreshed(text); ok {
		id = g.ID
	}
	g, ok := s.grants.Get(now, id)
	s.mu.Unlock()
	if !ok || g.ClientID != c.ID {
		return nil, nil
	}
	s.End(id)
	if s.c.Revoked != nil {
		s.c.Revoked(r.Context(), g)
	}
	return nil, nil
}
