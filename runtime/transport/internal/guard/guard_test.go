package guard

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// request returns a request that arrived at a local address.
func request(method, local, host string, header ...string) *http.Request {
	r := httptest.NewRequest(method, "/mcp", nil)
	r.Host = host
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	addr, err := net.ResolveTCPAddr("tcp", local)
	if err != nil {
		panic(err) // not reached: local is an address
	}
	return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(addr)))
}

// Proves HTTP-02, HTTP-03, SDK-10, M-HTTP-02.
func TestAdmit(t *testing.T) {
	const (
		loopback = "127.0.0.1:8080"
		public   = "192.0.2.7:8080"
	)
	for _, test := range []struct {
		name   string
		guard  *Guard
		local  string
		host   string
		origin string
		want   int // 0 if the request is admitted
	}{
		{"no origin", &Guard{}, loopback, "127.0.0.1:8080", "", 0},
		{"localhost", &Guard{}, loopback, "localhost:8080", "", 0},
		{"localhost without a port", &Guard{}, loopback, "LOCALHOST", "", 0},
		{"the loopback address of IPv6", &Guard{}, "[::1]:8080", "[::1]:8080", "", 0},
		{"a foreign name that resolves to loopback", &Guard{}, loopback, "evil.example.com:8080", "", 403},
		{"a page of that name", &Guard{}, loopback, "evil.example.com:8080", "http://evil.example.com:8080", 403},
		{"a name that looks like localhost", &Guard{}, loopback, "localhost.example.com", "", 403},
		{"no name", &Guard{}, loopback, "", "", 403},
		{"any name of a public server", &Guard{}, public, "mcp.example.com", "", 0},
		{"a name other than the server's", &Guard{Hosts: []string{"mcp.example.com"}}, public, "evil.example.com", "", 403},
		{"the name of the server", &Guard{Hosts: []string{"mcp.example.com"}}, public, "MCP.example.com:8080", "", 0},
		{"a listed name over loopback (proxy)", &Guard{Hosts: []string{"mcp.example.com"}}, loopback, "mcp.example.com", "", 0},

		{"a foreign page", &Guard{}, loopback, "localhost:8080", "http://evil.example.com", 403},
		{"a foreign page of a public server", &Guard{}, public, "192.0.2.7:8080", "http://evil.example.com", 403},
		{"a local page", &Guard{}, loopback, "localhost:8080", "http://localhost:5173", 0},
		{"a local page of a public server", &Guard{}, public, "192.0.2.7:8080", "http://localhost:5173", 403},
		{"origin null", &Guard{}, loopback, "localhost:8080", "null", 403},
		{"an empty origin", &Guard{}, loopback, "localhost:8080", "", 0},
		{"a malformed origin", &Guard{}, loopback, "localhost:8080", "localhost", 403},
		{"a file origin", &Guard{}, loopback, "localhost:8080", "file://localhost", 403},
		{"the page of an address", &Guard{}, public, "192.0.2.7:8080", "http://192.0.2.7:8080", 0},
		{"the page of an unlisted name (DNS rebinding)", &Guard{}, public, "mcp.example.com", "http://mcp.example.com", 403},
		{"the page of a listed name", &Guard{Hosts: []string{"mcp.example.com"}}, public, "mcp.example.com", "https://mcp.example.com", 0},
		{"a listed page", &Guard{Origins: []string{"https://app.example.com"}}, public, "mcp.example.com", "https://app.example.com", 0},
		{"a listed page with another scheme", &Guard{Origins: []string{"https://app.example.com"}}, public, "mcp.example.com", "http://app.example.com", 403},
		{"every page", &Guard{Origins: []string{"*"}}, public, "mcp.example.com", "null", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, method := range []string{"GET", "POST", "DELETE"} {
				r := request(method, test.local, test.host)
				if test.origin != "" {
					r.Header.Set("Origin", test.origin)
				}
				w := httptest.NewRecorder()
				_, ok := test.guard.Admit(w, r)
				if ok != (test.want == 0) || !ok && w.Code != test.want {
					t.Errorf("%s: admitted %v, status %d", method, ok, w.Code)
				}
				if !ok {
					checkRefusal(t, w)
				}
			}
		})
	}
}

// checkRefusal checks that a response has a JSON-RPC error without an id.
func checkRefusal(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	m, err := jsonrpc.Parse(w.Body.Bytes())
	if err != nil || m.Kind != jsonrpc.KindErrorResponse || !m.ID.IsZero() || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%q, %v", w.Body, err)
	}
}

func TestSeveralOriginHeadersAreRejected(t *testing.T) {
	w := httptest.NewRecorder()
	r := request("POST", "127.0.0.1:80", "localhost", "Origin", "http://localhost", "Origin", "http://localhost")
	if _, ok := new(Guard).Admit(w, r); ok || w.Code != 403 {
		t.Errorf("admitted %v, status %d", ok, w.Code)
	}
}

// Proves SDK-09.
func TestCORSHeaders(t *testing.T) {
	g := Guard{Origins: []string{"https://app.example.com"}, Methods: "GET, POST"}
	const host = "mcp.example.com"
	w := httptest.NewRecorder()
	if _, ok := g.Admit(w, request("OPTIONS", "192.0.2.7:80", host, "Origin", "https://app.example.com", "Access-Control-Request-Method", "POST")); ok || w.Code != 204 {
		t.Errorf("preflight: admitted %v, status %d", ok, w.Code)
	}
	want := http.Header{
		"Vary":                          {"Origin"},
		"Access-Control-Allow-Origin":   {"https://app.example.com"},
		"Access-Control-Allow-Methods":  {"GET, POST"},
		"Access-Control-Allow-Headers":  {"Accept, Authorization, Content-Type, DPoP, Last-Event-ID, MCP-Protocol-Version, MCP-Session-Id, Mcp-Method, Mcp-Name"},
		"Access-Control-Expose-Headers": {"DPoP-Nonce, MCP-Session-Id, Retry-After, WWW-Authenticate"},
		"Access-Control-Max-Age":        {"600"},
	}
	if diff := cmp.Diff(want, w.Header()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	w = httptest.NewRecorder()
	if _, ok := g.Admit(w, request("POST", "192.0.2.7:80", host)); !ok || len(w.Header()) > 0 {
		t.Errorf("a request without an origin: admitted %v, header %v", ok, w.Header())
	}
}

// The names of the fields for arguments depend on the tools. A browser asks for each field.
func TestPreflightAllowsFieldsOfArguments(t *testing.T) {
	g := Guard{Origins: []string{"https://app.example.com"}, Methods: "GET, POST"}
	preflight := func(fields ...string) string {
		w := httptest.NewRecorder()
		header := []string{"Origin", "https://app.example.com", "Access-Control-Request-Method", "POST"}
		for _, field := range fields {
			header = append(header, "Access-Control-Request-Headers", field)
		}
		if _, ok := g.Admit(w, request("OPTIONS", "192.0.2.7:80", "mcp.example.com", header...)); ok || w.Code != 204 {
			t.Errorf("admitted %v, status %d", ok, w.Code)
		}
		return strings.TrimPrefix(w.Header().Get("Access-Control-Allow-Headers"), allowedFields)
	}
	for _, test := range []struct {
		fields []string
		want   string
	}{
		{nil, ""},
		{[]string{"accept,content-type,mcp-method,mcp-name,mcp-protocol-version"}, ""},
		{[]string{"content-type, mcp-param-region,MCP-Param-Tenant_1", "mcp-param-a~b"}, ", mcp-param-region, MCP-Param-Tenant_1, mcp-param-a~b"},
		{[]string{"cookie,x-mcp-param-region,mcp-param-,mcp-param-a b,mcp-param-*,mcp-param-ü,mcp-param-(a),*"}, ", mcp-param-*"},
	} {
		if got := preflight(test.fields...); got != test.want {
			t.Errorf("%q allows %q, want %q", test.fields, got, test.want)
		}
	}
	if got := preflight(strings.Repeat("mcp-param-region,", 10_000)); len(got) > maxParams || len(got) < maxParams-100 {
		t.Errorf("%d bytes are allowed", len(got))
	}
}

func TestAdmitSetsPrincipal(t *testing.T) {
	type key struct{}
	g := Guard{Principal: func(r *http.Request) (string, error) {
		if token := r.Header.Get("Authorization"); token != "" {
			return token, nil
		}
		return "", errors.New("no token")
	}}
	for _, method := range []string{"GET", "POST", "DELETE", "OPTIONS"} {
		w := httptest.NewRecorder()
		if _, ok := g.Admit(w, request(method, "127.0.0.1:80", "localhost")); ok || w.Code != 401 {
			t.Errorf("%s: admitted %v, status %d", method, ok, w.Code)
		}
		checkRefusal(t, w)
	}
	r := request("POST", "127.0.0.1:80", "localhost", "Authorization", "ann")
	outer, cancel := context.WithCancel(context.WithValue(r.Context(), key{}, "kept"))
	cancel()
	ctx, ok := g.Admit(httptest.NewRecorder(), r.WithContext(outer))
	if !ok {
		t.Fatal("not admitted")
	}
	if p, ok := transport.Principal(ctx); !ok || p != "ann" || ctx.Value(key{}) != "kept" || ctx.Err() != nil {
		t.Errorf("principal %q, %v, value %v, %v", p, ok, ctx.Value(key{}), ctx.Err())
	}
}

// slowBody is a body whose read times out.
type slowBody struct{}

func (slowBody) Read([]byte) (int, error) { return 0, context.DeadlineExceeded }

func TestReadBody(t *testing.T) {
	for _, test := range []struct {
		name   string
		header []string
		body   io.Reader
		want   string
		status int
	}{
		{"JSON", []string{"Content-Type", "application/json"}, strings.NewReader(`{"a":1}`), `{"a":1}`, 200},
		{"with a charset", []string{"Content-Type", "Application/JSON; charset=utf-8"}, strings.NewReader(`{}`), `{}`, 200},
		{"of unknown length", []string{"Content-Type", "application/json"}, io.MultiReader(strings.NewReader("12345678"), strings.NewReader("90")), `1234567890`, 200},
		{"empty", []string{"Content-Type", "application/json"}, strings.NewReader(""), "", 200},
		{"no type", nil, strings.NewReader("{}"), "", 415},
		{"another type", []string{"Content-Type", "text/plain"}, strings.NewReader("{}"), "", 415},
		{"compressed", []string{"Content-Type", "application/json", "Content-Encoding", "gzip"}, strings.NewReader("{}"), "", 415},
		{"too long", []string{"Content-Type", "application/json"}, strings.NewReader("12345678901"), "12345678901", 413},
		{"too long, of unknown length", []string{"Content-Type", "application/json"}, io.MultiReader(strings.NewReader("12345678"), strings.NewReader("901")), "1234567890", 413},
		{"too slow", []string{"Content-Type", "application/json"}, slowBody{}, "", 408},
		{"cut off", []string{"Content-Type", "application/json"}, io.MultiReader(strings.NewReader("12"), &cutBody{}), "", 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/", test.body)
			for i := 0; i < len(test.header); i += 2 {
				r.Header.Set(test.header[i], test.header[i+1])
			}
			w := httptest.NewRecorder()
			body, ok := ReadBody(w, r, 10, time.Minute, nil)
			if string(body) != test.want || ok != (test.status == 200) || w.Code != test.status {
				t.Errorf("%q, %v, status %d", body, ok, w.Code)
			}
			if !ok {
				checkRefusal(t, w)
			}
		})
	}
}

// Bodies that are being read share a Room. A body that does not fit is rejected, and its bytes are
// released.
func TestReadBodyLimitsConcurrentBodies(t *testing.T) {
	room := NewRoom(10)
	send := func(body io.Reader) int {
		r := httptest.NewRequest("POST", "/", body)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		share := &Share{Room: room, Code: -32050}
		defer share.Release()
		if _, ok := ReadBody(w, r, 8, time.Minute, share); !ok {
			checkRefusal(t, w)
		}
		return w.Code
	}
	unfinished, rest := io.Pipe()
	first := make(chan int)
	go func() { first <- send(unfinished) }() // ends when rest is closed
	if _, err := io.WriteString(rest, "123456"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(rest, ""); err != nil { // returns when the first text is counted
		t.Fatal(err)
	}
	if status := send(strings.NewReader("12345")); status != http.StatusTooManyRequests {
		t.Errorf("status %d of a body without room", status)
	}
	if status := send(strings.NewReader("1234")); status != http.StatusOK {
		t.Errorf("status %d of a body that fits", status)
	}
	rest.Close()
	if status := <-first; status != http.StatusOK {
		t.Errorf("status %d of the first body", status)
	}
	if status := send(strings.NewReader("12345678")); status != http.StatusOK {
		t.Errorf("status %d with an empty room", status)
	}
}

// cutBody is a body whose connection breaks.
type cutBody struct{}

func (*cutBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// Proves HTTP-02.
func TestCrossSiteRequestsWithoutOriginAreRejected(t *testing.T) {
	for site, want := range map[string]bool{"cross-site": false, "same-site": false, "same-origin": true, "none": true, "": true} {
		r := request("GET", "127.0.0.1:80", "localhost")
		if site != "" {
			r.Header.Set("Sec-Fetch-Site", site)
		}
		w := httptest.NewRecorder()
		if _, ok := new(Guard).Admit(w, r); ok != want || !ok && w.Code != 403 {
			t.Errorf("Sec-Fetch-Site %q: admitted %v, status %d", site, ok, w.Code)
		}
		g := Guard{Origins: []string{"*"}}
		if _, ok := g.Admit(httptest.NewRecorder(), r); !ok {
			t.Errorf("Sec-Fetch-Site %q, with all origins allowed: rejected", site)
		}
	}
}

// A page that was delivered without TLS is not of the same origin as a server with TLS.
func TestOriginMustUseTLSIfServerDoes(t *testing.T) {
	g := Guard{Hosts: []string{"mcp.example.com"}}
	for _, test := range []struct {
		tls, forwarded bool
		origin         string
		want           bool
	}{
		{true, false, "http://mcp.example.com", false},
		{false, true, "http://mcp.example.com", false},
		{true, false, "https://mcp.example.com", true},
		{false, true, "https://mcp.example.com", true},
		{false, false, "http://mcp.example.com", true},
	} {
		r := request("POST", "192.0.2.7:443", "mcp.example.com", "Origin", test.origin)
		if test.tls {
			r.TLS = new(tls.ConnectionState)
		}
		if test.forwarded {
			r.Header.Set("X-Forwarded-Proto", "https")
		}
		if _, ok := g.Admit(httptest.NewRecorder(), r); ok != test.want {
			t.Errorf("%+v: admitted %v", test, ok)
		}
	}
}

func TestFailedPrincipalSendsChallenge(t *testing.T) {
	const challenge = `Bearer resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource"`
	for _, test := range []struct {
		name      string
		principal func() error
		status    int
		want      string
	}{
		{"any error", func() error { return errors.New("no token") }, 401, "Bearer"},
		{"an error with a challenge", func() error {
			return fmt.Errorf("wrapped: %w", &transport.ChallengeError{Challenge: challenge, Err: errors.New("no token")})
		}, 401, challenge},
		{"a panic", func() error { panic("no") }, 500, ""},
	} {
		g := Guard{
			Principal: func(*http.Request) (string, error) { return "", test.principal() },
			Logger:    slog.New(slog.DiscardHandler),
		}
		w := httptest.NewRecorder()
		_, ok := g.Admit(w, request("POST", "192.0.2.7:443", "mcp.example.com"))
		if got := w.Header().Get("WWW-Authenticate"); ok || w.Code != test.status || got != test.want {
			t.Errorf("%s: admitted %v, status %d, challenge %q", test.name, ok, w.Code, got)
		}
		checkRefusal(t, w)
	}
}

func TestAdmitRejectsLongHeader(t *testing.T) {
	for length, want := range map[int]int{60 << 10: http.StatusOK, 70 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		r := request("POST", "127.0.0.1:8080", "localhost", "X-Long", strings.Repeat("x", length))
		w := httptest.NewRecorder()
		ctx, ok := new(Guard).Admit(w, r)
		if ok != (want == http.StatusOK) || w.Code != want {
			t.Errorf("header of %d bytes: status %d, want %d", length, w.Code, want)
		}
		if !ok {
			continue
		}
		if header, addr := transport.HTTP(ctx); len(header["X-Long"]) != 1 || addr != r.RemoteAddr {
			t.Errorf("context: header %d values, address %q", len(header["X-Long"]), addr)
		}
	}
}

// A host name that is not allowed is logged, once a minute at most.
func TestForeignHostsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		g := &Guard{Hosts: []string{"mcp.example.com"}, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		for i := range 100 {
			time.Sleep(time.Second)
			g.Admit(httptest.NewRecorder(), request(http.MethodPost, "192.0.2.7:8080", fmt.Sprintf("shop%d.example.com", i)))
		}
		if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "the Hosts of its HandlerOptions\" host=shop0.example.com") {
			t.Errorf("%d lines:\n%s", n, log.String())
		}
	})
}

func TestJSONStatesItsLength(t *testing.T) {
	for _, n := range []int{0, 5, 200} {
		w := httptest.NewRecorder()
		var length [1]string
		BeginJSON(w, http.StatusOK, make([]byte, n), &length)
		if got := w.Result().ContentLength; got != int64(n) {
			t.Errorf("Content-Length %d for %d bytes", got, n)
		}
	}
}
