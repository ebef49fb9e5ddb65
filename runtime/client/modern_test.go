package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

// fake is a server of revision 2026-07-28 over HTTP, in a synctest bubble.
type fake struct {
	t        *testing.T
	client   *http.Client
	discover string // the result of server/discover
	// answer returns the result of a request, or an error that is sent instead.
	answer func(r *http.Request, m jsonrpc.Message) (result string, err *jsonrpc.Error)
	// listen serves subscriptions/listen; it returns when the stream ends.
	listen func(ctx context.Context, m jsonrpc.Message, send func(text string))
	// reject may respond to a request in place of listen and answer. It returns true if it has.
	reject func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) bool

	mu  sync.Mutex
	log []string // the messages
}

type fakeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *fakeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *fakeListener) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

func (l *fakeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func newFake(t *testing.T) *fake {
	l := &fakeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	f := &fake{t: t, discover: `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},` +
		`"resources":{"subscribe":true,"listChanged":true},"prompts":{},"logging":{}},"ttlMs":0,"cacheScope":"public"}`}
	f.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		x, y := net.Pipe()
		select {
		case l.conns <- y:
			return x, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}}}
	server := &http.Server{Handler: f}
	done := make(chan struct{})
	go func() { // ends when the server is closed
		defer close(done)
		server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Close()
		f.client.CloseIdleConnections()
		<-done
		synctest.Wait()
	})
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	m, _ := jsonrpc.ParseReceived(text)
	f.mu.Lock()
	f.log = append(f.log, m.Method)
	f.mu.Unlock()
	if f.reject != nil && f.reject(w, r, m) {
		return
	}
	if m.Method == mcp.MethodSubscriptionsListen && f.listen != nil {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		f.listen(r.Context(), m, func(text string) {
			fmt.Fprintf(w, "data: %s\n\n", strings.ReplaceAll(text, "ID", m.ID.String()))
			w.(http.Flusher).Flush()
		})
		return
	}
	result, failed := f.discover, (*jsonrpc.Error)(nil)
	if m.Method != mcp.MethodServerDiscover {
		result, failed = f.answer(r, m)
	}
	w.Header().Set("Content-Type", "application/json")
	if failed != nil {
		answer := jsonrpc.NewErrorResponse(m.ID, failed)
		body, _ := answer.AppendJSON(nil)
		w.WriteHeader(http.StatusBadRequest)
		w.Write(body)
		return
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// requests returns how many requests of a method have arrived.
func (f *fake) requests(method string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.log {
		if m == method {
			n++
		}
	}
	return n
}

// dial connects a client.
func (f *fake) dial(o client.Options) *client.Client {
	f.t.Helper()
	o.HTTP.Options = httpclient.Options{HTTP: f.client, Retries: httpclient.Retries{Max: -1}, Prepare: o.HTTP.Prepare, Auth: o.HTTP.Auth}
	if o.Session.Revisions == nil {
		o.Session.Revisions = append(session.ModernRevisions(), session.Revisions()...)
	}
	c, err := client.Dial(f.t.Context(), "http://server/mcp", &o)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { c.Close() })
	return c
}

// param returns a member of the params of a message as text.
func param(m jsonrpc.Message, name string) string {
	raw, _ := codec.Member(m.Params, name)
	return string(raw)
}

// Proves M-MRTR-17, M-MRTR-18, M-MRTR-19, M-MRTR-20, M-MRTR-21, M-SAMP-01, M-ELIC-01, M-ROOT-01.
func TestCallRespondsToInputRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		var seen []string
		ids := map[jsonrpc.ID]bool{}
		f.answer = func(_ *http.Request, m jsonrpc.Message) (string, *jsonrpc.Error) {
			ids[m.ID] = true
			meta, _ := codec.Member(m.Params, "_meta")
			if declared, _ := codec.Member(meta, "io.modelcontextprotocol/clientCapabilities"); string(declared) != `{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}},"roots":{},"sampling":{"tools":{}}}` {
				t.Errorf("the client declares %s", declared)
			}
			if param(m, "name") == `"other"` {
				if param(m, "requestState")+param(m, "inputResponses") != "" {
					t.Error("another request carries the state")
				}
				return `{"resultType":"complete","content":[]}`, nil
			}
			seen = append(seen, param(m, "arguments")+" "+param(m, "requestState")+" "+param(m, "inputResponses"))
			switch len(seen) {
			case 1:
				return `{"resultType":"input_required","requestState":"a\u00e4\/b","inputRequests":{
					"name":{"method":"elicitation/create","params":{"message":"Name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}},
					"roots":{"method":"roots/list"},
					"text":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}}}`, nil
			case 2:
				return `{"resultType":"input_required","requestState":"second"}`, nil
			case 3:
				return `{"resultType":"input_required","inputRequests":{"again":{"method":"roots/list","params":{}}}}`, nil
			}
			return `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`, nil
		}
		roots := new(client.Roots)
		var c *client.Client
		together := make(chan bool) // the handlers run at the same time
		c = f.dial(client.Options{
			Input: client.Input{
				Roots: roots,
				Fill: func(ctx context.Context, r *client.FormRequest) (*mcp.ElicitResult, error) {
					together <- true
					if _, err := c.CallTool(context.Background(), "other", nil); err != nil {
						t.Error(err)
					}
					return client.Accept(nil)
				},
				Sample: func(context.Context, *client.SampleRequest) (*mcp.CreateMessageResult, error) {
					<-together
					return client.Say("m", "hi"), nil
				},
				SampleTools: true,
			},
		})
		result, err := c.CallTool(t.Context(), "ask", map[string]any{"x": 1})
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := client.Text(result); text != "done" {
			t.Errorf("result %q", text)
		}
		want := []string{
			`{"x":1}  `,
			`{"x":1} "a\u00e4\/b" {"name":{"action":"accept","content":{}},"roots":{"roots":[]},"text":{"content":{"type":"text","text":"hi"},"model":"m","role":"assistant","stopReason":"endTurn"}}`,
			`{"x":1} "second" `,
			`{"x":1}  {"again":{"roots":[]}}`,
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if len(ids) != 5 {
			t.Errorf("%d ids in 5 requests", len(ids))
		}
		before := len(f.log)
		if err := roots.Set(t.Context(), mcp.Root{URI: "file:///a"}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if len(f.log) > before {
			t.Errorf("after a change of the roots, the client sends %q", f.log[before:])
		}
	})
}

// Proves M-ELIC-04.
func TestModernClientOpensNoURLItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const page = "http://localhost/login?id=7"
		f := newFake(t)
		var responses []string
		f.answer = func(_ *http.Request, m jsonrpc.Message) (string, *jsonrpc.Error) {
			if response := param(m, "inputResponses"); response != "" {
				responses = append(responses, response)
				return `{"resultType":"complete","content":[]}`, nil
			}
			return `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"url","message":"Log in.","url":"` + page + `"}}}}`, nil
		}
		f.client.Transport = &visits{t, f.client.Transport}
		for _, action := range []mcp.ElicitAction{"accept", "decline", "cancel"} {
			asked, agreed := make(chan string), make(chan bool)
			c := f.dial(client.Options{Input: client.Input{OpenURL: func(_ context.Context, r *client.URLRequest) (mcp.ElicitAction, error) {
				asked <- r.URL
				<-agreed
				return action, nil
			}}})
			failed := make(chan error, 1)
			go func() { _, err := c.CallTool(t.Context(), "t", nil); failed <- err }()
			if got := <-asked; got != page {
				t.Errorf("OpenURL received %s", got)
			}
			synctest.Wait()
			if len(responses) > 0 {
				t.Errorf("before the user agrees, the client sends %q", responses)
			}
			agreed <- true
			if err := <-failed; err != nil {
				t.Error(err)
			}
			if want := []string{`{"a":{"action":"` + string(action) + `"}}`}; !slices.Equal(responses, want) {
				t.Errorf("responses %q, want %q", responses, want)
			}
			responses = nil
		}
	})
}

// visits is a transport that rejects requests to hosts other than the server.
type visits struct {
	t     *testing.T
	inner http.RoundTripper
}

func (v *visits) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != "server" {
		v.t.Errorf("the client has sent a request to %s", r.URL)
	}
	return v.inner.RoundTrip(r)
}

func TestInputFailures(t *testing.T) {
	refused := errors.New("refused")
	ask := func(method string) string {
		return `{"resultType":"input_required","inputRequests":{"a":{"method":"` + method + `","params":{"message":"?","requestedSchema":{"type":"object","properties":{}},"messages":[],"maxTokens":1}}}}`
	}
	for _, c := range []struct {
		name   string
		result string
		check  func(error) bool
		calls  int
	}{
		{"handler fails", ask("elicitation/create"), func(err error) bool {
			e, ok := errors.AsType[*client.InputError](err)
			return ok && e.Method == "elicitation/create" && errors.Is(err, refused)
		}, 1},
		{"not declared", ask("sampling/createMessage"), func(err error) bool {
			e, ok := errors.AsType[*client.InputError](err)
			return ok && e.Method == "sampling/createMessage"
		}, 1},
		{"unknown method", ask("tools/list"), func(err error) bool { _, ok := errors.AsType[*client.InputError](err); return ok }, 1},
		{"too many rounds", `{"resultType":"input_required","requestState":"x"}`, func(err error) bool {
			e, ok := errors.AsType[*client.InputError](err)
			return ok && e.Method == "" && strings.Contains(e.Error(), "limit of")
		}, 4},
		{"unknown type of result", `{"resultType":"bogus"}`, func(err error) bool { return strings.Contains(err.Error(), `"bogus"`) }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				f.answer = func(*http.Request, jsonrpc.Message) (string, *jsonrpc.Error) { return c.result, nil }
				k := f.dial(client.Options{Limits: client.Limits{InputRounds: 3}, Input: client.Input{Fill: func(context.Context, *client.FormRequest) (*mcp.ElicitResult, error) { return nil, refused }}})
				if _, err := k.CallTool(t.Context(), "ask", nil); err == nil || !c.check(err) {
					t.Error(err)
				}
				if n := f.requests(mcp.MethodToolsCall); n != c.calls {
					t.Errorf("%d calls, want %d", n, c.calls)
				}
			})
		})
	}
}

func TestInputRequestsCountTowardsTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.answer = func(*http.Request, jsonrpc.Message) (string, *jsonrpc.Error) {
			return `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}}}`, nil
		}
		c := f.dial(client.Options{Limits: client.Limits{InputRequests: 2}, Input: client.Input{Fill: func(context.Context, *client.FormRequest) (*mcp.ElicitResult, error) { return client.Accept(nil) }}})
		if _, err := c.GetPrompt(t.Context(), "p", nil); jsonrpc.CodeOf(err) != session.CodeOverloaded {
			t.Error(err)
		}
	})
}

func TestTimeoutCoversAllRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.answer = func(r *http.Request, _ jsonrpc.Message) (string, *jsonrpc.Error) {
			select {
			case <-time.After(time.Second):
			case <-r.Context().Done():
			}
			return `{"resultType":"input_required","requestState":"x"}`, nil
		}
		c := f.dial(client.Options{})
		_, err := c.CallTool(t.Context(), "slow", nil, client.Timeout(2500*time.Millisecond))
		if !errors.Is(err, session.ErrTimeout) {
			t.Error(err)
		}
	})
}

// Proves M-HDR-11, M-HDR-12, M-HDR-13, M-HDR-14, M-HDR-22.
func TestArgumentsAreMirroredInHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		schema := `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"},` +
			`"on":{"type":"boolean","x-mcp-header":"On"},"plain":{"type":"string"},"in":{"type":"object","properties":{"deep":{"type":"string","x-mcp-header":"deep-er"}}}}}`
		var headers []string
		f.answer = func(r *http.Request, m jsonrpc.Message) (string, *jsonrpc.Error) {
			if m.Method == mcp.MethodToolsList {
				return `{"resultType":"complete","ttlMs":0,"cacheScope":"public","tools":[{"name":"t","inputSchema":` + schema + `}]}`, nil
			}
			var got []string
			for name, values := range r.Header {
				if strings.HasPrefix(name, "Mcp-Param-") {
					got = append(got, name+"="+values[0])
				}
			}
			slices.Sort(got)
			headers = append(headers, strings.Join(got, " "))
			if len(got) == 0 && param(m, "arguments") != "" {
				return "", &jsonrpc.Error{Code: -32020, Message: "header missing"}
			}
			return `{"resultType":"complete","content":[]}`, nil
		}
		c := f.dial(client.Options{})
		for _, arguments := range []string{
			`{"region":"us-west1","n":42,"on":true,"plain":"x","in":{"deep":"down"}}`, // unknown tool: rejected, then sent again
			`{"region":"Köln","n":-7,"on":false}`,
			`{"region":"","n":42.0}`,
			`{"region":" padded ","n":null,"in":{"deep":"us west"}}`,
			`{"region":"a\r\nb"}`,
		} {
			if _, err := c.CallTool(t.Context(), "t", json.RawMessage(arguments)); err != nil {
				t.Errorf("%s: %v", arguments, err)
			}
		}
		want := []string{
			"",
			"Mcp-Param-Deep-Er=down Mcp-Param-N=42 Mcp-Param-On=true Mcp-Param-Region=us-west1",
			"Mcp-Param-N=-7 Mcp-Param-On=false Mcp-Param-Region==?base64?S8O2bG4=?=",
			"Mcp-Param-N=42 Mcp-Param-Region=",
			"Mcp-Param-Deep-Er=us west Mcp-Param-Region==?base64?IHBhZGRlZCA=?=",
			"Mcp-Param-Region==?base64?YQ0KYg==?=",
		}
		if diff := cmp.Diff(want, headers); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		// The tool changes: the client fetches the list again.
		schema = strings.Replace(schema, `"Region"`, `"Area"`, 1)
		headers = nil
		inner := f.answer
		f.answer = func(r *http.Request, m jsonrpc.Message) (string, *jsonrpc.Error) {
			if m.Method == mcp.MethodToolsCall && r.Header.Get("Mcp-Param-Area") == "" {
				return "", &jsonrpc.Error{Code: -32020, Message: "Mcp-Param-Area missing"}
			}
			return inner(r, m)
		}
		if _, err := c.CallTool(t.Context(), "t", map[string]any{"region": "x"}); err != nil || len(headers) != 1 || headers[0] != "Mcp-Param-Area=x" {
			t.Errorf("headers %q, error %v", headers, err)
		}
		f.answer = func(_ *http.Request, m jsonrpc.Message) (string, *jsonrpc.Error) {
			if m.Method == mcp.MethodToolsList {
				return inner(nil, m)
			}
			return "", &jsonrpc.Error{Code: -32020, Message: "never right"}
		}
		calls := f.requests(mcp.MethodToolsCall)
		if _, err := c.CallTool(t.Context(), "t", nil); !errors.Is(err, modern.ErrHeaders) {
			t.Error(err)
		}
		if n := f.requests(mcp.MethodToolsCall) - calls; n != 2 {
			t.Errorf("%d calls", n)
		}
	})
}

// Proves M-HDR-21.
func TestToolsWithInvalidHeadersAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		valid := `{"type":"object","properties":{"x-mcp-header":{"type":"string"},"a":{"type":"string","x-mcp-header":"A","default":{"x-mcp-header":""}}}}`
		invalid := []string{
			`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":""}}}`,
			`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"a b"}}}`,
			`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":1}}}`,
			`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"é"}}}`,
			`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"H"},"b":{"type":"string","x-mcp-header":"h"}}}`,
			`{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"}}}`,
			`{"type":"object","properties":{"a":{"type":"array","x-mcp-header":"A"}}}`,
			`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}}`,
			`{"type":"object","anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}`,
			`{"type":"object","$defs":{"a":{"type":"string","x-mcp-header":"A"}}}`,
			`{"type":"object","x-mcp-header":"A"}`,
		}
		f.answer = func(*http.Request, jsonrpc.Message) (string, *jsonrpc.Error) {
			tools := `{"name":"valid","inputSchema":` + valid + `}`
			for i, schema := range invalid {
				tools += fmt.Sprintf(`,{"name":"invalid%d","inputSchema":%s}`, i, schema)
			}
			return `{"resultType":"complete","ttlMs":0,"cacheScope":"public","tools":[` + tools + `]}`, nil
		}
		var names []string
		for tool, err := range f.dial(client.Options{}).Tools(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, tool.Name)
		}
		if !slices.Equal(names, []string{"valid"}) {
			t.Errorf("tools %q", names)
		}
	})
}

// Proves M-CACHE-07, M-CACHE-10, M-CACHE-11, M-CACHE-12, M-CACHE-13.
func TestResultsAreCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		ttl := `"ttlMs":60000,`
		f.answer = func(_ *http.Request, m jsonrpc.Message) (string, *jsonrpc.Error) {
			return `{"resultType":"complete","contents":[],"tools":[],"prompts":[],` + ttl + `"cacheScope":"private"}`, nil
		}
		updated := make(chan string, 10)
		f.listen = func(ctx context.Context, m jsonrpc.Message, send func(string)) {
			send(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID},"notifications":{"resourceSubscriptions":["a:1"]}}}`)
			for {
				select {
				case text := <-updated:
					send(text)
				case <-ctx.Done():
					return
				}
			}
		}
		c := f.dial(client.Options{})
		read := func(uri string) int {
			before := f.requests(mcp.MethodResourcesRead)
			if _, err := c.ReadResource(t.Context(), uri); err != nil {
				t.Error(err)
			}
			return f.requests(mcp.MethodResourcesRead) - before
		}
		for i, want := range []int{1, 0, 0} {
			if n := read("a:1"); n != want {
				t.Errorf("read %d: %d requests, want %d", i, n, want)
			}
		}
		if read("a:2") != 1 {
			t.Error("another resource came from the cache")
		}
		time.Sleep(59 * time.Second)
		if read("a:1") != 0 {
			t.Error("the result was not fresh")
		}
		time.Sleep(time.Second)
		if f.requests(mcp.MethodResourcesRead) != 2 {
			t.Error("the client polls")
		}
		if first, second := read("a:1"), read("a:1"); first != 1 || second != 0 {
			t.Error("the result was not fetched again after it expired")
		}
		if err := c.Subscribe(t.Context(), "a:1"); err != nil {
			t.Fatal(err)
		}
		read("a:2")
		updated <- `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:1","_meta":{"io.modelcontextprotocol/subscriptionId":ID}}}`
		synctest.Wait()
		if first, second := read("a:1"), read("a:2"); first != 1 || second != 0 {
			t.Errorf("after the notification: %d requests for the resource that changed, %d for the other", first, second)
		}
		for range c.Tools(t.Context()) {
			t.Error("there is a tool")
		}
		for prompt, err := range c.Prompts(t.Context()) { // the same params, another method
			t.Error(prompt, err)
		}
		if n := f.requests(mcp.MethodPromptsList); n != 1 {
			t.Errorf("%d requests for the list of prompts", n)
		}
		updated <- `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID}}}`
		synctest.Wait()
		for range c.Tools(t.Context()) {
		}
		for range c.Prompts(t.Context()) {
		}
		if tools, prompts := f.requests(mcp.MethodToolsList), f.requests(mcp.MethodPromptsList); tools != 2 || prompts != 1 {
			t.Errorf("after the list of tools has changed: %d requests for it, %d for the list of prompts", tools, prompts)
		}
		for _, ttl = range []string{"", `"ttlMs":0,`, `"ttlMs":-5,`, `"ttlMs":"x",`, `"ttlMs":1.5,`} {
			time.Sleep(time.Hour)
			if first, second := read("a:1"), read("a:1"); first != 1 || second != 1 {
				t.Errorf("a result with ttlMs %s was cached", ttl)
			}
		}
	})
}

// Proves M-CACHE-08.
func TestResultThatDependsOnInputIsNotCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.answer = func(_ *http.Request, m jsonrpc.Message) (string, *jsonrpc.Error) {
			if param(m, "requestState") == "" {
				return `{"resultType":"input_required","requestState":"x"}`, nil
			}
			return `{"resultType":"complete","contents":[],"ttlMs":60000,"cacheScope":"public"}`, nil
		}
		c := f.dial(client.Options{})
		for range 2 {
			if _, err := c.ReadResource(t.Context(), "a:1"); err != nil {
				t.Error(err)
			}
		}
		if n := f.requests(mcp.MethodResourcesRead); n != 4 {
			t.Errorf("%d requests, want 4", n)
		}
	})
}

// Proves M-CACHE-09.
func TestPrivateResultsStayInTheirPartition(t *testing.T) {
	type user struct{}
	reads := func(t *testing.T, scope string, o client.Options) (n int) {
		f := newFake(t)
		f.answer = func(*http.Request, jsonrpc.Message) (string, *jsonrpc.Error) {
			return `{"resultType":"complete","contents":[],"ttlMs":60000,"cacheScope":"` + scope + `"}`, nil
		}
		c := f.dial(o)
		for _, name := range []string{"ann", "bob", "ann", "bob"} {
			ctx := context.WithValue(t.Context(), user{}, name)
			if _, err := c.ReadResource(ctx, "a:1"); err != nil {
				t.Error(err)
			}
		}
		return f.requests(mcp.MethodResourcesRead)
	}
	partition := func(ctx context.Context) string { name, _ := ctx.Value(user{}).(string); return name }
	var authorizes client.Options
	authorizes.HTTP.Prepare = func(*http.Request) error { return nil }
	both := authorizes
	both.Cache.Partition = partition
	authorizer := client.Options{Auth: client.Token(auth.NewSecret("token"))}
	for _, c := range []struct {
		name  string
		scope string
		o     client.Options
		want  int
	}{
		{"one context", "private", client.Options{}, 1},
		{"partitions", "private", client.Options{Cache: client.Cache{Partition: partition}}, 2},
		{"public", "public", client.Options{Cache: client.Cache{Partition: partition}}, 1},
		{"authorized by request", "private", authorizes, 4},
		{"authorized by request in partitions", "private", both, 2},
		{"authorized by an Authorizer", "private", authorizer, 4},
		{"no scope", "", client.Options{Cache: client.Cache{Partition: partition}}, 2},
		{"switched off", "public", client.Options{Cache: client.Cache{Bytes: -1}}, 4},
		{"too small", "public", client.Options{Cache: client.Cache{Bytes: 10}}, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if n := reads(t, c.scope, c.o); n != c.want {
					t.Errorf("%d requests, want %d", n, c.want)
				}
			})
		})
	}
}

// Proves M-CACHE-14, M-PAGE-01.
func TestPagesAreCachedByTheirOwnClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		renamed := false
		f.answer = func(_ *http.Request, m jsonrpc.Message) (string, *jsonrpc.Error) {
			page := func(name, rest string) string {
				return `{"resultType":"complete","tools":[{"name":"` + name + `","inputSchema":{"type":"object"}}],"cacheScope":"public",` + rest + `}`
			}
			switch param(m, "cursor") {
			case "":
				if renamed {
					return page("a", `"ttlMs":600000,"nextCursor":"new"`), nil
				}
				return page("a", `"ttlMs":600000,"nextCursor":""`), nil
			case `""`:
				if renamed {
					return "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "invalid cursor"}
				}
				return page("b", `"ttlMs":1000`), nil
			}
			return page("c", `"ttlMs":1000`), nil
		}
		c := f.dial(client.Options{})
		list := func() (names []string, requests int) {
			before := f.requests(mcp.MethodToolsList)
			for tool, err := range c.Tools(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, tool.Name)
			}
			return names, f.requests(mcp.MethodToolsList) - before
		}
		check := func(wantNames string, wantRequests int) {
			t.Helper()
			if names, n := list(); strings.Join(names, "") != wantNames || n != wantRequests {
				t.Errorf("%d requests for %q, want %d for %q", n, names, wantRequests, wantNames)
			}
		}
		check("ab", 2)
		check("ab", 0)
		time.Sleep(time.Minute)
		check("ab", 1)
		time.Sleep(time.Minute)
		renamed = true
		check("ac", 3) // the cursor is rejected; both pages are fetched again
	})
}

func TestLogLevelIsSentWithRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		var levels []string
		f.answer = func(_ *http.Request, m jsonrpc.Message) (string, *jsonrpc.Error) {
			meta, _ := codec.Member(m.Params, "_meta")
			level, _ := codec.Member(meta, "io.modelcontextprotocol/logLevel")
			levels = append(levels, string(level))
			return `{"resultType":"complete","content":[]}`, nil
		}
		c := f.dial(client.Options{})
		c.CallTool(t.Context(), "t", nil)
		if err := c.SetLogLevel(t.Context(), mcp.LoggingLevelWarning); err != nil {
			t.Error(err)
		}
		c.CallTool(t.Context(), "t", nil)
		if !slices.Equal(levels, []string{"", `"warning"`}) {
			t.Errorf("levels %q", levels)
		}
	})
}

// Proves M-ERR-06.
func TestUnknownResource(t *testing.T) {
	for _, failed := range []*jsonrpc.Error{
		{Code: -32002, Message: "x"},
		{Code: -32602, Message: "x", Data: json.RawMessage(`{"uri":"a:1"}`)},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			f.answer = func(*http.Request, jsonrpc.Message) (string, *jsonrpc.Error) { return "", failed }
			if _, err := f.dial(client.Options{}).ReadResource(t.Context(), "a:1"); !errors.Is(err, client.ErrUnknown) {
				t.Error(err)
			}
		})
	}
}

// changeLog records the changes that a client reports.
type changeLog struct {
	mcp.UnimplementedClientNotificationHandler
	mu  sync.Mutex
	log []string
}

func (l *changeLog) add(text string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log = append(l.log, text)
	return nil
}

func (l *changeLog) ToolListChanged(context.Context, *mcp.NotificationParams) error {
	return l.add("tools")
}

func (l *changeLog) ResourceListChanged(context.Context, *mcp.NotificationParams) error {
	return l.add("resources")
}

func (l *changeLog) ResourceUpdated(_ context.Context, p *mcp.ResourceUpdatedNotificationParams) error {
	return l.add(p.URI)
}

func (l *changeLog) take() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	log := l.log
	l.log = nil
	return log
}

// Proves M-SUBS-15, M-SUBS-17.
func TestSubscriptionsShareOneListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.answer = func(*http.Request, jsonrpc.Message) (string, *jsonrpc.Error) { return `{}`, nil }
		var filters []string
		var open atomic.Int32
		cut := make(chan bool)
		f.listen = func(ctx context.Context, m jsonrpc.Message, send func(string)) {
			filter := param(m, "notifications")
			filters = append(filters, filter)
			open.Add(1)
			defer open.Add(-1)
			accepted := strings.Replace(filter, `,"x:refused"`, "", 1)
			send(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID},"notifications":` + accepted + `}}`)
			select {
			case graceful := <-cut:
				if graceful {
					send(`{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":ID}}}`)
				}
			case <-ctx.Done():
			}
		}
		changes := new(changeLog)
		c := f.dial(client.Options{Notifications: changes})
		synctest.Wait()
		const lists = `"resourcesListChanged":true,"toolsListChanged":true`
		for _, uri := range []string{"a:1", "a:2", "a:1"} {
			if err := c.Subscribe(t.Context(), uri); err != nil {
				t.Fatal(err)
			}
		}
		if e, ok := errors.AsType[*session.CapabilityError](c.Subscribe(t.Context(), "x:refused")); !ok || e.Capability != "resources.subscribe" {
			t.Error("a subscription that the server does not accept succeeds")
		}
		if err := c.Unsubscribe(t.Context(), "a:1"); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		want := []string{
			"{" + lists + "}",
			`{"resourceSubscriptions":["a:1"],` + lists + "}",
			`{"resourceSubscriptions":["a:1","a:2"],` + lists + "}",
			`{"resourceSubscriptions":["a:1","a:2","x:refused"],` + lists + "}",
			`{"resourceSubscriptions":["a:2"],` + lists + "}",
		}
		if diff := cmp.Diff(want, filters); diff != "" || open.Load() != 1 {
			t.Errorf("%d open (-want +got):\n%s", open.Load(), diff)
		}
		if got := changes.take(); got != nil {
			t.Errorf("reported %q although nothing was lost", got)
		}
		for _, graceful := range []bool{false, true} {
			cut <- graceful
			time.Sleep(time.Second)
			if got := changes.take(); !slices.Equal(got, []string{"tools", "resources", "a:2"}) || open.Load() != 1 {
				t.Errorf("reported %q after a loss, %d open", got, open.Load())
			}
		}
		if err := c.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if open.Load() != 0 {
			t.Error("the subscription is open after Shutdown")
		}
	})
}

// A lost subscription may be that of a server that another one has replaced: the client follows the
// lists of the new server.
func TestSubscriptionFollowsListsOfReplacedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		var filters []string
		cut := make(chan struct{})
		f.listen = func(ctx context.Context, m jsonrpc.Message, send func(string)) {
			filter := param(m, "notifications")
			filters = append(filters, filter)
			send(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID},"notifications":` + filter + `}}`)
			select {
			case <-cut:
			case <-ctx.Done():
			}
		}
		c := f.dial(client.Options{Notifications: new(changeLog)})
		synctest.Wait()
		f.discover = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{"listChanged":true}},"ttlMs":0,"cacheScope":"public"}`
		cut <- struct{}{}
		time.Sleep(time.Second)
		synctest.Wait() // for the race detector
		want := []string{`{"resourcesListChanged":true,"toolsListChanged":true}`, `{"resourcesListChanged":true,"toolsListChanged":true}`, `{"promptsListChanged":true}`}
		if diff := cmp.Diff(want, filters); diff != "" || f.requests(mcp.MethodServerDiscover) != 2 {
			t.Errorf("%d server/discover (-want +got):\n%s", f.requests(mcp.MethodServerDiscover), diff)
		}
		if declared := &c.Server().Capabilities; declared.Resources != nil || !declared.Declares("prompts.listChanged") {
			t.Errorf("the server has the capabilities %+v", declared)
		}
	})
}

// Proves M-ERA-14.
func TestServersAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		fails := false
		f.answer = func(*http.Request, jsonrpc.Message) (string, *jsonrpc.Error) {
			if fails {
				return "", &jsonrpc.Error{Code: -32000, Message: "not initialized"}
			}
			return `{"resultType":"complete","content":[]}`, nil
		}
		servers := new(client.Servers)
		o := client.Options{Cache: client.Cache{Servers: servers}}
		f.dial(o)
		c := f.dial(o)
		if _, err := c.CallTool(t.Context(), "t", nil); err != nil || !c.Session().Traits().Sessionless || !c.Server().Capabilities.Declares("logging") {
			t.Errorf("modern %v, error %v", c.Session().Traits().Sessionless, err)
		}
		if n := f.requests(mcp.MethodServerDiscover); n != 1 {
			t.Errorf("%d requests of server/discover", n)
		}
		if state, ok := servers.Get("http://server/mcp"); !ok || state.Revision != mcp.Revision20260728 || state.Client != nil {
			t.Errorf("known: %+v", state)
		}
		fails = true
		if _, err := f.dial(o).CallTool(t.Context(), "t", nil); err == nil {
			t.Error("the call succeeds")
		}
		if _, ok := servers.Get("http://server/mcp"); ok {
			t.Error("a server that has changed is still known")
		}
		f.dial(o)
		if n := f.requests(mcp.MethodServerDiscover); n != 2 {
			t.Errorf("%d requests of server/discover", n)
		}
	})
}

// A subscription that is lost while another one is to replace it counts as lost, too.
func TestSubscriptionIsLostWhileItIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		cut := make(chan struct{})
		var requests atomic.Int32
		f.listen = func(ctx context.Context, m jsonrpc.Message, send func(string)) {
			number := requests.Add(1)
			if number != 2 { // the second one is never acknowledged
				send(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID},"notifications":` + param(m, "notifications") + `}}`)
			}
			if number > 2 {
				<-ctx.Done()
			}
			select {
			case <-cut:
			case <-ctx.Done():
			}
		}
		changes := new(changeLog)
		c := f.dial(client.Options{Notifications: changes})
		synctest.Wait()
		failed := make(chan error)
		go func() { failed <- c.Subscribe(t.Context(), "a:1") }() // ends when the stream breaks
		synctest.Wait()
		if requests.Load() != 2 {
			t.Fatalf("%d requests", requests.Load())
		}
		close(cut)
		if err := <-failed; err == nil {
			t.Error("the subscription succeeds")
		}
		time.Sleep(time.Minute)
		if got := changes.take(); !slices.Equal(got, []string{"tools", "resources"}) {
			t.Errorf("reported %q", got)
		}
	})
}

// A caller of Subscribe that gives up does not end the subscription of another one to the same
// resource.
func TestAbandonedSubscribeLeavesOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		acknowledge := make(chan bool)
		var filter string // of the subscription that was acknowledged last
		f.listen = func(ctx context.Context, m jsonrpc.Message, send func(string)) {
			select {
			case <-acknowledge:
			case <-ctx.Done():
				return
			}
			filter = param(m, "notifications")
			send(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID},"notifications":` + filter + `}}`)
			<-ctx.Done()
		}
		c := f.dial(client.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		first, abandoned, other := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		subscribe := func(ctx context.Context, uri string, to chan error) {
			go func() { to <- c.Subscribe(ctx, uri) }() // ends with the subscription or ctx
			synctest.Wait()
		}
		subscribe(t.Context(), "a:1", first)
		subscribe(ctx, "a:2", abandoned)
		subscribe(t.Context(), "a:2", other)
		acknowledge <- true
		if err := <-first; err != nil {
			t.Error(err)
		}
		synctest.Wait() // the subscription with the second resource is on its way
		cancel()
		if err := <-abandoned; err != context.Canceled {
			t.Error(err)
		}
		close(acknowledge)
		if err := <-other; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if filter != `{"resourceSubscriptions":["a:1","a:2"]}` {
			t.Errorf("subscribed to %s", filter)
		}
	})
}

// A list that was fetched before the server accepted the subscription may have changed in between.
func TestChangeBeforeSubscriptionIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.answer = func(*http.Request, jsonrpc.Message) (string, *jsonrpc.Error) {
			return `{"resultType":"complete","tools":[],"ttlMs":600000,"cacheScope":"public"}`, nil
		}
		acknowledge := make(chan bool)
		f.listen = func(ctx context.Context, m jsonrpc.Message, send func(string)) {
			<-acknowledge
			send(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID},"notifications":` + param(m, "notifications") + `}}`)
			<-ctx.Done()
		}
		for _, lists := range []bool{false, true} {
			changes := new(changeLog)
			c := f.dial(client.Options{Notifications: changes})
			var want []string
			if lists {
				names(t, c.Tools(t.Context()), toolName)
				want = []string{"tools"}
			}
			acknowledge <- true
			if got := changes.take(); !slices.Equal(got, want) {
				t.Errorf("listed before: %v, reported %q", lists, got)
			}
			requests := f.requests(mcp.MethodToolsList)
			names(t, c.Tools(t.Context()), toolName)
			if n := f.requests(mcp.MethodToolsList) - requests; n != 1 {
				t.Errorf("listed before: %v, %d requests", lists, n)
			}
			c.Close()
		}
	})
}

// acknowledge accepts a subscription.
func acknowledge(m jsonrpc.Message, send func(string)) {
	send(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID},"notifications":` + param(m, "notifications") + `}}`)
}

// The client opens a lost subscription again although the server, or a gateway in front of it, has
// rejected that for the time being.
func TestSubscriptionSurvivesTemporaryRejections(t *testing.T) {
	for name, reject := range map[string]func(w http.ResponseWriter, id string){
		"shutting down": func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-31051,"message":"server is shutting down"}}`, id)
		},
		"overloaded": func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-31050,"message":"overloaded"}}`, id)
		},
		"unknown path": func(w http.ResponseWriter, _ string) { http.Error(w, "404 page not found", http.StatusNotFound) },
		"page": func(w http.ResponseWriter, _ string) {
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<html>Maintenance</html>")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				cut := make(chan struct{})
				var requests atomic.Int32
				f.reject = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) bool {
					if m.Method != mcp.MethodSubscriptionsListen {
						return false
					}
					if n := requests.Add(1); n < 2 || n > 4 {
						return false
					}
					reject(w, m.ID.String())
					return true
				}
				f.listen = func(ctx context.Context, m jsonrpc.Message, send func(string)) {
					acknowledge(m, send)
					select {
					case <-cut:
					case <-ctx.Done():
					}
				}
				changes := new(changeLog)
				f.dial(client.Options{Notifications: changes})
				synctest.Wait()
				cut <- struct{}{}
				time.Sleep(time.Minute)
				if got := changes.take(); !slices.Equal(got, []string{"tools", "resources"}) || requests.Load() != 5 {
					t.Errorf("%d requests, reported %q", requests.Load(), got)
				}
			})
		})
	}
}

// The client does not open subscriptions again and again without delay if the server ends each one
// soon after it has accepted it.
func TestSubscriptionThatServerEndsSoonIsDelayed(t *testing.T) {
	for _, life := range []time.Duration{0, time.Second, 20 * time.Second} {
		t.Run(life.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				f.listen = func(ctx context.Context, m jsonrpc.Message, send func(string)) {
					acknowledge(m, send)
					select {
					case <-time.After(life):
						send(`{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":ID}}}`)
					case <-ctx.Done():
					}
				}
				f.dial(client.Options{Notifications: new(changeLog)})
				time.Sleep(10 * time.Minute)
				n := f.requests(mcp.MethodSubscriptionsListen)
				least, most := 20, 60
				if life >= 10*time.Second { // the delay stays short
					least, most = 25, 31
				}
				if n < least || n > most {
					t.Errorf("%d requests", n)
				}
			})
		})
	}
}

// The client survives a server that does not answer pings and then is unavailable, as it does in
// revisions with sessions.
func TestUnresponsiveServerMayBeUnavailable(t *testing.T) {
	for name, reject := range map[string]func(w http.ResponseWriter, id string){
		"unknown path": func(w http.ResponseWriter, _ string) { http.Error(w, "404 page not found", http.StatusNotFound) },
		"failure":      func(w http.ResponseWriter, _ string) { http.Error(w, "no upstream", http.StatusInternalServerError) },
		"page": func(w http.ResponseWriter, _ string) {
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<html>Maintenance</html>")
		},
		"overloaded": func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-31050,"message":"overloaded"}}`, id)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				f.answer = func(*http.Request, jsonrpc.Message) (string, *jsonrpc.Error) {
					return `{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"public"}`, nil
				}
				var silent, unavailable atomic.Bool
				f.reject = func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) bool {
					if silent.Load() {
						<-r.Context().Done()
						return true
					}
					if unavailable.Load() {
						reject(w, m.ID.String())
					}
					return unavailable.Load()
				}
				c := f.dial(client.Options{Session: session.Options{Timeouts: session.Timeouts{KeepAlive: 10 * time.Second}, Logger: slog.New(slog.DiscardHandler)}})
				silent.Store(true)
				time.Sleep(25 * time.Second)
				unavailable.Store(true)
				silent.Store(false)
				time.Sleep(time.Minute)
				unavailable.Store(false)
				time.Sleep(2 * time.Minute)
				for _, err := range c.Tools(t.Context()) {
					t.Error(err)
				}
			})
		})
	}
}
