package streamable_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// byToken returns the Authorization field as the principal.
func byToken(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil }

// A modern message may have Limits.Message bytes. Without the header of a modern revision or of a
// session, the limit is Limits.Initialize.
func TestSizeOfModernMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveModern(t, streamable.HandlerOptions{Limits: streamable.Limits{Message: 100 << 10, Initialize: 10 << 10}})
		long := func(n int) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"principal","arguments":{"long":%q},%s}}`,
				strings.Repeat("x", n), metaOf("2026-07-28", 1))
		}
		for _, test := range []struct {
			n      int
			header []string
			want   int
		}{
			{9 << 10, callHeader("principal"), 200},
			{99 << 10, callHeader("principal"), 200},
			{100 << 10, callHeader("principal"), 413},
			{9 << 10, callHeader("principal", "MCP-Protocol-Version", "-"), 400},
			{10 << 10, callHeader("principal", "MCP-Protocol-Version", "-"), 413},
			{10 << 10, callHeader("principal", "MCP-Protocol-Version", "2025-11-25"), 413},
		} {
			response := s.do("POST", long(test.n), test.header...)
			io.Copy(io.Discard, response.Body)
			if response.StatusCode != test.want {
				t.Errorf("%d bytes with %q: %d", test.n, test.header, response.StatusCode)
			}
		}
		if got := s.status("POST", strings.Replace(initialize, `"clientInfo"`, `"x":"`+strings.Repeat("x", 10<<10)+`","clientInfo"`, 1), "MCP-Protocol-Version", "2026-07-28"); got != 413 {
			t.Errorf("a long initialize: %d", got)
		}
		time.Sleep(time.Second) // net/http closes connections of rejected bodies after a moment
	})
}

// The messages of a principal that are being received or served have four times Limits.Message,
// apart from Limits.Initialize bytes of each. Other principals are not affected.
func TestServerLimitsBodiesOfModernRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const max, free = 200 << 10, 10 << 10
		release, started := make(chan struct{}), make(chan struct{}, 10)
		s, _ := respond(t, streamable.HandlerOptions{Limits: streamable.Limits{Message: max, Initialize: free}, Timeouts: streamable.Timeouts{Read: time.Minute}, Access: streamable.Access{Principal: byToken}}, plain,
			func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				if req.Method == "custom/wait" {
					started <- struct{}{}
					<-release
				}
				return session.Raw("{}"), nil
			})
		blocked, end := io.Pipe() // blocks the bodies after their text
		status := make(chan int, 10)
		post := func(name, method string, size int, more io.Reader) {
			text := modernRequest(1, method)
			body := io.MultiReader(strings.NewReader(text+strings.Repeat(" ", size-len(text))), more)
			r, err := http.NewRequestWithContext(t.Context(), "POST", "http://localhost/mcp", body)
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{
				"Content-Type": {"application/json"}, "Authorization": {name}, "Mcp-Method": {method}, "Mcp-Protocol-Version": {"2026-07-28"},
			}
			go func() { // ends with the answer
				response, err := s.http.Do(r)
				if err != nil {
					t.Error(err)
					status <- 0
					return
				}
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
				status <- response.StatusCode
			}()
		}
		nothing := http.NoBody // which all requests may share
		for range 2 {
			post("ann", "custom/wait", 160<<10, nothing) // being served
			<-started
			post("ann", "custom/wait", 160<<10, blocked) // being received
			synctest.Wait()
		}
		post("ann", "custom/any", 190<<10, nothing) // 200 KiB are free
		if got := <-status; got != 200 {
			t.Errorf("a body that fits: %d", got)
		}
		post("ann", "custom/wait", 190<<10, nothing)
		<-started
		post("ann", "custom/any", 100<<10, nothing)
		if got := <-status; got != 429 {
			t.Errorf("a body without room: %d", got)
		}
		post("ann", "custom/any", free, nothing)
		if got := <-status; got != 200 {
			t.Errorf("a short body: %d", got)
		}
		post("ben", "custom/any", 190<<10, nothing)
		if got := <-status; got != 200 {
			t.Errorf("another principal: %d", got)
		}
		end.Close()
		for range 2 {
			<-started
		}
		close(release)
		for range 5 {
			if got := <-status; got != 200 {
				t.Errorf("a blocked body: %d", got)
			}
		}
		for range 4 {
			post("ann", "custom/any", 190<<10, nothing)
			if got := <-status; got != 200 {
				t.Errorf("afterwards: %d", got)
			}
		}
		time.Sleep(time.Second) // net/http closes connections of rejected bodies after a moment
	})
}

// A principal that does not read long answers is not sent further ones. Short answers, and those of
// other principals, are sent.
func TestServerLimitsUnreadModernAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := respond(t, streamable.HandlerOptions{Limits: streamable.Limits{Message: 50 << 10, Initialize: 10 << 10}, Timeouts: streamable.Timeouts{Stall: time.Minute}, Access: streamable.Access{Principal: byToken}}, plain,
			func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				size := 5 << 10
				if strings.HasPrefix(req.Method, "custom/long") {
					size = 100 << 10
				}
				if req.Method == "custom/longstream" {
					peer, _ := session.PeerFrom(ctx)
					if err := peer.Notify(ctx, "custom/event", nil); err != nil {
						return nil, err
					}
				}
				return session.Raw(`{"text":"` + strings.Repeat("x", size) + `"}`), nil
			})
		get := func(name, method string) (int, string) {
			response := s.do("POST", modernRequest(1, method), methodHeader(method, "Authorization", name)...)
			text, err := io.ReadAll(response.Body)
			if err != nil {
				t.Error(err)
			}
			return response.StatusCode, string(text[:min(len(text), 120)])
		}
		for range 2 {
			s.do("POST", modernRequest(1, "custom/long"), methodHeader("custom/long", "Authorization", "ann")...) // never read
			synctest.Wait()
		}
		if status, text := get("ann", "custom/long"); status != 503 || !strings.Contains(text, `"id":1,"error":{"code":-31050`) {
			t.Errorf("a long answer: %d %s", status, text)
		}
		if status, text := get("ann", "custom/longstream"); status != 200 || !strings.Contains(text, `"id":1,"error":{"code":-31050`) {
			t.Errorf("a long answer on a stream: %d %s", status, text)
		}
		if status, text := get("ann", "custom/short"); status != 200 || !strings.Contains(text, `"result"`) {
			t.Errorf("a short answer: %d %s", status, text)
		}
		if status, text := get("ben", "custom/long"); status != 200 || !strings.Contains(text, `"result"`) {
			t.Errorf("another principal: %d %s", status, text)
		}
		time.Sleep(2 * time.Minute) // the connections are closed after Timeouts.Stall
		if status, text := get("ann", "custom/long"); status != 200 || !strings.Contains(text, `"result"`) {
			t.Errorf("afterwards: %d %s", status, text)
		}
	})
}

// A request is served only if its header agrees with its message.
func FuzzModernHeader(f *testing.F) {
	type served struct{ method, name string }
	var last []served
	responder := newResponder(&session.Options{Handler: func(_ context.Context, req *session.Request) (codec.Encoder, error) {
		name, err := "", error(nil)
		switch req.Method { // as the handlers of a server decode them
		case mcp.MethodToolsCall:
			var p mcp.CallToolRequestParams
			err = codec.Unmarshal(req.Params, &p)
			name = p.Name
		case mcp.MethodPromptsGet:
			var p mcp.GetPromptRequestParams
			err = codec.Unmarshal(req.Params, &p)
			name = p.Name
		case mcp.MethodResourcesRead:
			var p mcp.ReadResourceRequestParams
			err = codec.Unmarshal(req.Params, &p)
			name = p.URI
		}
		if err != nil {
			return nil, err
		}
		last = append(last, served{req.Method, name})
		return nil, errors.New("served")
	}})
	h := streamable.NewHandler(func(*http.Request, transport.Conn) {}, streamable.HandlerOptions{Responder: responder})
	f.Cleanup(func() {
		h.Close()
		responder.Close()
	})
	complete := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	for _, params := range []string{`{"name":"a",` + complete + `}`, `{"uri":"a",` + complete + `}`, `{"n\u0061me":"a",` + complete + `}`, `{"name":"b","name":"a",` + complete + `}`, `{}`} {
		f.Add("2026-07-28", "tools/call", "a", "tools/call", params)
		f.Add("2026-07-28", " tools/call ", "=?base64?YQ==?=", "tools/call", params)
		f.Add("2026-07-28", "resources/read", "a", "resources/read", params)
		f.Add("2026-07-28", "tools/list", "a", "tools/list", params)
		f.Add("2025-11-25", "tools/call", "=?base64?Y?=", "tools/call", params)
	}
	f.Fuzz(func(t *testing.T, version, method, name, body, params string) {
		header := http.Header{"Content-Type": {"application/json"}, "Mcp-Protocol-Version": {version}, "Mcp-Method": {method}, "Mcp-Name": {name}}
		text, err := codec.Marshal(codec.StringScalar(body))
		if err != nil {
			return
		}
		last = nil
		w := modernRecord(h, `{"jsonrpc":"2.0","id":1,"method":`+string(text)+`,"params":`+params+`}`, header)
		if len(last) == 0 {
			return
		}
		got := last[0]
		if strings.Trim(version, " \t") != "2026-07-28" || strings.Trim(method, " \t") != got.method || got.method != body {
			t.Errorf("%q is served with %q: %d %s", got, header, w.Code, w.Body)
		}
		switch got.method {
		case "tools/call", "prompts/get", "resources/read":
			if decoded, err := modern.DecodeHeader(name); err != nil || decoded != got.name {
				t.Errorf("%q is served with %q", got, header)
			}
		}
	})
}
