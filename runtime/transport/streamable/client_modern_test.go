package streamable_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// modernServer is a fake server of revision 2026-07-28 in a synctest bubble.
type modernServer struct {
	t      *testing.T
	client *http.Client
	// serve handles a request other than server/discover, or all of them if it returns true.
	serve    func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) (done bool)
	discover func(w http.ResponseWriter, m jsonrpc.Message) // nil means a DiscoverResult

	mu  sync.Mutex
	log []string // method of each HTTP request and of its message
}

func newModernServer(t *testing.T) *modernServer {
	f := &modernServer{t: t}
	listener, client := pipes(t)
	f.client = client
	server := &http.Server{Handler: f}
	done := make(chan struct{})
	go func() { // ends when the server is closed
		defer close(done)
		server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Close()
		client.CloseIdleConnections()
		<-done
		synctest.Wait()
	})
	return f
}

const discoverResult = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{},"prompts":{}},"ttlMs":0,"cacheScope":"public"}`

func (f *modernServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	m, _ := jsonrpc.ParseReceived(text)
	f.mu.Lock()
	f.log = append(f.log, strings.TrimSpace(r.Method+" "+m.Method))
	f.mu.Unlock()
	switch {
	case m.Method == mcp.MethodServerDiscover && f.discover != nil:
		f.discover(w, m)
	case f.serve != nil && f.serve(w, r, m):
	case m.Method == mcp.MethodServerDiscover:
		f.answer(w, m, discoverResult)
	case m.Method == mcp.MethodInitialize:
		f.answer(w, m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}`)
	case m.Kind == jsonrpc.KindNotification:
		w.WriteHeader(http.StatusAccepted)
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	default:
		f.answer(w, m, `{"resultType":"complete","content":[],"tools":[],"contents":[],"messages":[],"ttlMs":0,"cacheScope":"private"}`)
	}
}

func (f *modernServer) answer(w http.ResponseWriter, m jsonrpc.Message, result string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Mcp-Session-Id", "ignored")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// requests returns the logged requests.
func (f *modernServer) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.log...)
}

// connect connects to the server.
func (f *modernServer) connect(revisions ...mcp.Revision) (*session.Session, error) {
	if len(revisions) == 0 {
		revisions = append(session.ModernRevisions(), session.Revisions()...)
	}
	conn, err := streamable.Dial("http://server/mcp", streamable.ClientOptions{Options: httpclient.Options{HTTP: f.client, Retries: httpclient.Retries{Max: -1}}})
	if err != nil {
		return nil, err
	}
	params := &mcp.InitializeRequestParams{ClientInfo: mcp.Implementation{Name: "c", Version: "1"}}
	return session.Connect(f.t.Context(), conn, params, &session.Options{Revisions: revisions})
}

// open is connect that must succeed.
func (f *modernServer) open() *session.Session {
	f.t.Helper()
	s, err := f.connect()
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { s.Close() })
	return s
}

// Proves M-HTTP-04, M-HTTP-05, M-HTTP-11, M-HDR-01, M-HDR-02, M-HDR-06, M-HDR-10.
func TestModernClientPostsEachRequestWithHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newModernServer(t)
		headers := map[string]string{} // by message
		f.serve = func(_ http.ResponseWriter, r *http.Request, m jsonrpc.Message) bool {
			h := r.Header
			headers[m.Method+" "+h.Get("Mcp-Name")] = h.Get("Mcp-Protocol-Version") + " " + h.Get("Mcp-Method")
			if h.Get("Mcp-Session-Id") != "" || h.Get("Accept") != "application/json, text/event-stream" {
				t.Errorf("header %v", h)
			}
			return false
		}
		s := f.open()
		peer := mcp.ToServer{Caller: s}
		calls := []error{
			second(peer.ListTools(t.Context(), nil)),
			second(peer.CallTool(t.Context(), &mcp.CallToolRequestParams{Name: "wetter in Köln"})),
			second(peer.CallTool(t.Context(), &mcp.CallToolRequestParams{Name: "=?base64?x?="})),
			second(peer.GetPrompt(t.Context(), &mcp.GetPromptRequestParams{Name: "p q"})),
			second(peer.ReadResource(t.Context(), &mcp.ReadResourceRequestParams{URI: "file:///a"})),
			s.Notify(t.Context(), "notifications/own", nil),
		}
		if err := errors.Join(calls...); err != nil {
			t.Error(err)
		}
		s.Close()
		want := map[string]string{
			"server/discover ": "2026-07-28 server/discover",
			"tools/list ":      "2026-07-28 tools/list",
			"tools/call =?base64?d2V0dGVyIGluIEvDtmxu?=": "2026-07-28 tools/call",
			"tools/call =?base64?PT9iYXNlNjQ/eD89?=":     "2026-07-28 tools/call",
			"prompts/get p q":                            "2026-07-28 prompts/get",
			"resources/read file:///a":                   "2026-07-28 resources/read",
			"notifications/own ":                         "2026-07-28 notifications/own",
		}
		if diff := cmp.Diff(want, headers); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for _, request := range f.requests() {
			if !strings.HasPrefix(request, "POST ") {
				t.Errorf("the client has sent %s", request)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

// Proves M-HTTP-06, M-SSE-04, M-RPC-12.
func TestModernClientReadsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newModernServer(t)
		f.serve = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) bool {
			if m.Method != mcp.MethodToolsCall {
				return false
			}
			token, _ := codec.Member(m.Params, "_meta")
			token, _ = codec.Member(token, "progressToken")
			send := stream(w)
			send(":\r\n\r\n: keep-alive\n\n")
			send("data: %s\n\n", `{"jsonrpc":"2.0","id":1,"method":"ping"}`) // not allowed: dropped
			send("data: %s\n\n", fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, token))
			send("data: %s\n\n", response(m, `{"resultType":"complete","content":[]}`))
			return true
		}
		s := f.open()
		var reports int
		peer := mcp.ToServer{Caller: s.With(session.OnProgress(func(session.Progress) { reports++ }))}
		if _, err := peer.CallTool(t.Context(), &mcp.CallToolRequestParams{Name: "t"}); err != nil || reports != 1 {
			t.Errorf("%d reports, error %v", reports, err)
		}
		check(t, "requests", []string{"POST server/discover", "POST tools/call"}, f.requests())
	})
}

func TestModernClientCancelsByClosingTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newModernServer(t)
		cancelled := make(chan bool)
		f.serve = func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) bool {
			if m.Method != mcp.MethodToolsCall {
				return false
			}
			stream(w)
			<-r.Context().Done()
			close(cancelled)
			return true
		}
		s := f.open()
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			failed <- second(mcp.ToServer{Caller: s}.CallTool(ctx, &mcp.CallToolRequestParams{Name: "t"}))
		}()
		synctest.Wait()
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		<-cancelled
		synctest.Wait()
		check(t, "requests", []string{"POST server/discover", "POST tools/call"}, f.requests())
	})
}

// Proves M-SSE-05.
func TestModernClientDoesNotRepeatRequestOfBrokenStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newModernServer(t)
		ids := map[string]bool{}
		f.serve = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) bool {
			if m.Method != mcp.MethodToolsCall || ids[m.ID.String()] {
				return false
			}
			ids[m.ID.String()] = true
			stream(w)("id: 1\ndata: %s\n\n", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`)
			return true
		}
		s := f.open()
		for range 2 {
			_, err := mcp.ToServer{Caller: s}.CallTool(t.Context(), &mcp.CallToolRequestParams{Name: "t"})
			if lost, ok := errors.AsType[*transport.DeliveryError](err); !ok || !lost.Taken || !errors.Is(err, httpclient.ErrCut) {
				t.Error(err)
			}
		}
		check(t, "requests", []string{"POST server/discover", "POST tools/call", "POST tools/call"}, f.requests())
	})
}

// Proves M-ERA-13, M-ERA-16.
func TestClientFindsRevisionsOverHTTP(t *testing.T) {
	handshake := []string{"POST initialize", "POST notifications/initialized", "GET", "DELETE"}
	rpc := func(code int, data string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"x"%s}}`, code, data)
	}
	unsupported := rpc(-32022, `,"data":{"requested":"2026-07-28","supported":["2030-01-01"]}`)
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   []string // requests after server/discover
		fails  bool
	}{
		{"not found", 404, "", handshake, false},
		{"page", 400, "<html>", handshake, false},
		{"own code", 400, rpc(-32000, ""), handshake, false},
		{"error without id", 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no session"}}`, handshake, false},
		{"method not found", 200, rpc(-32601, ""), handshake, false},
		{"method not allowed", 405, "", handshake, false},
		{"server error", 500, "oops", handshake, false},
		{"page with status 200", 200, "<html>", handshake, false},
		{"unsupported version", 400, unsupported, nil, true},
		{"unsupported version without id", 400, strings.Replace(unsupported, `"id":1,`, "", 1), nil, true},
		{"header mismatch", 400, rpc(-32020, ""), nil, true},
		{"missing capability", 400, rpc(-32021, ""), nil, true},
		{"unauthorized", 401, "", nil, true},
		{"unauthorized with an error", 401, rpc(-32000, ""), nil, true},
		{"forbidden", 403, "", nil, true},
		{"unavailable", 503, "", nil, true},
		{"too many requests", 429, "", nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newModernServer(t)
				f.discover = func(w http.ResponseWriter, m jsonrpc.Message) {
					if strings.HasPrefix(c.body, "{") {
						w.Header().Set("Content-Type", "application/json")
					}
					w.WriteHeader(c.status)
					io.WriteString(w, c.body)
				}
				s, err := f.connect()
				if (err != nil) != c.fails {
					t.Error(err)
				}
				if status, ok := errors.AsType[*httpclient.StatusError](err); (c.status == 401 || c.status == 403) && (!ok || status.Code != c.status) {
					t.Error(err)
				}
				if s != nil {
					s.Close()
				}
				check(t, "requests", append([]string{"POST server/discover"}, c.want...), f.requests())
			})
		})
	}
}

// Proves M-ERA-16.
func TestClientSendsNoGetAfterErrorOfStreamableServer(t *testing.T) {
	for _, c := range []struct {
		name string
		body string
		want []string
	}{
		{"method not found", `{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"x"}}`, []string{"POST server/discover", "POST initialize"}},
		{"empty", ``, []string{"POST server/discover", "POST initialize", "GET"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newModernServer(t)
				reject := func(w http.ResponseWriter) {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusNotFound)
					io.WriteString(w, c.body)
				}
				f.discover = func(w http.ResponseWriter, m jsonrpc.Message) { reject(w) }
				f.serve = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) bool {
					reject(w)
					return true
				}
				if _, err := f.connect(); err == nil {
					t.Error("connected")
				}
				check(t, "requests", c.want, f.requests())
			})
		})
	}
}

func TestModernClientReportsMissingAuthorization(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newModernServer(t)
		f.serve = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) bool {
			if m.Method != mcp.MethodToolsCall {
				return false
			}
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		s := f.open()
		_, err := mcp.ToServer{Caller: s}.CallTool(t.Context(), &mcp.CallToolRequestParams{Name: "t"})
		if status, ok := errors.AsType[*httpclient.StatusError](err); !ok || status.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Error(err)
		}
	})
}
