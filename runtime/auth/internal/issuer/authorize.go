package issuer

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth/internal/authtext"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/fetch"
	"github.com/mcpwire/mcpwire/runtime/internal/network"
)

// Authorization is an authorization request of a client.
type Authorization struct {
	Client      *Client
	RedirectURI string
	Scopes      []string
	Resource    string
	Browser     string // identifies the browser; see [Server.Browser]
	Query       string // of the request, unchanged; see [Server.Resume]

	state     string
	challenge string // the code_challenge (PKCE)
}

// code is the state of an authorization code.
type code struct {
	authorization *Authorization
	grant         string
	used          bool
}

// authorize serves the authorization endpoint. GET shows the consent page, and POST is its form.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'")
	switch r.Method {
	case http.MethodGet:
		s.ask(w, r)
	case http.MethodPost:
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		s.answer(w, r)
	default:
		h.Set("Allow", "GET, POST")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	}
}

// ask shows the consent page for a request, unless the user has approved the request before.
func (s *Server) ask(w http.ResponseWriter, r *http.Request) {
	a, err := s.request(r.Context(), r.URL.RawQuery)
	if err == errFetches {
		http.Error(w, "The server is busy. Start again from the client in a few seconds.", errFetches.status)
		return
	}
	if a == nil { // without a valid client and redirect URI, the error cannot be redirected
		http.Error(w, "The client's request is not valid: "+err.Error(), http.StatusBadRequest)
		return
	}
	if err != nil && !s.trusts(a) {
		http.Error(w, "The request of the client at "+a.RedirectURI+" is not valid: "+err.Error(), http.StatusBadRequest)
		return
	}
	if err != nil {
		s.Fail(w, a, err.(*fault).code, err.(*fault).description)
		return
	}
	if a.Browser = s.Browser(r); a.Browser == "" {
		a.Browser = rand.Text()
		http.SetCookie(w, s.Cookie("browser", a.Browser, 0))
	}
	s.mu.Lock()
	_, approved := s.consents.Get(s.c.Now(), a.consent())
	s.mu.Unlock()
	if approved || s.c.Skip != nil && s.c.Skip(a) {
		s.c.Approved(w, r, a, s.user(""))
		return
	}
	redirect, _ := url.Parse(a.RedirectURI)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	page.Execute(w, map[string]any{
		"Config": s.c, "Request": a, "Name": fetch.Printable(a.Client.Name), "Host": redirect.Host,
		"Local": network.IsLoopback(redirect.Hostname()), "Token": s.Bind("page", pageTTL, a),
	})
}

// trusts reports whether an error is redirected to the client before the user has approved it.
// Otherwise, an attacker could register a website as a client and use this server as an open
// redirector (OAuth 2.1, section 7.12.2).
func (s *Server) trusts(a *Authorization) bool {
	known := slices.ContainsFunc(s.c.Clients, func(c Client) bool { return c.ID == a.Client.ID })
	return known || strings.HasPrefix(a.RedirectURI, "http:")
}

// Bind returns a text that binds a request to its browser and to a purpose, for the given lifetime.
// The server does not store it, so requests cannot evict each other.
func (s *Server) Bind(purpose string, lifetime time.Duration, a *Authorization) string {
	return s.bind(purpose, s.c.Now().Add(lifetime).Unix(), rand.Text(), a.Browser, a.Query)
}

func (s *Server) bind(purpose string, expiry int64, nonce, browser, query string) string {
	content := strconv.FormatInt(expiry, 10) + "." + nonce
	return content + "." + s.sum(purpose, content+"\n"+browser+"\n"+query)
}

// Verifier returns the PKCE verifier of a login with a state.
func (s *Server) Verifier(state string) string { return s.sum("verifier", state) }

// Resume returns the request with the given query. ok is false unless bound is a text of Bind for
// this query, this purpose and the browser of r. It is also false if bound has expired, or if the
// request is no longer valid.
func (s *Server) Resume(r *http.Request, purpose, bound, query string) (a *Authorization, ok bool) {
	parts := strings.Split(bound, ".")
	browser := s.Browser(r)
	if len(parts) != 3 || browser == "" {
		return nil, false
	}
	expiry, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil || !hmac.Equal([]byte(bound), []byte(s.bind(purpose, expiry, parts[1], browser, query))) || s.c.Now().Unix() >= expiry {
		return nil, false
	}
	if a, err = s.request(r.Context(), query); err != nil {
		return nil, false
	}
	a.Browser = browser
	return a, true
}

// request returns the authorization request in a query. If the client and the redirect URI are
// valid, but the request is not, both results are set, and the error can be redirected. The error
// is a fault.
func (s *Server) request(ctx context.Context, raw string) (*Authorization, error) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, faultf("invalid_request", "the query is malformed")
	}
	failed := single(query)
	if f, ok := failed.(*fault); ok && f.code != "invalid_target" {
		return nil, failed
	}
	c, err := s.client(ctx, query.Get("client_id"))
	if err != nil {
		return nil, err
	}
	a := &Authorization{Client: c, RedirectURI: query.Get("redirect_uri"), Query: raw, state: query.Get("state"), challenge: query.Get("code_challenge")}
	if !c.redirectsTo(a.RedirectURI) {
		return nil, faultf("invalid_request", "the redirect URI is not registered for the client")
	}
	switch {
	case failed != nil:
		return a, failed
	case query.Get("response_type") != "code":
		return a, faultf("unsupported_response_type", "the response_type is not code")
	case query.Get("code_challenge_method") != "S256" || len(a.challenge) != 43:
		return a, faultf("invalid_request", "want a code_challenge with the code_challenge_method S256")
	}
	if a.Resource, err = s.resource(query.Get("resource")); err == nil {
		a.Scopes, err = s.scopes(query.Get("scope"), append(slices.Clone(s.c.Scopes), offlineAccess))
	}
	return a, err
}

// resource returns the canonical form of the resource of a request.
func (s *Server) resource(requested string) (string, error) {
	if requested == "" {
		if len(s.c.Resources) == 1 {
			return s.c.Resources[0], nil
		}
		return "", faultf("invalid_target", "the parameter resource is missing")
	}
	canonical, err := authtext.Canonical(requested)
	if err != nil || len(s.c.Resources) > 0 && !slices.Contains(s.c.Resources, canonical) {
		return "", faultf("invalid_target", "unknown resource %q", fetch.Show(requested))
	}
	return canonical, nil
}

// scopes returns the scopes of a parameter, sorted. It fails if one of them is not allowed.
func (s *Server) scopes(parameter string, allowed []string) ([]string, error) {
	scopes := strings.Fields(parameter)
	for _, scope := range scopes {
		if !slices.Contains(allowed, scope) {
			return nil, faultf("invalid_scope", "scope %q is not available", scope)
		}
	}
	slices.Sort(scopes)
	return slices.Compact(scopes), nil
}

// answer serves the form of the consent page. Only the page in this browser has the token of the
// form, so the token proves that the user sent it.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	values, err := form(r)
	if err != nil {
		http.Error(w, "malformed form", http.StatusBadRequest)
		return
	}
	user, approved := s.user(values.Get("user")), values.Get("decision") == "approve"
	a, ok := s.Resume(r, "page", values.Get("token"), values.Get("request"))
	if ok && approved && s.recordable(a) {
		s.mu.Lock()
		s.consents.Put(s.c.Now(), a.consent(), struct{}{})
		s.mu.Unlock()
	}
	switch {
	case !ok:
		http.Error(w, "The page has expired, or was opened in another browser. Start again from the client.", http.StatusForbidden)
	case !approved:
		s.Fail(w, a, "access_denied", "the user denied the request")
	default:
		s.c.Approved(w, r, a, user)
	}
}

// recordable reports whether an approval also holds for later requests of the same client and
// browser. A redirect to this computer may reach any program on it, so such requests need a new
// approval each time (RFC 8252, section 8.6). So do requests that let the user choose a name on the
// page.
func (s *Server) recordable(a *Authorization) bool {
	return s.c.Users == nil && strings.HasPrefix(a.RedirectURI, "https:")
}

// consent returns the key of the approval of a request.
func (a *Authorization) consent() string {
	return hash(strings.Join([]string{a.Browser, a.Client.ID, a.RedirectURI, a.Resource, strings.Join(a.Scopes, " ")}, "\n"))
}

// user returns name if it is one of Users, else the first of Users, or "".
func (s *Server) user(name string) string {
	if slices.Contains(s.c.Users, name) {
		return name
	}
	if len(s.c.Users) > 0 {
		return s.c.Users[0]
	}
	return ""
}

// Complete redirects the browser to the client with an authorization code for the grant g. It sets
// g.ClientID, g.Resource and g.Scopes, and also g.ID if that is empty.
func (s *Server) Complete(w http.ResponseWriter, a *Authorization, g *Grant) {
	g.ID = cmp.Or(g.ID, rand.Text())
	g.ClientID, g.Resource, g.Scopes = a.Client.ID, a.Resource, a.Scopes
	text := rand.Text()
	s.mu.Lock()
	now := s.c.Now()
	s.grants.Put(now, g.ID, g)
	s.codes.Put(now, hash(text), &code{authorization: a, grant: g.ID})
	s.mu.Unlock()
	s.redirect(w, a, url.Values{"code": {text}})
}

// Fail redirects the browser to the client with an error (RFC 6749, section 4.1.2.1).
func (s *Server) Fail(w http.ResponseWriter, a *Authorization, code, description string) {
	s.redirect(w, a, url.Values{"error": {code}, "error_description": {description}})
}

// redirect redirects the browser to the client.
func (s *Server) redirect(w http.ResponseWriter, a *Authorization, parameters url.Values) {
	u, _ := url.Parse(a.RedirectURI) // valid because it is registered
	query := u.Query()
	for name, values := range parameters {
		query[name] = values
	}
	if a.state != "" {
		query.Set("state", a.state)
	}
	query.Set("iss", s.c.Issuer) // RFC 9207
	u.RawQuery = query.Encode()
	w.Header().Set("Location", u.String())
	w.WriteHeader(http.StatusSeeOther)
}

// Cookie returns a cookie that the browser sends to this host only. age is its lifetime in seconds.
// 0 means until the browser is closed, and a negative value deletes the cookie.
func (s *Server) Cookie(name, value string, age int) *http.Cookie {
	secure := strings.HasPrefix(s.origin, "https:")
	name = "mcpwire-" + name
	if secure {
		name = "__Host-" + name
	}
	return &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: age, HttpOnly: true,
		Secure: secure, SameSite: http.SameSiteLaxMode,
	}
}

// Browser returns the identifier in the cookie that the browser got with its first page, or "".
func (s *Server) Browser(r *http.Request) string {
	c, err := r.Cookie(s.Cookie("browser", "", 0).Name)
	if err != nil {
		return ""
	}
	return c.Value
}

var page = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{.Config.Name}}</title>
<style>body{font:16px/1.5 sans-serif;max-width:34em;margin:2em auto;padding:0 1em}
.notice{background:#b00;color:#fff;font-weight:bold;padding:.5em 1em}code{overflow-wrap:anywhere}button{font:inherit;padding:.3em 1em}</style>
{{with .Config.Notice}}<p class="notice">{{.}}</p>{{end}}
<h1>{{.Config.Name}}</h1>
<p>{{if .Name}}A client that calls itself <strong>{{.Name}}</strong>{{else}}A client without a name{{end}} wants to use <code>{{.Request.Resource}}</code> on your behalf.</p>
<p>You will be sent back to <strong>{{.Host}}</strong>{{if .Local}}, a program on this computer{{end}}: <code>{{.Request.RedirectURI}}</code>. Approve only if you have just started this login yourself.</p>
{{if .Request.Scopes}}<p>It gets these scopes:</p><ul>{{range .Request.Scopes}}<li><code>{{.}}</code></li>{{end}}</ul>{{end}}
{{with .Config.Provider}}<p>You log in at <strong>{{.}}</strong>.{{if $.Config.ProviderScopes}} There, {{$.Config.Name}} requests these scopes:</p><ul>{{range $.Config.ProviderScopes}}<li><code>{{.}}</code></li>{{end}}</ul>{{else}}</p>{{end}}{{end}}
<form method="post" action="authorize"><input type="hidden" name="token" value="{{.Token}}"><input type="hidden" name="request" value="{{.Request.Query}}">
{{if .Config.Users}}<p><label>Log in as <select name="user">{{range .Config.Users}}<option>{{.}}</option>{{end}}</select></label></p>{{end}}
<button name="decision" value="approve">Approve</button> <button name="decision" value="deny">Deny</button></form>
`))
