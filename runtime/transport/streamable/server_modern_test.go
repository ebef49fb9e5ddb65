package streamable_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// serveModern serves a handler for sessions and modern requests until the test ends.
func serveModern(t *testing.T, o streamable.HandlerOptions) *testServer {
	t.Helper()
	tools := newTools()
	responder := tools.responder()
	o.Responder = responder
	s := serveOver(t, o, tools, plain)
	t.Cleanup(func() { responder.Close() })
	return s
}

// responder serves requests without a session.
type responder interface {
	transport.Responder
	Shutdown(context.Context) error
	Close() error
}

func newResponder(cfg *session.Options) responder {
	return cfg.Internals(boundary.Caller{}).NewResponder()
}

func (o *tools) responder() responder {
	return newResponder(&session.Options{Handler: o.handle, Limits: session.Limits{ProgressInterval: -1}})
}

// metaOf returns the _meta of a modern request in a version. Its progress token is the id.
func metaOf(version string, id int) string {
	return fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientCapabilities":{},"progressToken":%d}`, version, id)
}

// modernCall returns a modern request for a tool.
func modernCall(id int, tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"n":%d},%s}}`, id, tool, id, metaOf("2026-07-28", id))
}

// modernRequest returns a modern request without other params.
func modernRequest(id int, method string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, id, method, metaOf("2026-07-28", id))
}

// callHeader returns the header of a modern request for a tool.
func callHeader(tool string, more ...string) []string {
	return append([]string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool}, more...)
}

// methodHeader returns the header of a modern request.
func methodHeader(method string, more ...string) []string {
	return append([]string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method}, more...)
}

// Modern requests need no session, and the header fields of sessions have no effect on them.
// Sessions are served at the same time.
func TestModernRequestsNextToSessions(t *testing.T) {
	// Proves M-ERA-01, M-ERA-02, M-ERA-03, M-ERA-07, M-HTTP-01, M-HTTP-07.
	synctest.Test(t, func(t *testing.T) {
		s := serveModern(t, streamable.HandlerOptions{})
		check := func(id int, more ...string) {
			t.Helper()
			response := s.do("POST", modernCall(id, "echo"), callHeader("echo", more...)...)
			text, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != 200 || string(text) != result(id) {
				t.Errorf("with %q: %d, %s, %v", more, response.StatusCode, text, err)
			}
			if got := response.Header.Get("Content-Type"); got != "application/json" {
				t.Errorf("with %q: type %q", more, got)
			}
			if _, ok := response.Header["Mcp-Session-Id"]; ok {
				t.Errorf("with %q: header %v", more, response.Header)
			}
		}
		check(1)
		session := s.openSession(initialize)
		other := s.openSession(initializeOld)
		check(2)
		check(3, "MCP-Session-Id", session)
		check(4, "MCP-Session-Id", "unknown")
		check(5, "Last-Event-ID", "0-1")
		check(6, "MCP-Session-Id", session, "Last-Event-ID", "unknown")
		for _, id := range []string{session, other} {
			if got := s.text(call(7, "echo"), "MCP-Session-Id", id); got != result(7) {
				t.Errorf("a session: %s", got)
			}
		}
		stream := s.events("POST", modernCall(8, "progress"), callHeader("progress", "MCP-Session-Id", session, "Last-Event-ID", "0-1")...)
		if got := stream.messages(); len(got) != 6 || stream.id != "" {
			t.Errorf("a stream has the messages %q, and ids such as %q", got, stream.id)
		}
		if status := s.status("DELETE", "", "MCP-Session-Id", session); status != 204 {
			t.Errorf("end of the session: %d", status)
		}
	})
}

// A Stateless handler serves modern requests in the same way.
func TestStatelessHandlerServesModernRequests(t *testing.T) {
	// Proves M-ERA-02, M-ERA-06.
	synctest.Test(t, func(t *testing.T) {
		s := serveModern(t, streamable.HandlerOptions{Stateless: true})
		if got := s.text(modernCall(1, "echo"), callHeader("echo")...); got != result(1) {
			t.Errorf("modern: %s", got)
		}
		if got := s.text(call(2, "echo")); got != result(2) {
			t.Errorf("without a session: %s", got)
		}
		for _, method := range []string{"GET", "DELETE"} {
			if status := s.status(method, ""); status != 405 {
				t.Errorf("%s: %d", method, status)
			}
		}
	})
}

// A Handler without revisions of sessions opens none, and ignores their header fields.
func TestHandlerOfModernRevisionsAlone(t *testing.T) {
	// Proves M-ERA-05, M-ERA-06, M-ERA-07, M-HTTP-13.
	synctest.Test(t, func(t *testing.T) {
		tools := newTools()
		responder := newResponder(&session.Options{Handler: tools.handle, Revisions: session.ModernRevisions()})
		defer responder.Close()
		s := serveOver(t, streamable.HandlerOptions{Responder: responder}, tools, plain)
		for _, method := range []string{"GET", "DELETE", "PUT"} {
			response := s.do(method, "", "MCP-Session-Id", "old")
			response.Body.Close()
			if allow := response.Header["Allow"]; response.StatusCode != 405 || !slices.Equal(allow, []string{"POST"}) {
				t.Errorf("%s: %d, Allow %q", method, response.StatusCode, allow)
			}
		}
		if got := s.text(modernCall(1, "echo"), callHeader("echo", "MCP-Session-Id", "old")...); got != result(1) {
			t.Errorf("a modern request with a session id: %s", got)
		}
		for _, header := range [][]string{nil, {"MCP-Protocol-Version", "2025-11-25"}, {"MCP-Protocol-Version", "2026-07-28"}, {"MCP-Session-Id", "old"}} {
			if got, want := s.fault(initialize, header...), `400 -32022 id 0 {"supported":["2026-07-28"],"requested":"2025-11-25"}`; got != want {
				t.Errorf("initialize with %q: %s, want %s", header, got, want)
			}
			if got := s.fault(call(7, "echo"), header...); got != "400 -32602 id 7" {
				t.Errorf("a request of a session with %q: %s", header, got)
			}
		}
		if got := s.fault(modernCall(2, "echo"), callHeader("echo", "MCP-Protocol-Version", "-", "MCP-Session-Id", "old")...); got != "400 -32020 id 2" {
			t.Errorf("no version in the header: %s", got)
		}
		if len(tools.sessions) > 0 {
			t.Errorf("%d sessions were opened", len(tools.sessions))
		}
	})
}

// fault returns the status, code, id and data of a rejected message.
func (s *testServer) fault(body string, header ...string) string {
	s.t.Helper()
	response := s.do("POST", body, header...)
	text, err := io.ReadAll(response.Body)
	m, parseErr := jsonrpc.Parse(text)
	if err != nil || parseErr != nil || m.Kind != jsonrpc.KindErrorResponse || response.Header.Get("Content-Type") != "application/json" {
		s.t.Errorf("answered %d with %q, %v, %v", response.StatusCode, text, err, parseErr)
		return ""
	}
	out := fmt.Sprintf("%d %d", response.StatusCode, m.Error.Code)
	if !m.ID.IsZero() {
		out += " id " + m.ID.String()
	}
	if len(m.Error.Data) > 0 {
		out += " " + string(m.Error.Data)
	}
	return out
}

// Of several faults, the first is reported: an incomplete _meta, then a header that differs from
// the message, then a version that is not served.
func TestFaultsOfModernRequests(t *testing.T) {
	// Proves M-META-03, M-VER-01, M-ERA-02, M-ERR-01, M-HTTP-12, M-HTTP-13, M-HTTP-14, M-RPC-04,
	// M-RPC-05, M-HDR-03, M-HDR-08, M-HDR-09.
	const (
		version  = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
		future   = `"io.modelcontextprotocol/protocolVersion":"v999.0.0"`
		earlier  = `"io.modelcontextprotocol/protocolVersion":"2025-11-25"`
		can      = `"io.modelcontextprotocol/clientCapabilities":{}`
		complete = `"_meta":{` + version + `,` + can + `}`
		invalid  = `400 -32602 id 9`
		differs  = `400 -32020 id 9`
		unknown  = `400 -32022 id 9 {"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"v999.0.0"}`
		served   = ``
	)
	synctest.Test(t, func(t *testing.T) {
		s := serveModern(t, streamable.HandlerOptions{})
		session := s.openSession(initialize)
		for _, test := range []struct {
			name, params string
			header       []string
			want         string
		}{
			{"complete", `{"name":"echo",` + complete + `}`, callHeader("echo"), served},
			{"no params", `null`, callHeader("echo"), invalid},
			{"no _meta", `{"name":"echo"}`, callHeader("echo"), invalid},
			{"no _meta, and a wrong name", `{"name":"echo"}`, callHeader("wait"), invalid},
			{"no _meta, in an unknown version", `{"name":"echo"}`, callHeader("echo", "MCP-Protocol-Version", "v999.0.0"), invalid},
			{"no _meta, and a session id", `{"name":"echo"}`, callHeader("echo", "MCP-Session-Id", session), invalid},
			{"a _meta that is no object", `{"name":"echo","_meta":7}`, callHeader("echo"), invalid},
			{"no version", `{"name":"echo","_meta":{` + can + `}}`, callHeader("echo"), invalid},
			{"no capabilities", `{"name":"echo","_meta":{` + version + `}}`, callHeader("echo"), invalid},
			{"no capabilities, and the header of a session", `{"name":"echo","_meta":{` + version + `}}`, callHeader("echo", "MCP-Protocol-Version", "2025-11-25"), invalid},
			{"a version that is no string", `{"name":"echo","_meta":{"io.modelcontextprotocol/protocolVersion":1,` + can + `}}`, callHeader("echo"), invalid},
			{"capabilities that are no object", `{"name":"echo","_meta":{` + version + `,"io.modelcontextprotocol/clientCapabilities":[]}}`, callHeader("echo"), invalid},

			{"no version in the header", `{"name":"echo",` + complete + `}`, callHeader("echo", "MCP-Protocol-Version", "-"), differs},
			{"no version in the header, and a session id", `{"name":"echo",` + complete + `}`, callHeader("echo", "MCP-Protocol-Version", "-", "MCP-Session-Id", session), differs},
			{"the version of a session in the header", `{"name":"echo",` + complete + `}`, callHeader("echo", "MCP-Protocol-Version", "2025-11-25"), differs},
			{"the version of a session in the header, and its id", `{"name":"echo",` + complete + `}`, callHeader("echo", "MCP-Protocol-Version", "2025-11-25", "MCP-Session-Id", session), differs},
			{"an unknown version in the header", `{"name":"echo",` + complete + `}`, callHeader("echo", "MCP-Protocol-Version", "v999.0.0"), differs},
			{"an unknown version in the _meta", `{"name":"echo","_meta":{` + future + `,` + can + `}}`, callHeader("echo"), differs},
			{"the version of a session in the _meta", `{"name":"echo","_meta":{` + earlier + `,` + can + `}}`, callHeader("echo"), differs},
			{"an unknown version, and a wrong name", `{"name":"echo","_meta":{` + future + `,` + can + `}}`, callHeader("wait", "MCP-Protocol-Version", "v999.0.0"), differs},
			{"no method", `{"name":"echo",` + complete + `}`, callHeader("echo", "Mcp-Method", "-"), differs},
			{"another method", `{"name":"echo",` + complete + `}`, callHeader("echo", "Mcp-Method", "prompts/get"), differs},
			{"the method in capitals", `{"name":"echo",` + complete + `}`, callHeader("echo", "Mcp-Method", "TOOLS/CALL"), differs},
			{"an encoded method", `{"name":"echo",` + complete + `}`, callHeader("echo", "Mcp-Method", "=?base64?dG9vbHMvY2FsbA==?="), differs},
			{"no name", `{"name":"echo",` + complete + `}`, callHeader("echo", "Mcp-Name", "-"), differs},
			{"another name", `{"name":"echo",` + complete + `}`, callHeader("wait"), differs},
			{"the name in capitals", `{"name":"echo",` + complete + `}`, callHeader("Echo"), differs},
			{"an empty name", `{"name":"echo",` + complete + `}`, callHeader(""), differs},
			{"a name that the message lacks", `{` + complete + `}`, callHeader("echo"), differs},
			{"an encoded name of another tool", `{"name":"echo",` + complete + `}`, callHeader("=?base64?d2FpdA==?="), differs},
			{"a name with invalid padding", `{"name":"=?base64?SGVsbG8?=",` + complete + `}`, callHeader("=?base64?SGVsbG8?="), differs},
			{"a name with foreign characters", `{"name":"=?base64?SGVs!!!bG8=?=",` + complete + `}`, callHeader("=?base64?SGVs!!!bG8=?="), differs},
			{"a name with the wrong prefix", `{"name":"echo",` + complete + `}`, callHeader("=?BASE64?ZWNobw==?="), differs},
			{"a name that is not ASCII", `{"name":"écho",` + complete + `}`, callHeader("écho"), differs},

			{"an unknown version", `{"name":"echo","_meta":{` + future + `,` + can + `}}`, callHeader("echo", "MCP-Protocol-Version", "v999.0.0"), unknown},
			{"an unknown version, and a session id", `{"name":"echo","_meta":{` + future + `,` + can + `}}`, callHeader("echo", "MCP-Protocol-Version", "v999.0.0", "MCP-Session-Id", session), unknown},
			{"the version of a session", `{"name":"echo","_meta":{` + earlier + `,` + can + `}}`, callHeader("echo", "MCP-Protocol-Version", "2025-11-25"), strings.Replace(strings.Replace(unknown, `"2025-11-25",`, "", 1), "v999.0.0", "2025-11-25", 1)},
		} {
			before := s.tools.calls.Load()
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":%s}`, test.params)
			if test.want == served {
				s.text(body, test.header...)
			} else if got := s.fault(body, test.header...); got != test.want {
				t.Errorf("%s: %s, want %s", test.name, got, test.want)
			}
			if calls := s.tools.calls.Load() - before; (calls == 1) != (test.want == served) {
				t.Errorf("%s: %d calls", test.name, calls)
			}
		}
	})
}

// modernRecord passes a request to a handler, with the fields of the header as they are.
func modernRecord(h http.Handler, body string, header http.Header) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "http://localhost/mcp", strings.NewReader(body))
	r.Header = header
	h.ServeHTTP(w, r)
	return w
}

func TestNamesInModernHeader(t *testing.T) {
	// Proves M-HDR-04, M-HDR-05, M-HDR-07, M-HDR-08.
	responder := newResponder(&session.Options{Handler: func(context.Context, *session.Request) (codec.Encoder, error) { return session.Raw("{}"), nil }})
	defer responder.Close()
	h := streamable.NewHandler(func(*http.Request, transport.Conn) {}, streamable.HandlerOptions{Responder: responder})
	defer h.Close()
	for _, test := range []struct {
		method, param, value string
		names                []string
		want                 int
	}{
		{"tools/call", "name", "weather", []string{"weather"}, 200},
		{"tools/call", "name", "weather", []string{"  weather\t"}, 200},
		{"tools/call", "name", "weather", []string{"=?base64?d2VhdGhlcg==?="}, 200},
		{"tools/call", "name", "weather", []string{" =?base64?d2VhdGhlcg==?= "}, 200},
		{"tools/call", "name", "=?base64?x", []string{"=?base64?x"}, 200},
		{"tools/call", "name", "=?BASE64?d2VhdGhlcg==?=", []string{"=?BASE64?d2VhdGhlcg==?="}, 200},
		{"tools/call", "name", "天気", []string{"=?base64?5aSp5rCX?="}, 200},
		{"tools/call", "name", " a ", []string{"=?base64?IGEg?="}, 200},
		{"tools/call", "name", " a ", []string{" a "}, 400},
		{"tools/call", "name", "weather", []string{"weather", "weather"}, 400},
		{"tools/call", "name", "weather", []string{"weather", "other"}, 400},
		{"tools/call", "name", "weather", nil, 400},
		{"tools/call", "uri", "weather", []string{"weather"}, 400},
		{"prompts/get", "name", "ask", []string{"ask"}, 200},
		{"prompts/get", "name", "ask", nil, 400},
		{"resources/read", "uri", "file:///a b", []string{"file:///a b"}, 200},
		{"resources/read", "uri", "file:///a", []string{"file:///b"}, 400},
		{"resources/read", "uri", "file:///a", nil, 400},
		{"resources/read", "name", "file:///a", []string{"file:///a"}, 400},
		{"tools/list", "name", "weather", nil, 200},
		{"tools/list", "name", "weather", []string{"other"}, 200}, // the method has no name
	} {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%q:%q,%s}}`, test.method, test.param, test.value, metaOf("2026-07-28", 1))
		header := http.Header{"Content-Type": {"application/json"}, "Mcp-Name": test.names, "Mcp-Method": {" " + test.method + " "}, "Mcp-Protocol-Version": {"2026-07-28"}}
		if w := modernRecord(h, body, header); w.Code != test.want {
			t.Errorf("%s with %q: %d %s", body, test.names, w.Code, w.Body)
		}
	}
	// Names of fields have no case. Package http has one form for all.
	header := http.Header{}
	header.Set("content-type", "application/json")
	header.Set("MCP-METHOD", "tools/list")
	header.Set("mcp-protocol-version", "2026-07-28")
	if w := modernRecord(h, modernRequest(1, "tools/list"), header); w.Code != 200 {
		t.Errorf("fields with other case: %d %s", w.Code, w.Body)
	}
	header["Mcp-Protocol-Version"] = []string{"2026-07-28", "2026-07-28"}
	if w := modernRecord(h, modernRequest(1, "tools/list"), header); w.Code != 400 || !strings.Contains(w.Body.String(), "-32020") {
		t.Errorf("two versions: %d %s", w.Code, w.Body)
	}
}

// The era is decided before the method.
func TestMethodsThatModernRevisionsLack(t *testing.T) {
	// Proves M-ERA-04, M-HTTP-10, M-RPC-04.
	synctest.Test(t, func(t *testing.T) {
		s := serveModern(t, streamable.HandlerOptions{})
		for _, method := range []string{
			"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tasks/list", "roots/list",
			"notifications/progress", "unknown/method",
		} {
			if got := s.fault(modernRequest(5, method), methodHeader(method)...); got != "404 -32601 id 5" {
				t.Errorf("%s: %s", method, got)
			}
		}
		// Without such a _meta, initialize opens a session with any header.
		response := s.do("POST", initialize, "MCP-Protocol-Version", "2026-07-28")
		if id := response.Header.Get("MCP-Session-Id"); response.StatusCode != 200 || id == "" {
			t.Errorf("initialize: %d, session %q", response.StatusCode, id)
		}
	})
}

// failing is a Responder whose handler fails.
func failing(err error) responder {
	return newResponder(&session.Options{Handler: func(context.Context, *session.Request) (codec.Encoder, error) { return nil, err }})
}

func TestStatusOfModernErrors(t *testing.T) {
	// Proves M-META-06, M-ERR-01, M-ERR-02, M-ERR-03, M-ERR-05, M-ERR-07.
	for _, test := range []struct {
		err   error
		want  int
		code  int
		retry string
	}{
		{&session.CapabilityError{Method: "sampling/createMessage", Capability: "sampling"}, 400, -32021, ""},
		{&jsonrpc.Error{Code: -32020, Message: "Mcp-Param-Region differs"}, 400, -32020, ""},
		{&jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no tools"}, 404, -32601, ""},
		{&jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown tool"}, 200, -32602, ""},
		{&jsonrpc.Error{Code: 7, Message: "own"}, 200, 7, ""},
		{errors.New("failed"), 200, -32603, ""},
		// Reserved codes are mapped to others, and that of a missing resource to the one of these
		// revisions.
		{&jsonrpc.Error{Code: -32000, Message: "own"}, 200, -31000, ""},
		{&jsonrpc.Error{Code: -32002, Message: "no resource"}, 200, -32602, ""},
		{&jsonrpc.Error{Code: -32019, Message: "own"}, 200, -31019, ""},
		{&jsonrpc.Error{Code: -32023, Message: "own"}, 200, -31023, ""},
		{&jsonrpc.Error{Code: -32042, Message: "visit a page"}, 200, -31042, ""},
		{&jsonrpc.Error{Code: -32099, Message: "own"}, 200, -31099, ""},
		{&jsonrpc.Error{Code: -32100, Message: "own"}, 200, -32100, ""},
		{&jsonrpc.Error{Code: session.CodeOverloaded, Message: "too many calls"}, 503, -31050, "1"},
		{&jsonrpc.Error{Code: session.CodeClosing, Message: "ends"}, 503, -31051, "1"},
	} {
		responder := failing(test.err)
		h := streamable.NewHandler(func(*http.Request, transport.Conn) {}, streamable.HandlerOptions{Responder: responder})
		header := http.Header{"Content-Type": {"application/json"}, "Mcp-Name": {"a"}, "Mcp-Method": {"tools/call"}, "Mcp-Protocol-Version": {"2026-07-28"}}
		w := modernRecord(h, modernCall(1, "a"), header)
		if w.Code != test.want || !strings.Contains(w.Body.String(), fmt.Sprintf(`"id":1,"error":{"code":%d,`, test.code)) || w.Header().Get("Retry-After") != test.retry {
			t.Errorf("%v: %d %v %s", test.err, w.Code, w.Header(), w.Body)
		}
		h.Close()
		responder.Close()
	}
}

func TestModernNotifications(t *testing.T) {
	// Proves M-HTTP-08, M-HTTP-09, M-RPC-10, M-CANC-08.
	const version = "MCP-Protocol-Version"
	received := make(chan string, 10)
	synctest.Test(t, func(t *testing.T) {
		tools := newTools()
		responder := newResponder(&session.Options{Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			received <- req.Method + " " + string(req.Revision())
			if req.Method == "custom/fails" {
				return nil, errors.New("not answered")
			}
			peer, _ := session.PeerFrom(ctx)
			return nil, peer.Notify(ctx, "notifications/message", session.Raw(`{}`)) // has no stream
		}, Logger: slog.New(slog.DiscardHandler)})
		defer responder.Close()
		s := serveOver(t, streamable.HandlerOptions{Responder: responder}, tools, plain)
		for _, test := range []struct {
			body   string
			header []string
			want   int
		}{
			{`{"jsonrpc":"2.0","method":"custom/event"}`, []string{version, "2026-07-28"}, 202},
			{`{"jsonrpc":"2.0","method":"custom/event","params":{` + metaOf("2026-07-28", 1) + `}}`, []string{version, "2026-07-28", "Mcp-Method", "custom/event"}, 202},
			{`{"jsonrpc":"2.0","method":"custom/fails"}`, []string{version, "2026-07-28", "MCP-Session-Id", "stray"}, 202},
			{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, []string{version, "2026-07-28"}, 202},
			{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, []string{version, "2026-07-28"}, 400},
			{`{"jsonrpc":"2.0","method":"tools/call"}`, []string{version, "2026-07-28"}, 400},
			{`{"jsonrpc":"2.0","method":"custom/event"}`, []string{version, "2026-07-28", "Mcp-Method", "custom/other"}, 400},
			{`{"jsonrpc":"2.0","method":"custom/event"}`, []string{version, "v999.0.0"}, 400},
			{`{"jsonrpc":"2.0","method":"custom/event","params":{` + metaOf("2026-07-28", 1) + `}}`, nil, 400},
			{`{"jsonrpc":"2.0","method":"custom/event","params":{` + metaOf("v999.0.0", 1) + `}}`, []string{version, "2026-07-28"}, 400},
			{`{"jsonrpc":"2.0","method":7}`, []string{version, "2026-07-28"}, 400},
		} {
			response := s.do("POST", test.body, test.header...)
			text, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != test.want || (len(text) == 0) != (test.want == 202) || strings.Contains(string(text), `"id"`) {
				t.Errorf("%s: %d %s, %v", test.body, response.StatusCode, text, err)
			}
		}
	})
	close(received)
	var got []string
	for text := range received {
		got = append(got, text)
	}
	if diff := cmp.Diff([]string{"custom/event 2026-07-28", "custom/event 2026-07-28", "custom/fails 2026-07-28"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestModernBodyIsOneRequestOrNotification(t *testing.T) {
	// Proves M-HTTP-04, M-RPC-12.
	synctest.Test(t, func(t *testing.T) {
		s := serveModern(t, streamable.HandlerOptions{})
		for _, body := range []string{
			"[" + modernCall(1, "echo") + "]", "[" + modernCall(1, "echo") + "," + modernCall(2, "echo") + "]", "[]", "", "{", `"text"`, "null",
			`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}`,
		} {
			if got := s.status("POST", body, callHeader("echo")...); got != 400 {
				t.Errorf("%s: %d", body, got)
			}
		}
		if calls := s.tools.calls.Load(); calls > 0 {
			t.Errorf("%d calls", calls)
		}
	})
}

func TestModernRequestsAtOnce(t *testing.T) {
	// Proves M-HTTP-15.
	synctest.Test(t, func(t *testing.T) {
		s := serveModern(t, streamable.HandlerOptions{})
		done := make(chan string, 20)
		for i := range 20 {
			go func() { done <- s.text(modernCall(7, "wait"), callHeader("wait")...) }() // ends when the tool is released
			if i%2 > 0 {
				<-s.tools.started
			}
		}
		if got := s.text(modernCall(7, "echo"), callHeader("echo")...); got != result(7) {
			t.Errorf("while others are served: %s", got)
		}
		close(s.tools.release)
		for range 20 {
			if got := <-done; got != result(7) {
				t.Errorf("got %s", got)
			}
		}
	})
}

// Pages of other origins send no modern requests.
func TestOriginOfModernRequestsIsChecked(t *testing.T) {
	// Proves M-HTTP-02.
	synctest.Test(t, func(t *testing.T) {
		s := serveModern(t, streamable.HandlerOptions{Access: streamable.Access{Hosts: []string{"localhost"}, Origins: []string{"https://app.example.com"}}})
		for _, test := range []struct {
			field, value string
			want         int
		}{
			{"Origin", "http://evil.example.com", 403},
			{"Origin", "null", 403},
			{"Host", "evil.example.com", 403},
			{"Sec-Fetch-Site", "cross-site", 403},
			{"Origin", "https://app.example.com", 200},
		} {
			before := s.tools.calls.Load()
			if status := s.status("POST", modernCall(1, "echo"), callHeader("echo", test.field, test.value)...); status != test.want {
				t.Errorf("%s %s: %d, want %d", test.field, test.value, status, test.want)
			}
			if called := s.tools.calls.Load() > before; called != (test.want == 200) {
				t.Errorf("%s %s: called %v", test.field, test.value, called)
			}
		}
	})
}

// The header and the principal of a modern request are values of its context.
func TestModernContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		responder := newResponder(&session.Options{Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			header, _ := transport.HTTP(ctx)
			got = append(got, session.Principal(ctx), http.Header(header).Get("Mcp-Param-Region"), string(req.Revision()))
			return session.Raw("{}"), nil
		}})
		defer responder.Close()
		s := serveOver(t, streamable.HandlerOptions{Responder: responder, Access: streamable.Access{Principal: func(r *http.Request) (string, error) {
			return r.Header.Get("Authorization"), nil
		}}}, newTools(), plain)
		s.text(modernCall(1, "a"), callHeader("a", "Authorization", "ann", "Mcp-Param-Region", "north")...)
		if diff := cmp.Diff([]string{"ann", "north", "2026-07-28"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
