// Package guard protects the HTTP transports: it decides which requests are admitted and for which
// principal, and rejects the others (MCP transports, "Security Warning").
package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/internal/network"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Guard admits or rejects requests. It must not be changed while it is in use.
type Guard struct {
	// Origins are the origins of web pages on other sites that may use the server, such as
	// "https://app.example.com"; "*" allows all. Their browsers receive CORS headers.
	Origins []string

	// Hosts are the host names of the server, without a port. If the list is empty, requests to a
	// loopback address must use a loopback name, and other requests may use any name.
	Hosts []string

	// Methods are the HTTP methods of the endpoint, such as "GET, POST".
	Methods string

	// Auth authorizes requests. Principal returns the principal of a request if Auth is nil. If
	// both are nil, all requests have the same principal.
	Auth      *auth.Protector
	Principal func(*http.Request) (string, error)

	// ClientAddress returns the address of the client of a request. Nil means that of the
	// connection; see [network.Of].
	ClientAddress func(*http.Request) netip.Addr

	// RequiredScopes returns the scopes that a message needs in addition to those of Auth. Nil
	// means that messages need no further scopes.
	RequiredScopes func(ctx context.Context, method string, params []byte) []string

	// Logger receives panics of Principal, ClientAddress and RequiredScopes, and host names that are
	// not allowed.
	Logger *slog.Logger

	hostLogged atomic.Int64 // when the latest such name was logged, in Unix nanoseconds
}

// hostInterval is the shortest time between log lines about host names: anybody can send them.
const hostInterval = time.Minute

// logHost logs a host name that is not allowed, unless another one was logged lately.
func (g *Guard) logHost(r *http.Request) {
	now, last := time.Now().UnixNano(), g.hostLogged.Load()
	if g.Logger != nil && (last == 0 || now-last >= int64(hostInterval)) && g.hostLogged.CompareAndSwap(last, now) {
		g.Logger.Warn("host not allowed; list the names of the server in the Hosts of its HandlerOptions", "host", printable(r.Host), "remote", r.RemoteAddr)
	}
}

// maxHeader limits the header of a request, in bytes, because a running task retains it.
const maxHeader = 64 << 10

// Admit checks a request, and returns a context with the values, the header and the principal of
// the request, or with its network if it has no principal. The context does not end with the
// request. If Auth is set, the context also has the identity, and the header has no credentials. If
// ok is false, Admit has written the response: 204 to the preflight request of an allowed page, 403
// if the origin or the host name is not allowed, 431 if the header is too long, 401 without a
// principal, or the response of Auth.
func (g *Guard) Admit(w http.ResponseWriter, r *http.Request) (ctx context.Context, ok bool) {
	if !g.allowsHost(r) {
		g.logHost(r)
		Refuse(w, http.StatusForbidden, jsonrpc.CodeInvalidRequest, "host not allowed: "+printable(r.Host)+"; the server can allow it with the Hosts of its HandlerOptions")
		return nil, false
	}
	if origins := r.Header["Origin"]; len(origins) > 0 {
		if len(origins) > 1 || !g.allowsOrigin(r, origins[0]) {
			Refuse(w, http.StatusForbidden, jsonrpc.CodeInvalidRequest, "origin not allowed: "+printable(origins[0]))
			return nil, false
		}
		g.setCORSHeaders(w, r, origins[0])
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			WriteStatus(w, http.StatusNoContent)
			return nil, false
		}
	} else if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" && !slices.Contains(g.Origins, "*") {
		// The browser sends no Origin for subresources and links of other pages.
		Refuse(w, http.StatusForbidden, jsonrpc.CodeInvalidRequest, "cross-site request without origin")
		return nil, false
	}
	if size(r.Header) > maxHeader {
		Refuse(w, http.StatusRequestHeaderFieldsTooLarge, jsonrpc.CodeInvalidRequest, fmt.Sprintf("header has more than %d bytes", maxHeader))
		return nil, false
	}
	if g.Auth != nil {
		return g.authorize(w, r)
	}
	ctx = transport.WithHTTP(r.Context(), r.Header, r.RemoteAddr)
	principal := ""
	if g.Principal != nil {
		var err error
		if principal, err = g.principal(r); err != nil {
			g.rejectPrincipal(w, err)
			return nil, false
		}
		ctx = transport.WithPrincipal(ctx, principal)
	}
	if principal == "" {
		if n := g.network(r); n != "" {
			ctx = network.With(ctx, n)
		}
	}
	return ctx, true
}

// network returns the network of the client of a request.
func (g *Guard) network(r *http.Request) (n string) {
	err := boundary.Run(func() error {
		n = network.Of(r, g.ClientAddress)
		return nil
	})
	boundary.Report(boundary.Logger(g.Logger), "ClientAddress panicked", err)
	return n
}

// IsNetwork reports whether an account is that of a network.
func (g *Guard) IsNetwork(account string) bool {
	return g.Auth == nil && network.Is(account)
}

// Limit returns how many of all an account may have, where a principal may have each. Without
// principals, the clients whose network is unknown share those of all.
func (g *Guard) Limit(account string, all, each int) int {
	switch {
	case account == "" && !g.HasPrincipals():
		return all
	case g.IsNetwork(account): // leaves room for others
		return min(each, (all+1)/2)
	}
	return each
}

// Account returns the key of the limits for an admitted request: its principal, or the network of a
// client without a principal, or "".
func Account(ctx context.Context) string {
	if principal, _ := transport.Principal(ctx); principal != "" {
		return principal
	}
	return network.From(ctx)
}

// authorize is Admit for requests that pass the other checks, if Auth is set.
func (g *Guard) authorize(w http.ResponseWriter, r *http.Request) (context.Context, bool) {
	ctx := r.Context()
	if g.ClientAddress != nil {
		r = r.WithContext(network.With(r.Context(), g.network(r)))
	}
	i, err := g.Auth.Authenticate(r)
	if err != nil {
		refuseDenied(w, jsonrpc.ID{}, err)
		return nil, false
	}
	header := maps.Clone(r.Header)
	for _, name := range credentialFields {
		delete(header, name)
	}
	ctx = transport.WithHTTP(ctx, header, r.RemoteAddr)
	return transport.WithPrincipal(auth.WithIdentity(ctx, i), i.Principal), true
}

// credentialFields are the header fields with credentials for this server. Handlers do not see
// them, and so cannot pass them on (MCP authorization, "Access Token Privilege Restriction").
var credentialFields = []string{"Authorization", "Proxy-Authorization", "Dpop"}

// Permits reports whether the token of an admitted request has the scopes that all of the messages
// need. If not, Permits has written the response, with id unless that is zero.
func (g *Guard) Permits(ctx context.Context, w http.ResponseWriter, id jsonrpc.ID, messages ...*jsonrpc.Message) bool {
	if g.Auth == nil || g.RequiredScopes == nil {
		return true
	}
	i, ok := auth.FromContext(ctx)
	if !ok {
		return true
	}
	var scopes []string
	for _, m := range messages {
		if m.Kind != jsonrpc.KindRequest && m.Kind != jsonrpc.KindNotification {
			continue
		}
		more, err := g.requiredScopes(ctx, m)
		if err != nil {
			boundary.Report(boundary.Logger(g.Logger), "RequiredScopes panicked", err)
			RefuseCall(w, http.StatusInternalServerError, id, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: scopes unknown"})
			return false
		}
		if len(messages) == 1 {
			scopes = more
		} else {
			scopes = append(scopes, more...)
		}
	}
	if err := g.Auth.Permit(i, scopes...); err != nil {
		refuseDenied(w, id, err)
		return false
	}
	return true
}

func (g *Guard) requiredScopes(ctx context.Context, m *jsonrpc.Message) (scopes []string, err error) {
	defer boundary.Catch(&err)
	return g.RequiredScopes(ctx, m.Method, m.Params), nil
}

// refuseDenied writes the response to a request that Auth rejected with err.
func refuseDenied(w http.ResponseWriter, id jsonrpc.ID, err error) {
	denied, ok := errors.AsType[*auth.Denied](err)
	if !ok {
		denied = &auth.Denied{Status: http.StatusInternalServerError, Reason: "internal error"}
	}
	denied.SetHeader(w.Header())
	code := int64(jsonrpc.CodeInvalidRequest)
	if denied.Status == http.StatusInternalServerError {
		code = jsonrpc.CodeInternalError
	}
	RefuseCall(w, denied.Status, id, &jsonrpc.Error{Code: code, Message: "not authorized: " + denied.Reason})
}

// HasPrincipals reports whether requests have principals.
func (g *Guard) HasPrincipals() bool { return g.Auth != nil || g.Principal != nil }

// Watch calls end when the token of an admitted request expires or is revoked; see
// [auth.Protector.Watch].
func (g *Guard) Watch(ctx context.Context, r *http.Request, end func(error)) (stop func()) {
	i, ok := auth.FromContext(ctx)
	if g.Auth == nil || !ok {
		return func() {}
	}
	return g.Auth.Watch(r, i, end)
}

// size returns the length of the names and values in a header, in bytes.
func size(header http.Header) (n int) {
	for name, values := range header {
		for _, value := range values {
			n += len(name) + len(value)
		}
	}
	return n
}

func (g *Guard) principal(r *http.Request) (principal string, err error) {
	defer boundary.Catch(&err)
	return g.Principal(r)
}

// rejectPrincipal rejects a request for which Principal failed with err.
func (g *Guard) rejectPrincipal(w http.ResponseWriter, err error) {
	if boundary.Report(boundary.Logger(g.Logger), "Principal panicked", err) {
		Refuse(w, http.StatusInternalServerError, jsonrpc.CodeInternalError, "internal error: principal unknown")
		return
	}
	challenge := "Bearer"
	if e, ok := errors.AsType[*transport.ChallengeError](err); ok && e.Challenge != "" {
		challenge = e.Challenge
	}
	w.Header().Set("WWW-Authenticate", challenge)
	Refuse(w, http.StatusUnauthorized, jsonrpc.CodeInvalidRequest, "not authorized: "+boundary.ErrorText(err))
}

// allowsHost reports whether a request uses a host name of the server. A web page can make its own
// host name resolve to the address of a private server (DNS rebinding), but the browser then sends
// the host name of the page.
func (g *Guard) allowsHost(r *http.Request) bool {
	name := hostname(r.Host)
	if len(g.Hosts) > 0 {
		return slices.ContainsFunc(g.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
	}
	return !overLoopback(r) || network.IsLoopback(name)
}

// allowsOrigin reports whether pages of an origin may use the server. Allowed are the listed
// origins, the origin of the server if its host name cannot be rebound, and over a loopback
// connection every origin on the same machine.
func (g *Guard) allowsOrigin(r *http.Request, origin string) bool {
	if slices.ContainsFunc(g.Origins, func(o string) bool { return o == "*" || strings.EqualFold(o, origin) }) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	if overLoopback(r) && network.IsLoopback(u.Hostname()) {
		return true
	}
	if !strings.EqualFold(u.Host, r.Host) || u.Scheme != "https" && overTLS(r) {
		return false
	}
	_, err = netip.ParseAddr(u.Hostname())
	return err == nil || len(g.Hosts) > 0 // DNS rebinding needs a name, and allowsHost has checked names
}

// setCORSHeaders sets the CORS headers for an allowed origin. Besides allowedFields, the browser
// may send the fields for arguments of tools that it requests: their names depend on the tools.
func (g *Guard) setCORSHeaders(w http.ResponseWriter, r *http.Request, origin string) {
	h := w.Header()
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Methods", g.Methods)
	h.Set("Access-Control-Allow-Headers", allowedFields+requestedParams(r))
	h.Set("Access-Control-Expose-Headers", "DPoP-Nonce, MCP-Session-Id, Retry-After, WWW-Authenticate")
	h.Set("Access-Control-Max-Age", "600")
}

const allowedFields = "Accept, Authorization, Content-Type, DPoP, Last-Event-ID, MCP-Protocol-Version, MCP-Session-Id, Mcp-Method, Mcp-Name"

// maxParams limits the length of the result of requestedParams, in bytes.
const maxParams = 8 << 10

// requestedParams returns the header fields for arguments that a browser asks to send, each after a
// comma.
func requestedParams(r *http.Request) string {
	var list strings.Builder
	for _, value := range r.Header["Access-Control-Request-Headers"] {
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.TrimSpace(name); isParamField(name) && list.Len()+len(name)+2 <= maxParams {
				list.WriteString(", " + name)
			}
		}
	}
	return list.String()
}

// isParamField reports whether name is a header field for an argument of a tool.
func isParamField(name string) bool {
	const prefix = modern.HeaderParam
	return len(name) > len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) && !strings.ContainsFunc(name, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

// overTLS reports whether the client uses TLS, possibly to a proxy. A page that was delivered
// without TLS may be forged. It must not be treated as the same origin as a server with TLS.
func overTLS(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// overLoopback reports whether a request arrived at a loopback address.
func overLoopback(r *http.Request) bool {
	switch addr := r.Context().Value(http.LocalAddrContextKey).(type) {
	case *net.TCPAddr:
		return addr.IP.IsLoopback()
	case net.Addr:
		return network.IsLoopback(hostname(addr.String()))
	}
	return false
}

// hostname returns hostport without port and brackets.
func hostname(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
}

// printable returns up to 100 bytes of a text of the peer. It replaces characters other than
// printable ASCII.
func printable(s string) string {
	if len(s) > 100 {
		s = s[:100]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}
