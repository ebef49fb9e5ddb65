package issuer

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/fetch"
	"github.com/mcpwire/mcpwire/runtime/internal/network"
)

// Methods of client authentication.
const (
	methodNone  = "none"
	methodBasic = "client_secret_basic"
	methodPost  = "client_secret_post"
)

// Client is a client that may request tokens.
type Client struct {
	ID           string
	Name         string      // as the client states it, not verified; "" for none
	Secret       auth.Secret // empty for a public client
	RedirectURIs []string
}

// registration is the metadata of a client, in registration requests and responses (RFC 7591), and
// in Client ID Metadata Documents.
type registration struct {
	ClientID      string   `json:"client_id,omitempty"`
	Secret        string   `json:"client_secret,omitempty"`
	SecretExpires *int     `json:"client_secret_expires_at,omitempty"`
	Name          string   `json:"client_name,omitempty"`
	RedirectURIs  []string `json:"redirect_uris"`
	Method        string   `json:"token_endpoint_auth_method,omitempty"`
	GrantTypes    []string `json:"grant_types,omitempty"`
	ResponseTypes []string `json:"response_types,omitempty"`
	Application   string   `json:"application_type,omitempty"`
}

// Limits of registrations.
const (
	maxRedirectURIs = 16
	maxClientID     = 4 << 10
)

// sealed is the content of the id of a registered client. The id is authenticated, so registrations
// are not stored, and cannot evict each other (RFC 7591, appendix A.5.2).
type sealed struct {
	Nonce        string   `json:"n"`
	Name         string   `json:"c,omitempty"`
	RedirectURIs []string `json:"r"`
	Confidential bool     `json:"s,omitempty"`
}

// sum returns the authentication code of text. Codes for different purposes differ.
func (s *Server) sum(purpose, text string) string {
	h := hmac.New(sha256.New, s.c.Key)
	h.Write([]byte(purpose + "\x00" + text))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// register registers a client dynamically (RFC 7591).
func (s *Server) register(_ http.ResponseWriter, r *http.Request) (any, error) {
	var m registration
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		return nil, faultf("invalid_client_metadata", "the body is not client metadata")
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	if m.Method == "" {
		m.Method = methodBasic // RFC 7591, section 2
	}
	content, err := json.Marshal(&sealed{rand.Text(), m.Name, m.RedirectURIs, m.Method != methodNone})
	if err != nil {
		return nil, err
	}
	payload := base64.RawURLEncoding.EncodeToString(content)
	m.ClientID = payload + "." + s.sum("client", payload)
	if len(m.ClientID) > maxClientID {
		return nil, faultf("invalid_client_metadata", "the metadata is too large")
	}
	m.Secret, m.SecretExpires = "", nil
	if m.Method != methodNone {
		m.Secret, m.SecretExpires = s.sum("secret", m.ClientID), new(int)
	}
	m.GrantTypes, m.ResponseTypes = []string{"authorization_code", "refresh_token"}, []string{"code"}
	return &m, nil
}

// check checks the metadata of a client.
func (m *registration) check() error {
	if len(m.RedirectURIs) == 0 || len(m.RedirectURIs) > maxRedirectURIs {
		return faultf("invalid_redirect_uri", "want 1 to %d redirect URIs", maxRedirectURIs)
	}
	for _, uri := range m.RedirectURIs {
		if err := checkRedirectURI(uri); err != nil {
			return faultf("invalid_redirect_uri", "%v", err)
		}
	}
	switch m.Method {
	case "", methodNone, methodBasic, methodPost:
	default:
		return faultf("invalid_client_metadata", "token_endpoint_auth_method %q is not supported", m.Method)
	}
	return nil
}

// registered returns the client with an id that register has issued.
func (s *Server) registered(id string) (*Client, bool) {
	payload, sum, _ := strings.Cut(id, ".")
	if len(id) > maxClientID || !hmac.Equal([]byte(sum), []byte(s.sum("client", payload))) {
		return nil, false
	}
	var content sealed
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil || json.Unmarshal(text, &content) != nil {
		return nil, false
	}
	c := &Client{ID: id, Name: content.Name, RedirectURIs: content.RedirectURIs}
	if content.Confidential {
		c.Secret = auth.NewSecret(s.sum("secret", id))
	}
	return c, true
}

// client returns the client with an id: one of the configuration, a registered one, or one with a
// Client ID Metadata Document. Its error is a fault.
func (s *Server) client(ctx context.Context, id string) (*Client, error) {
	for i := range s.c.Clients {
		if s.c.Clients[i].ID == id {
			return &s.c.Clients[i], nil
		}
	}
	if c, ok := s.registered(id); ok {
		return c, nil
	}
	if u, err := url.Parse(id); err == nil && u.Scheme == "https" && s.c.Documents != nil {
		c, err := s.document(ctx, id, u)
		if err == errFetches {
			return nil, errFetches
		}
		if err != nil {
			return nil, faultf("invalid_client", "client id metadata document: %v", err)
		}
		return c, nil
	}
	return nil, faultf("invalid_client", "unknown client")
}

// document returns the client in the Client ID Metadata Document at the URL id
// (draft-ietf-oauth-client-id-metadata-document).
func (s *Server) document(ctx context.Context, id string, u *url.URL) (*Client, error) {
	if u.Path == "" || u.Path == "/" || u.User != nil || strings.Contains(id, "#") || len(id) > maxClientID {
		return nil, errors.New("want a URL with a path, without userinfo or fragment")
	}
	s.mu.Lock()
	c, ok := s.documents.Get(s.c.Now(), id)
	s.mu.Unlock()
	if ok {
		return c, nil
	}
	end, ok := s.beginFetch(network.From(ctx))
	if !ok {
		return nil, errFetches
	}
	defer end()
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	var m registration
	if err := s.c.Documents.GetJSON(ctx, id, &m); err != nil {
		return nil, err
	}
	switch {
	case m.ClientID != id:
		return nil, fmt.Errorf("client_id %q is not the URL of the document", fetch.Printable(m.ClientID))
	case m.Method != "" && m.Method != methodNone:
		return nil, fmt.Errorf("token_endpoint_auth_method %q is not supported", fetch.Printable(m.Method))
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	if size := len(m.Name) + len(strings.Join(m.RedirectURIs, "")); size > maxClientID { // as of registered clients
		return nil, fmt.Errorf("the name and the redirect URIs have %d bytes, more than %d", size, maxClientID)
	}
	c = &Client{ID: id, Name: m.Name, RedirectURIs: m.RedirectURIs}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.documents.Put(s.c.Now(), id, c)
	return c, nil
}

// errFetches is the error for a client whose document may not be fetched now.
var errFetches = &fault{http.StatusServiceUnavailable, "temporarily_unavailable", "too many client id metadata documents are being fetched"}

// beginFetch counts a fetch of a document for a client in a network, which is "" if it is unknown.
// Anyone can cause fetches, from servers that may be slow, so those of one network must leave room
// for others. If ok is true, end must be called.
func (s *Server) beginFetch(network string) (end func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := 0
	for _, n := range s.fetches {
		total += n
	}
	if total >= maxFetches || network != "" && s.fetches[network] >= maxFetches/4 {
		return nil, false
	}
	s.fetches[network]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.fetches[network]--; s.fetches[network] == 0 {
			delete(s.fetches, network)
		}
	}, true
}

// authenticate returns the client that sent a form to the token or revocation endpoint.
func (s *Server) authenticate(w http.ResponseWriter, r *http.Request, form url.Values) (*Client, error) {
	id, secret := form.Get("client_id"), form.Get("client_secret")
	user, password, basic := r.BasicAuth()
	refuse := func(description string) (*Client, error) {
		f := &fault{code: "invalid_client", description: description}
		if basic || r.Header.Get("Authorization") != "" {
			f.status = http.StatusUnauthorized
			w.Header().Set("WWW-Authenticate", `Basic realm="token endpoint"`)
		}
		return nil, f
	}
	if basic {
		if secret != "" {
			return nil, faultf("invalid_request", "two methods of client authentication")
		}
		var err, err2 error
		user, err = url.QueryUnescape(user) // RFC 6749, section 2.3.1
		secret, err2 = url.QueryUnescape(password)
		if err != nil || err2 != nil || id != "" && id != user {
			return refuse("malformed client authentication")
		}
		id = user
	}
	c, err := s.client(r.Context(), id)
	switch {
	case err == errFetches:
		return nil, err
	case err != nil:
		return refuse(err.(*fault).description)
	}
	if subtle.ConstantTimeCompare([]byte(c.Secret.Reveal()), []byte(secret)) != 1 {
		return refuse("wrong client secret")
	}
	return c, nil
}

// checkRedirectURI fails unless the scheme of a redirect URI is https, or its host is this computer
// (MCP basic/authorization, "Communication Security").
func checkRedirectURI(uri string) error {
	u, err := url.Parse(uri)
	switch {
	case err != nil || u.Host == "" || u.User != nil || strings.Contains(uri, "#"):
		return fmt.Errorf("redirect URI %q: want an absolute URL without userinfo or fragment", fetch.Show(uri))
	case u.Scheme == "https" || u.Scheme == "http" && network.IsLoopback(u.Hostname()):
		return nil
	}
	return fmt.Errorf("redirect URI %q: want https, or http with a loopback host", fetch.Show(uri))
}

// redirectsTo reports whether a redirect URI is registered for a client. The port of an http URI is
// ignored (RFC 8252, section 7.3).
func (c *Client) redirectsTo(uri string) bool {
	return slices.ContainsFunc(c.RedirectURIs, func(registered string) bool {
		return registered == uri || strings.HasPrefix(registered, "http:") && checkRedirectURI(uri) == nil && withoutPort(registered) == withoutPort(uri)
	})
}

func withoutPort(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return ""
	}
	u.Host = u.Hostname()
	return u.String()
}
