// Package guard protects the HTTP transports: it decides which requests are admitted and for which
// principal, and rejects the others (MCP transports, "Security Warning").
package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Guard admits or rejects requests. It must not be changed while it is in use.
type Guard struct {
	// Origins are the origins of web pages on other sites that may use the server, such as
	// "https://app.example.com"; "*" allows all. Their browsers receive CORS headers.
	Origins []string

	// Hosts are the host names of the server, without a port. If there are none, requests over a
	// loopback address must use a loopback name, and others may use any.
	Hosts []string

	// Methods are the HTTP methods of the endpoint, such as "GET, POST".
	Methods string

	// Principal returns the principal of a request. If it is nil, all requests have the same
	// principal.
	Principal func(*http.Request) (string, error)

	// Logger receives the panics of Principal.
	Logger *slog.Logger
}

// maxHeader limits the header of a request, in bytes, because a task keeps it while it runs.
const maxHeader = 64 << 10

// Admit admits a request, and returns a context with its values, its header and its principal that
// does not end with the request. If ok is false, Admit has written the response: 204 to the
// preflight request of an allowed page, 403 for a foreign origin or host name, 431 for a header that
// is too long, and 401 without a principal.
func (g *Guard) Admit(w http.ResponseWriter, r *http.Request) (ctx context.Context, ok bool) {
	if !g.allowsHost(r) {
		Refuse(w, http.StatusForbidden, jsonrpc.CodeInvalidRequest, "host not allowed: "+printable(r.Host))
		return nil, false
	}
	if origins := r.Header["Origin"]; len(origins) > 0 {
		if len(origins) > 1 || !g.allowsOrigin(r, origins[0]) {
			Refuse(w, http.StatusForbidden, jsonrpc.CodeInvalidRequest, "origin not allowed: "+printable(origins[0]))
			return nil, false
		}
		g.setCORSHeaders(w, r, origins[0])
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			w.WriteHeader(http.StatusNoContent)
			return nil, false
		}
	} else if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" && !slices.Contains(g.Origins, "*") {
		// A subresource or a link of another page: the browser sends no Origin for these.
		Refuse(w, http.StatusForbidden, jsonrpc.CodeInvalidRequest, "cross-site request without origin")
		return nil, false
	}
	if size(r.Header) > maxHeader {
		Refuse(w, http.StatusRequestHeaderFieldsTooLarge, jsonrpc.CodeInvalidRequest, fmt.Sprintf("header has more than %d bytes", maxHeader))
		return nil, false
	}
	ctx = transport.WithHTTP(context.WithoutCancel(r.Context()), r.Header, r.RemoteAddr)
	if g.Principal == nil {
		return ctx, true
	}
	principal, err := g.principal(r)
	if err != nil {
		g.rejectPrincipal(w, err)
		return nil, false
	}
	return transport.WithPrincipal(ctx, principal), true
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

// rejectPrincipal rejects a request because Principal has failed with err.
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
// name resolve to the address of a private server (DNS rebinding), but the browser then still sends
// the name of the page.
func (g *Guard) allowsHost(r *http.Request) bool {
	name := hostname(r.Host)
	if len(g.Hosts) > 0 {
		return slices.ContainsFunc(g.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
	}
	return !overLoopback(r) || isLoopback(name)
}

// allowsOrigin reports whether a page of an origin may use the server: a listed origin, the
// server's own origin if its name can be trusted, and on a loopback connection any origin of the
// same machine.
func (g *Guard) allowsOrigin(r *http.Request, origin string) bool {
	if slices.ContainsFunc(g.Origins, func(o string) bool { return o == "*" || strings.EqualFold(o, origin) }) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	if overLoopback(r) && isLoopback(u.Hostname()) {
		return true
	}
	if !strings.EqualFold(u.Host, r.Host) || u.Scheme != "https" && overTLS(r) {
		return false
	}
	_, err = netip.ParseAddr(u.Hostname())
	return err == nil || len(g.Hosts) > 0 // an address cannot be rebound
}

// setCORSHeaders sets the CORS headers for an allowed origin. The browser asks for the header fields
// that it wants to send. Those of arguments have names that only the page and the tools know.
func (g *Guard) setCORSHeaders(w http.ResponseWriter, r *http.Request, origin string) {
	h := w.Header()
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Methods", g.Methods)
	h.Set("Access-Control-Allow-Headers", allowedFields+requestedParams(r))
	h.Set("Access-Control-Expose-Headers", "MCP-Session-Id, Retry-After, WWW-Authenticate")
	h.Set("Access-Control-Max-Age", "600")
}

const allowedFields = "Accept, Authorization, Content-Type, Last-Event-ID, MCP-Protocol-Version, MCP-Session-Id, Mcp-Method, Mcp-Name"

// maxParams limits the length of the result of requestedParams, in bytes.
const maxParams = 8 << 10

// requestedParams returns the header fields of arguments that a browser wants to send, each after a
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

// isParamField reports whether a name is that of a header field with an argument of a tool.
func isParamField(name string) bool {
	const prefix = modern.HeaderParam
	return len(name) > len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) && !strings.ContainsFunc(name, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

// overTLS reports whether the client is known to have used TLS, possibly with a proxy. A page that
// was delivered without TLS can be forged, and must not act for one that was delivered with it.
func overTLS(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// overLoopback reports whether a request arrived at a loopback address.
func overLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && isLoopback(hostname(addr.String()))
}

// isLoopback reports whether a name or an address is that of the same machine.
func isLoopback(name string) bool {
	if strings.EqualFold(name, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Unmap().IsLoopback()
}

// hostname returns hostport without the port and brackets.
func hostname(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
}

// printable returns the beginning of a peer's text, with all characters except printable ASCII
// replaced.
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
