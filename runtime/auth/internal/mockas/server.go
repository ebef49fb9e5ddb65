package mockas

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Server is an authorization server. Its fields must be set before its first request. Its methods
// may be called at any time.
type Server struct {
	Issuer    string
	Documents map[string]map[string]any // metadata by path; default: one at the first well-known path
	Methods   []string                  // of client authentication; default "none"
	Lifetime  int                       // of tokens in seconds; 0 omits expires_in
	Type      string                    // of tokens; default "bearer"
	NoRefresh bool                      // issues no refresh tokens
	Silent    bool                      // omits the authentication method in registration responses

	mu        sync.Mutex
	overrides map[string]http.HandlerFunc
	clients   map[string]string // secrets by id
	codes     map[string]url.Values
	tokens    map[string]*Grant // by access token
	refresh   map[string]*Grant // by refresh token
	count     int
}

// Grant is the authorization that an access token represents.
type Grant struct {
	Client, Resource string
	Scopes           []string
}

// NewServer returns a server with the issuer, whose metadata can be changed in Documents.
func NewServer(issuer string) *Server {
	u, _ := url.Parse(issuer)
	s := &Server{Issuer: issuer, overrides: map[string]http.HandlerFunc{}, clients: map[string]string{}, codes: map[string]url.Values{},
		tokens: map[string]*Grant{}, refresh: map[string]*Grant{}}
	s.Documents = map[string]map[string]any{"/.well-known/oauth-authorization-server" + strings.TrimSuffix(u.Path, "/"): s.Document()}
	return s
}

// Document returns the default metadata of the server.
func (s *Server) Document() map[string]any {
	base := strings.TrimSuffix(s.Issuer, "/")
	return map[string]any{
		"issuer":                                s.Issuer,
		"authorization_endpoint":                base + "/authorize",
		"token_endpoint":                        base + "/token",
		"registration_endpoint":                 base + "/register",
		"revocation_endpoint":                   base + "/revoke",
		"code_challenge_methods_supported":      []string{"S256"},
		"token_endpoint_auth_methods_supported": []string{"none"},
	}
}

// AddClient registers a client.
func (s *Server) AddClient(id, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[id] = secret
}

// RemoveClients removes all clients.
func (s *Server) RemoveClients() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.clients)
}

// Override replaces the handler of a path, such as "/token". If h is nil, it restores the default.
func (s *Server) Override(path string, h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.overrides[path] = h
}

// Revoke revokes all access tokens, and the refresh tokens if refresh is true.
func (s *Server) Revoke(refresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
	if refresh {
		clear(s.refresh)
	}
}

// Lookup returns the grant of an access token, or nil.
func (s *Server) Lookup(token string) *Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens[token]
}

// JSON writes a JSON response.
func JSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

// Fail writes an OAuth error.
func Fail(w http.ResponseWriter, status int, code, description string) {
	JSON(w, status, map[string]string{"error": code, "error_description": description})
}

// ServeHTTP serves the endpoints and the metadata.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u, _ := url.Parse(s.Issuer)
	path := strings.TrimPrefix(r.URL.Path, strings.TrimSuffix(u.Path, "/"))
	s.mu.Lock()
	h := s.overrides[path]
	if h == nil {
		h = s.overrides[r.URL.Path]
	}
	document, found := s.Documents[r.URL.Path]
	s.mu.Unlock()
	switch {
	case h != nil:
		h(w, r)
	case found:
		JSON(w, http.StatusOK, document)
	default:
		s.Serve(w, r, path)
	}
}

// Serve serves an endpoint. It ignores Override.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	switch path {
	case "/authorize":
		s.authorize(w, r)
	case "/token":
		s.token(w, r)
	case "/register":
		s.register(w, r)
	case "/revoke":
		r.ParseForm()
		delete(s.tokens, r.Form.Get("token"))
		delete(s.refresh, r.Form.Get("token"))
		w.WriteHeader(http.StatusOK)
	default:
		http.NotFound(w, r)
	}
}

// name returns a new name for an issued value, such as a token or a client id.
func (s *Server) name(kind string) string {
	u, _ := url.Parse(s.Issuer)
	return fmt.Sprintf("%s-%s-%d", kind, u.Hostname(), s.count)
}

func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	var metadata map[string]any
	if err := json.NewDecoder(r.Body).Decode(&metadata); err != nil {
		Fail(w, http.StatusBadRequest, "invalid_client_metadata", err.Error())
		return
	}
	id := s.name("client")
	metadata["client_id"] = id
	s.clients[id] = ""
	if metadata["token_endpoint_auth_method"] != "none" {
		s.clients[id] = "secret-" + id
		metadata["client_secret"] = "secret-" + id
	}
	if s.Silent {
		delete(metadata, "token_endpoint_auth_method")
	}
	JSON(w, http.StatusCreated, metadata)
}

func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	id := q.Get("client_id")
	if _, ok := s.clients[id]; !ok && !strings.HasPrefix(id, "https://") || q.Get("code_challenge_method") != "S256" || q.Get("response_type") != "code" {
		http.Error(w, "invalid request", http.StatusBadRequest)
		return
	}
	code := s.name("code")
	s.codes[code] = q
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {s.Issuer}}.Encode(), http.StatusFound)
}

func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	r.ParseForm()
	id, method := r.Form.Get("client_id"), "none"
	secret := r.Form.Get("client_secret")
	if secret != "" {
		method = "client_secret_post"
	}
	if user, password, ok := r.BasicAuth(); ok {
		id, _ = url.QueryUnescape(user)
		secret, _ = url.QueryUnescape(password)
		method = "client_secret_basic"
	}
	want, known := s.clients[id]
	methods := s.Methods
	if methods == nil {
		methods = []string{"none"}
	}
	if !known && !strings.HasPrefix(id, "https://") || want != secret || !slices.Contains(methods, method) {
		Fail(w, http.StatusUnauthorized, "invalid_client", "")
		return
	}
	g := &Grant{Client: id, Resource: r.Form.Get("resource"), Scopes: strings.Fields(r.Form.Get("scope"))}
	switch r.Form.Get("grant_type") {
	case "authorization_code":
		q := s.codes[r.Form.Get("code")]
		delete(s.codes, r.Form.Get("code"))
		sum := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
		if q == nil || q.Get("client_id") != id || q.Get("redirect_uri") != r.Form.Get("redirect_uri") ||
			q.Get("resource") != g.Resource || q.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) {
			Fail(w, http.StatusBadRequest, "invalid_grant", "")
			return
		}
		g.Scopes = strings.Fields(q.Get("scope"))
	case "refresh_token":
		old := s.refresh[r.Form.Get("refresh_token")]
		delete(s.refresh, r.Form.Get("refresh_token"))
		if old == nil || old.Client != id || old.Resource != g.Resource {
			Fail(w, http.StatusBadRequest, "invalid_grant", "")
			return
		}
		g = old
	case "client_credentials":
	default:
		Fail(w, http.StatusBadRequest, "unsupported_grant_type", "")
		return
	}
	access, refresh := s.name("access"), s.name("refresh")
	s.tokens[access] = g
	answer := map[string]any{"access_token": access, "token_type": cmp.Or(s.Type, "bearer"), "scope": strings.Join(g.Scopes, " ")}
	if s.Lifetime > 0 {
		answer["expires_in"] = s.Lifetime
	}
	if !s.NoRefresh {
		s.refresh[refresh] = g
		answer["refresh_token"] = refresh
	}
	JSON(w, http.StatusOK, answer)
}

// Resource is a protected server. Its fields must be set before its first request. Later, Need and
// Servers may be changed in Change.
type Resource struct {
	URL       string
	Servers   []*Server                 // its authorization servers
	Need      []string                  // scopes
	Challenge string                    // additional parameters of challenges, such as `resource_metadata="https://..."`
	Documents map[string]map[string]any // metadata by path

	mu sync.Mutex
}

// NewResource returns a server whose metadata is at the well-known path with the path of its URL.
func NewResource(rawURL string, servers ...*Server) *Resource {
	r := &Resource{URL: rawURL, Servers: servers}
	u, _ := url.Parse(rawURL)
	r.Documents = map[string]map[string]any{"/.well-known/oauth-protected-resource" + u.Path: r.Document()}
	return r
}

// Document returns the metadata.
func (r *Resource) Document() map[string]any {
	var issuers []string
	for _, s := range r.Servers {
		issuers = append(issuers, s.Issuer)
	}
	return map[string]any{"resource": r.URL, "authorization_servers": issuers}
}

// Change calls f while no request is served.
func (r *Resource) Change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// ServeHTTP serves the metadata. It answers other requests with 200 if their token is valid and has
// the scopes in Need.
func (r *Resource) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if document, ok := r.Documents[req.URL.Path]; ok {
		JSON(w, http.StatusOK, document)
		return
	}
	if strings.HasPrefix(req.URL.Path, "/.well-known/") {
		http.NotFound(w, req)
		return
	}
	refuse := func(status int, params ...string) {
		if r.Challenge != "" {
			params = append(params, r.Challenge)
		}
		if r.Need != nil {
			params = append(params, fmt.Sprintf("scope=%q", strings.Join(r.Need, " ")))
		}
		w.Header().Set("WWW-Authenticate", strings.TrimSpace("Bearer "+strings.Join(params, ", ")))
		w.WriteHeader(status)
	}
	token, found := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	if !found {
		refuse(http.StatusUnauthorized)
		return
	}
	var g *Grant
	for _, s := range r.Servers {
		if g == nil {
			g = s.Lookup(token)
		}
	}
	if g == nil {
		refuse(http.StatusUnauthorized, `error="invalid_token"`)
		return
	}
	for _, scope := range r.Need {
		if !slices.Contains(g.Scopes, scope) {
			refuse(http.StatusForbidden, `error="insufficient_scope"`)
			return
		}
	}
	w.WriteHeader(http.StatusOK)
}
