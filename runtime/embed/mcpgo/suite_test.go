package mcpgo_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/embedtest"
	"github.com/mcpwire/mcpwire/runtime/embed/mcpgo"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

var subject = embedtest.Subject{Name: "mcp-go", Serve: serveSubject}

func TestMain(m *testing.M) { embedtest.Main(m, subject) }

func TestEmbedding(t *testing.T) { embedtest.Run(t, subject) }

// kills makes a longer run possible:
//
//	go test -run Killed -kills 1000
var kills = flag.Int("kills", 0, "how often TestServerIsKilled kills a process; 0 means a few times")

func TestServerIsKilled(t *testing.T) { embedtest.Killed(t, subject, embedtest.Options{Kills: *kills}) }

// userKey is the key of the user in the context of a request over HTTP.
type userKey struct{}

// serveSubject makes a server with the tools of a fixture.
func serveSubject(f embedtest.Fixture) (*embedtest.Endpoint, error) {
	s := server.NewMCPServer("fixture", "1", server.WithToolCapabilities(true), server.WithElicitation(), server.WithLogging())
	for _, t := range f.Tools {
		run := func(ctx context.Context, request mcp.CallToolRequest, arguments json.RawMessage) (*mcp.CallToolResult, error) {
			return result(t.Run(ctx, &caller{ctx: ctx, s: s, request: request, arguments: arguments}))
		}
		handler := func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			arguments, err := json.Marshal(request.GetRawArguments())
			if err != nil {
				return nil, err
			}
			return run(ctx, request, arguments)
		}
		if t.Typed {
			type named struct {
				Name string `json:"name"`
			}
			handler = mcp.NewTypedToolHandler(func(ctx context.Context, request mcp.CallToolRequest, in named) (*mcp.CallToolResult, error) {
				arguments, err := json.Marshal(in)
				if err != nil {
					return nil, err
				}
				return run(ctx, request, arguments)
			})
		}
		s.AddTool(mcp.NewToolWithRawSchema(t.Name, t.Description, t.InputSchema), handler)
	}
	if f.Tokens {
		f.Options.Principal = func(ctx context.Context, _ http.Header) string { return user(ctx) }
	}
	tasks, err := mcpgo.Attach(s, f.Options)
	if err != nil {
		return nil, err
	}
	streaming := server.NewStreamableHTTPServer(s, server.WithStateful(true), server.WithHTTPContextFunc(func(ctx context.Context, r *http.Request) context.Context {
		return context.WithValue(ctx, userKey{}, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	}))
	handler := tasks.Handler(streaming)
	if f.Tokens {
		inner := handler
		handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
				http.Error(w, "no token", http.StatusUnauthorized)
				return
			}
			inner.ServeHTTP(w, r)
		})
	}
	var running sync.WaitGroup
	connect := func(handle func(context.Context, json.RawMessage) json.RawMessage) (transport.Conn, error) {
		if err := tasks.Start(context.Background()); err != nil {
			return nil, err
		}
		here, there := inmemory.Pair(inmemory.Options{})
		running.Go(func() { newMemorySession(s, there).serve(handle) }) // ends with the connection
		return here, nil
	}
	return &embedtest.Endpoint{
		Handler: handler,
		Connect: func() (transport.Conn, error) { return connect(tasks.HandleMessage) },
		Bare: func() (transport.Conn, error) {
			return connect(func(ctx context.Context, message json.RawMessage) json.RawMessage {
				response := s.HandleMessage(ctx, message)
				if response == nil {
					return nil
				}
				text, _ := json.Marshal(response)
				return text
			})
		},
		Stdio: func(ctx context.Context) error {
			return tasks.ServeStdio(ctx, server.NewStdioServer(s), os.Stdin, os.Stdout)
		},
		CloseSessions: func() { streaming.CloseSessions(context.Background()) },
		Manager:       tasks.Manager,
		Close: func() error {
			streaming.CloseSessions(context.Background())
			err := tasks.Close()
			running.Wait()
			return err
		},
	}, nil
}

func user(ctx context.Context) string {
	user, _ := ctx.Value(userKey{}).(string)
	return user
}

// result returns the result of a tool as the SDK has it.
func result(r *embedtest.Result, err error) (*mcp.CallToolResult, error) {
	if err != nil {
		return nil, err
	}
	if r.Ask != nil {
		requests := server.NewInputRequestBuilder("asked")
		for key, message := range r.Ask {
			requests.Elicit(key, form(message))
		}
		return requests.ToolResult(), nil
	}
	result := mcp.NewToolResultText(r.Text)
	result.StructuredContent, result.IsError = r.Structured, r.IsError
	return result, nil
}

func form(message string) mcp.ElicitationParams {
	return mcp.ElicitationParams{Message: message, RequestedSchema: json.RawMessage(embedtest.FormSchema)}
}

// caller is the Caller of a call.
type caller struct {
	embedtest.Steps
	ctx       context.Context
	s         *server.MCPServer
	request   mcp.CallToolRequest
	arguments json.RawMessage
}

func (c *caller) Arguments() json.RawMessage { return c.arguments }

func (c *caller) User() string { return user(c.ctx) }

func (c *caller) Responses() map[string]string {
	if c.request.Params.InputResponses == nil {
		return nil
	}
	all := map[string]string{}
	for key := range c.request.Params.InputResponses {
		all[key] = name(server.ElicitationResponse(c.request.Params.InputResponses, key))
	}
	return all
}

// name returns the member "name" of the content of a form.
func name(r *mcp.ElicitationResult) string {
	if r == nil {
		return ""
	}
	content, _ := r.Content.(map[string]any)
	name, _ := content["name"].(string)
	return name
}

func (c *caller) Progress(ctx context.Context, value float64, message string) error {
	if c.request.Params.Meta == nil || c.request.Params.Meta.ProgressToken == nil {
		return nil
	}
	return c.s.SendNotificationToClient(ctx, "notifications/progress", map[string]any{"progressToken": c.request.Params.Meta.ProgressToken, "progress": value, "total": 10, "message": message})
}

func (c *caller) ProgressWithToken(ctx context.Context, token string, value float64) error {
	return c.s.SendNotificationToClient(ctx, "notifications/progress", map[string]any{"progressToken": token, "progress": value})
}

func (c *caller) Log(ctx context.Context, text string) error {
	return c.s.SendLogMessageToClient(ctx, mcp.NewLoggingMessageNotification(mcp.LoggingLevelInfo, "", text))
}

func (c *caller) Elicit(ctx context.Context, message string) (action, content string, err error) {
	r, err := c.s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: form(message)})
	if err != nil {
		return "", "", err
	}
	return string(r.Action), name(r), nil
}

func (c *caller) Sample(ctx context.Context, text string) (string, error) {
	//lint:ignore SA1019 sessions have sampling
	r, err := c.s.RequestSampling(ctx, mcp.CreateMessageRequest{CreateMessageParams: mcp.CreateMessageParams{
		Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent(text)}}, MaxTokens: 10,
	}})
	if err != nil {
		return "", err
	}
	content, ok := r.Content.(mcp.TextContent)
	if !ok {
		return "", fmt.Errorf("the response has content of type %T", r.Content)
	}
	return content.Text, nil
}

func (c *caller) Roots(ctx context.Context) (list []string, err error) {
	r, err := c.s.RequestRoots(ctx, mcp.ListRootsRequest{})
	if err != nil {
		return nil, err
	}
	for _, root := range r.Roots {
		list = append(list, root.URI)
	}
	return list, nil
}

// memorySession is a session over a connection in memory, as an example of a custom transport.
type memorySession struct {
	s             *server.MCPServer
	conn          transport.Conn
	id            string
	notifications chan mcp.JSONRPCNotification
	ctx           context.Context
	end           context.CancelFunc

	mu      sync.Mutex
	level   mcp.LoggingLevel
	info    mcp.Implementation
	caps    mcp.ClientCapabilities
	version string
	last    int64
	pending map[int64]chan jsonrpc.Message
}

var lastMemorySession struct {
	sync.Mutex
	n int
}

func newMemorySession(s *server.MCPServer, conn transport.Conn) *memorySession {
	lastMemorySession.Lock()
	defer lastMemorySession.Unlock()
	lastMemorySession.n++
	m := &memorySession{s: s, conn: conn, id: fmt.Sprintf("memory-%d", lastMemorySession.n), notifications: make(chan mcp.JSONRPCNotification, 100), level: mcp.LoggingLevelError, pending: map[int64]chan jsonrpc.Message{}}
	m.ctx, m.end = context.WithCancel(s.WithContext(context.Background(), m))
	return m
}

// serve serves the connection until it ends.
func (m *memorySession) serve(handle func(context.Context, json.RawMessage) json.RawMessage) {
	var running sync.WaitGroup
	if err := m.s.RegisterSession(m.ctx, m); err != nil {
		panic(err)
	}
	running.Go(func() { // ends with the connection
		for {
			select {
			case n := <-m.notifications:
				m.write(n)
			case <-m.ctx.Done():
				return
			}
		}
	})
	for {
		received, err := m.conn.Read()
		if err != nil {
			break
		}
		message, err := jsonrpc.ParseReceived(received.Text)
		if err != nil {
			continue
		}
		if message.Method == "" {
			id, _ := message.ID.Int()
			m.mu.Lock()
			if waiter := m.pending[id]; waiter != nil {
				waiter <- message
				delete(m.pending, id)
			}
			m.mu.Unlock()
			continue
		}
		serve := func() {
			if response := handle(m.ctx, received.Text); response != nil {
				m.conn.Write(m.ctx, transport.Message{Text: response})
			}
		}
		if message.ID.IsZero() {
			serve()
			continue
		}
		running.Go(func() { // ends with the request
			defer func() {
				if v := recover(); v != nil { // as the transports of the SDK do
					text, _ := json.Marshal(mcp.NewJSONRPCError(mcp.NewRequestId(message.ID), mcp.INTERNAL_ERROR, fmt.Sprint(v), nil))
					m.conn.Write(m.ctx, transport.Message{Text: text})
				}
			}()
			serve()
		})
	}
	m.s.UnregisterSession(m.ctx, m.id)
	m.end()
	running.Wait()
	m.conn.Close()
}

func (m *memorySession) write(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return m.conn.Write(m.ctx, transport.Message{Text: text})
}

// request sends a request to the client.
func (m *memorySession) request(ctx context.Context, method string, params, result any) error {
	waiter := make(chan jsonrpc.Message, 1)
	m.mu.Lock()
	m.last++
	id := m.last
	m.pending[id] = waiter
	m.mu.Unlock()
	request := map[string]any{"jsonrpc": "2.0", "id": id, "method": method}
	if params != nil {
		request["params"] = params
	}
	if err := m.write(request); err != nil {
		return err
	}
	select {
	case response := <-waiter:
		if response.Error != nil {
			return response.Error
		}
		return json.Unmarshal(response.Result, result)
	case <-ctx.Done():
		m.write(map[string]any{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": map[string]any{"requestId": id}})
		return ctx.Err()
	case <-m.ctx.Done():
		return m.ctx.Err()
	}
}

func (m *memorySession) Initialize()                                         {}
func (m *memorySession) Initialized() bool                                   { return true }
func (m *memorySession) SessionID() string                                   { return m.id }
func (m *memorySession) NotificationChannel() chan<- mcp.JSONRPCNotification { return m.notifications }

func (m *memorySession) RequestElicitation(ctx context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	result := new(mcp.ElicitationResult)
	return result, m.request(ctx, "elicitation/create", r.Params, result)
}

func (m *memorySession) RequestSampling(ctx context.Context, r mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	result := new(mcp.CreateMessageResult)
	params := struct {
		mcp.CreateMessageParams
		Meta *mcp.Meta `json:"_meta,omitempty"`
	}{r.CreateMessageParams, r.Params.Meta}
	if err := m.request(ctx, "sampling/createMessage", params, result); err != nil {
		return nil, err
	}
	var err error
	result.Content, err = mcp.ParseSamplingContent(result.Content)
	return result, err
}

func (m *memorySession) ListRoots(ctx context.Context, r mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	result := new(mcp.ListRootsResult)
	return result, m.request(ctx, "roots/list", map[string]any{"_meta": r.Params.Meta}, result)
}

func (m *memorySession) SetLogLevel(level mcp.LoggingLevel) { set(m, &m.level, level) }
func (m *memorySession) GetLogLevel() mcp.LoggingLevel      { return get(m, &m.level) }

func (m *memorySession) SetClientInfo(info mcp.Implementation)             { set(m, &m.info, info) }
func (m *memorySession) GetClientInfo() mcp.Implementation                 { return get(m, &m.info) }
func (m *memorySession) SetClientCapabilities(caps mcp.ClientCapabilities) { set(m, &m.caps, caps) }
func (m *memorySession) GetClientCapabilities() mcp.ClientCapabilities     { return get(m, &m.caps) }
func (m *memorySession) SetProtocolVersion(version string)                 { set(m, &m.version, version) }
func (m *memorySession) ProtocolVersion() string                           { return get(m, &m.version) }

func set[T any](m *memorySession, field *T, value T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*field = value
}

func get[T any](m *memorySession, field *T) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	return *field
}
