// Package issuer is an authorization server (OAuth 2.1): metadata, registration of clients, the
// authorization code grant with PKCE, refresh tokens and revocation. Its tokens are opaque, and its
// state is in memory. The caller identifies the users.
package issuer

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/authtext"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/fetch"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/network"
)

// Config configures a Server.
type Config struct {
	Issuer    string        // URL, without a query
	Name      string        // of the service, for the consent page; default: the host of the issuer
	Notice    string        // on the consent page; "" for none
	Resources []string      // canonical URLs of the servers that it issues tokens for; nil means any
	Scopes    []string      // that clients may request besides offline_access
	Users     []string      // that the consent page offers; nil: the page has no choice of users
	Clients   []Client      // registered in advance
	Documents *fetch.Client // fetches Client ID Metadata Documents; nil: not supported

	Provider       string   // host at which users log in, for the consent page; "" for none
	ProviderScopes []string // that are requested at Provider, for the consent page

	ClientCredentials bool // whether clients with a secret get tokens on their own behalf
	AccessTTL         time.Duration
	RefreshTTL        time.Duration
	Key               []byte // authenticates the ids of registered clients; nil: a random one

	// Approved is called after the user has approved the request of a client. It calls Complete or
	// Fail, or redirects the browser, and a later handler calls one of them.
	Approved func(w http.ResponseWriter, r *http.Request, a *Authorization, user string)
	// Skip reports whether a request is approved without the page, for the first of Users. nil means
	// never.
	Skip func(a *Authorization) bool
	// Refreshing is called before the tokens of a grant are refreshed. An error ends the grant, unless
	// it wraps auth.ErrUnavailable. It may be nil.
	Refreshing func(ctx context.Context, g *Grant) error
	// Revoked is called after a client has revoked a grant. It may be nil.
	Revoked func(ctx context.Context, g *Grant)

	Now func() time.Time // nil: time.Now
}

// Grant is the permission of a client to access a resource, for a user or on its own behalf.
type Grant struct {
	ID       string // set by Complete unless it is set
	Subject  string // "" for a client on its own behalf
	ClientID string
	Resource string
	Scopes   []string
	Claims   map[string]any
	Data     any // set by the caller of Complete

	access     []string  // keys of its latest access tokens, the oldest first
	secret     string    // authenticates its refresh tokens
	generation int       // of its latest refresh token; 0 for none
	expiry     time.Time // of its latest refresh token
}

// Limits.
const (
	maxBody     = 64 << 10
	maxGrants   = 100_000
	maxAccess   = 16 // access tokens of a grant, so that one grant cannot evict the tokens of others
	maxCodes    = 10_000
	pageTTL     = 10 * time.Minute
	codeTTL     = time.Minute
	maxFetches  = 32 // of Client ID Metadata Documents at once, a quarter of them for one network
	consentTTL  = 30 * 24 * time.Hour
	documentTTL = 5 * time.Minute

	fetchTimeout = 5 * time.Second // of a Client ID Metadata Document
)

const offlineAccess = "offline_access"

// Server is an authorization server. It is safe for concurrent use.
type Server struct {
	c        Config
	path     string // of the issuer, without a slash at its end
	origin   string
	metadata []byte

	mu        sync.Mutex
	consents  *Table[struct{}]
	documents *Table[*Client] // by client id
	fetches   map[string]int  // running fetches of documents, by the network of the client
	codes     *Table[*code]   // by the hash of the code
	access    *Table[token]   // by the hash of the token
	grants    *Table[*Grant]  // by Grant.ID; tokens without a grant are invalid
}

type token struct {
	grant  string
	scopes []string
	expiry time.Time
}

// New returns a Server. It fails if the configuration is incomplete or invalid.
func New(c Config) (*Server, error) {
	u, err := url.Parse(c.Issuer)
	switch {
	case err != nil:
		return nil, errors.New("issuer is not a URL")
	case u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(c.Issuer, "#"):
		return nil, fmt.Errorf("issuer %q: want an absolute URL without userinfo, query or fragment", fetch.Show(c.Issuer))
	case u.Scheme != "https" && !(u.Scheme == "http" && network.IsLoopback(u.Hostname())):
		return nil, fmt.Errorf("issuer %q: the scheme is not https, and the host is not a loopback address", c.Issuer)
	case c.AccessTTL <= 0:
		return nil, fmt.Errorf("AccessTTL is not positive (%v)", c.AccessTTL)
	case c.RefreshTTL <= 0:
		return nil, fmt.Errorf("RefreshTTL is not positive (%v)", c.RefreshTTL)
	}
	if err := boundary.CheckScopes(c.Scopes); err != nil {
		return nil, err
	}
	c.Resources = slices.Clone(c.Resources)
	for i, resource := range c.Resources {
		if c.Resources[i], err = authtext.Canonical(resource); err != nil {
			return nil, err
		}
	}
	for _, client := range c.Clients {
		if client.ID == "" {
			return nil, errors.New("client without an id")
		}
		for _, uri := range client.RedirectURIs {
			if err := checkRedirectURI(uri); err != nil {
				return nil, err
			}
		}
	}
	if c.Key == nil {
		c.Key = make([]byte, sha256.Size)
		rand.Read(c.Key)
	}
	if len(c.Key) < 16 {
		return nil, fmt.Errorf("key has %d bytes, want at least 16", len(c.Key))
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Name = cmp.Or(c.Name, u.Host)
	s := &Server{
		c: c, path: strings.TrimSuffix(u.Path, "/"), origin: u.Scheme + "://" + u.Host,
		consents:  NewTable[struct{}](maxGrants, consentTTL),
		documents: NewTable[*Client](1000, documentTTL),
		fetches:   map[string]int{},
		codes:     NewTable[*code](maxCodes, codeTTL),
		access:    NewTable[token](maxGrants, c.AccessTTL),
		grants:    NewTable[*Grant](maxGrants, c.RefreshTTL+c.AccessTTL+codeTTL),
	}
	s.metadata, err = json.Marshal(s.describe())
	return s, err
}

func (s *Server) describe() *auth.ServerMetadata {
	base := s.origin + s.path
	m := &auth.ServerMetadata{
		Issuer:                   s.c.Issuer,
		AuthorizationEndpoint:    base + "/authorize",
		TokenEndpoint:            base + "/token",
		RegistrationEndpoint:     base + "/register",
		RevocationEndpoint:       base + "/revoke",
		ScopesSupported:          append(slices.Clone(s.c.Scopes), offlineAccess),
		ResponseTypesSupported:   []string{"code"},
		GrantTypesSupported:      []string{"authorization_code", "refresh_token"},
		TokenEndpointAuthMethods: []string{methodNone, methodBasic, methodPost},
		CodeChallengeMethods:     []string{"S256"},
		IssParameter:             true,
		ClientIDDocuments:        s.c.Documents != nil,
	}
	if s.c.ClientCredentials {
		m.GrantTypesSupported = append(m.GrantTypesSupported, "client_credentials")
	}
	return m
}

// Handler returns a handler that serves the endpoints below the path of the issuer, and the
// metadata (RFC 8414, section 3). It passes all other requests to next. If next is nil, they get
// status 404.
func (s *Server) Handler(next http.Handler) http.Handler {
	if next == nil {
		next = http.NotFoundHandler()
	}
	endpoints := map[string]http.HandlerFunc{
		s.path + "/authorize": s.authorize,
		s.path + "/token":     cors(post(s.exchange)),
		s.path + "/register":  cors(post(s.register)),
		s.path + "/revoke":    cors(post(s.revoke)),
		"/.well-known/oauth-authorization-server" + s.path: cors(s.serveMetadata),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if endpoint := endpoints[r.URL.Path]; endpoint != nil {
			endpoint(w, r.WithContext(network.With(r.Context(), network.Of(r, nil))))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// cors lets web pages of all origins use an endpoint. This is safe for endpoints without cookies.
func cors(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		if r.Method != http.MethodOptions {
			next(w, r)
			return
		}
		h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST")
		h.Set("Access-Control-Allow-Headers", "Accept, Authorization, Content-Type, MCP-Protocol-Version")
		h.Set("Access-Control-Max-Age", "600")
		w.WriteHeader(http.StatusNoContent)
	}
}

// fault is an error response (RFC 6749, sections 4.1.2.1 and 5.2; RFC 7591, section 3.2.2).
type fault struct {
	status      int // 0 for 400
	code        string
	description string
}

func (f *fault) Error() string { return f.code + ": " + f.description }

func faultf(code, format string, args ...any) *fault {
	return &fault{0, code, fetch.Printable(fmt.Sprintf(format, args...))}
}

// post returns a handler that accepts POST only. It writes the answer of endpoint as JSON, or an
// empty response if the answer is nil.
func post(endpoint func(w http.ResponseWriter, r *http.Request) (answer any, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", "POST, OPTIONS")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		answer, err := endpoint(w, r)
		status := http.StatusOK
		if f, ok := errors.AsType[*fault](err); ok {
			answer = map[string]string{"error": f.code, "error_description": f.description}
			status = cmp.Or(f.status, http.StatusBadRequest)
		} else if err != nil {
			http.Error(w, "internal error", http.StatusInternalServerError)
			return
		}
		if answer == nil {
			w.WriteHeader(status)
			return
		}
		if _, ok := answer.(*registration); ok {
			status = http.StatusCreated
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(answer)
	}
}

// form returns the parameters of a request with a form.
func form(r *http.Request) (url.Values, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, faultf("invalid_request", "the content type is not application/x-www-form-urlencoded")
	}
	if err := r.ParseForm(); err != nil {
		return nil, faultf("invalid_request", "malformed form")
	}
	return r.PostForm, single(r.PostForm)
}

// single fails if a parameter is repeated (RFC 6749, section 3.1).
func single(values url.Values) error {
	for name, list := range values {
		switch {
		case len(list) < 2:
		case name == "resource":
			return faultf("invalid_target", "more than one resource")
		default:
			return faultf("invalid_request", "parameter %q is repeated", name)
		}
	}
	return nil
}

func (s *Server) serveMetadata(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD, OPTIONS")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(s.metadata)
}

// Verify implements [auth.Verifier].
func (s *Server) Verify(_ context.Context, c *auth.Credentials) (*auth.Identity, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.c.Now()
	t, ok := s.access.Get(now, hash(c.Token.Reveal()))
	if !ok {
		return nil, auth.ErrInvalidToken
	}
	g, ok := s.grants.Get(now, t.grant)
	if !ok {
		return nil, auth.ErrInvalidToken
	}
	return &auth.Identity{
		Issuer: s.c.Issuer, Subject: g.Subject, ClientID: g.ClientID, Audience: []string{g.Resource},
		Scopes: t.scopes, Expiry: t.expiry, Claims: g.Claims,
	}, nil
}

// Grant returns the grant with the given id, and false if it has ended.
func (s *Server) Grant(id string) (*Grant, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grants.Get(s.c.Now(), id)
}

// Revoke ends the grants for which revoked returns true, with all their tokens. It does not call
// Options.Revoked.
func (s *Server) Revoke(revoked func(*Grant) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grants.DeleteFunc(revoked)
}

// End ends a grant, with all its tokens. It does not call Options.Revoked.
func (s *Server) End(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grants.Delete(id)
}

// hash returns the key of a token or code in its table.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return string(sum[:])
}
