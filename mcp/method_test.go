package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/schema"
)

// The method table has exactly the methods of the schemas, each in the revisions that have it.
func TestMethodTableAgreesWithTheSchemas(t *testing.T) {
	want := map[string][]string{}
	for _, rev := range schema.Revisions() {
		for name, s := range document(t, rev).Defs {
			request := strings.HasSuffix(name, "Request")
			side := name == "ClientNotification" // in 2026-07-28 the one notification that a client sends
			if side || !request && !strings.HasSuffix(name, "Notification") || s.Property("method") == nil || s.Property("method").Const == nil {
				continue
			}
			var method string
			if err := json.Unmarshal(s.Property("method").Const, &method); err != nil {
				t.Fatal(err)
			}
			want[fmt.Sprint(method, " ", !request)] = append(want[fmt.Sprint(method, " ", !request)], rev)
		}
	}
	got := map[string][]string{}
	for _, m := range mcp.Methods() {
		for _, rev := range schema.Revisions() {
			if m.In(mcp.Revision(rev)) {
				got[fmt.Sprint(m.Name, " ", m.Notification)] = append(got[fmt.Sprint(m.Name, " ", m.Notification)], rev)
			}
		}
		if row, ok := mcp.LookupMethod(m.Name); !ok || row != m {
			t.Errorf("%s is not looked up", m.Name)
		}
		if m.In("1999-01-01") {
			t.Errorf("%s is in a revision that does not exist", m.Name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, ok := mcp.LookupMethod("no/such"); ok {
		t.Error("a method that does not exist is found")
	}
}

func document(t *testing.T, rev string) *load.Document {
	t.Helper()
	src, err := schema.Read(rev)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := load.Parse(rev, rev+".json", src)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestDirectionString(t *testing.T) {
	for d, want := range map[mcp.Direction]string{
		mcp.FromClient: "client", mcp.FromServer: "server", mcp.FromClient | mcp.FromServer: "client or server", 0: "Direction(0)",
	} {
		if got := d.String(); got != want {
			t.Errorf("%d: got %q, want %q", uint8(d), got, want)
		}
	}
}

// The table has the direction of each method, and whether it can run as a task.
func TestMethodTable(t *testing.T) {
	const both = mcp.FromClient | mcp.FromServer
	for _, tt := range []struct {
		method         string
		from           mcp.Direction
		task           bool
		params, result string
	}{
		{"initialize", mcp.FromClient, false, "InitializeRequestParams", "InitializeResult"},
		{"ping", both, false, "RequestParams", "Result"},
		{"tools/call", mcp.FromClient, true, "CallToolRequestParams", "CallToolOutcome"},
		{"tools/list", mcp.FromClient, false, "PaginatedRequestParams", "ListToolsResult"},
		{"sampling/createMessage", mcp.FromServer, true, "CreateMessageRequestParams", "CreateMessageOutcome"},
		{"elicitation/create", mcp.FromServer, true, "ElicitRequestParams", "ElicitOutcome"},
		{"roots/list", mcp.FromServer, false, "RequestParams", "ListRootsResult"},
		{"tasks/get", both, false, "GetTaskRequestParams", "GetTaskResult"},
		{"tasks/result", both, false, "GetTaskPayloadRequestParams", "GetTaskPayloadResult"},
		{"tasks/cancel", both, false, "CancelTaskRequestParams", "CancelTaskResult"},
		{"tasks/list", both, false, "PaginatedRequestParams", "ListTasksResult"},
		{"notifications/tasks/status", both, false, "TaskStatusNotificationParams", ""},
		{"notifications/progress", both, false, "ProgressNotificationParams", ""},
		{"notifications/message", mcp.FromServer, false, "LoggingMessageNotificationParams", ""},
		{"notifications/roots/list_changed", mcp.FromClient, false, "NotificationParams", ""},
	} {
		m, ok := mcp.LookupMethod(tt.method)
		if !ok {
			t.Errorf("there is no method %s", tt.method)
			continue
		}
		if m.From != tt.from || m.Task != tt.task || m.Params != tt.params || m.Result != tt.result || m.Notification != (tt.result == "") {
			t.Errorf("got %+v, want %+v", m, tt)
		}
	}
	names := func(notifications bool) (list []string) {
		for _, m := range mcp.Methods() {
			if m.Notification == notifications {
				list = append(list, m.Name)
			}
		}
		return list
	}
	if !slices.IsSorted(names(false)) || !slices.IsSorted(names(true)) {
		t.Error("the table is not sorted")
	}
}

// Every method decodes params and result into the type that the table names.
func TestPayloadsAreTypedByMethod(t *testing.T) {
	for _, m := range mcp.Methods() {
		for _, c := range []struct {
			typ    string
			decode func(string, []byte, ...codec.Option) (mcp.Value, error)
		}{{m.Params, mcp.DecodeParams}, {m.Result, mcp.DecodeResult}} {
			if c.typ == "" {
				continue
			}
			v, err := c.decode(m.Name, []byte(`{"_meta":{"x":1},"y":2}`))
			if err != nil {
				t.Errorf("%s: %v", m.Name, err)
				continue
			}
			if got := strings.TrimPrefix(fmt.Sprintf("%T", v), "*mcp."); got != c.typ && !union(c.typ) {
				t.Errorf("%s: got %s, want %s", m.Name, got, c.typ)
			}
			same(t, m.Name, `{"_meta":{"x":1},"y":2}`, encode(t, v))
		}
	}
}

func union(typ string) bool { return strings.HasSuffix(typ, "Outcome") || typ == "ElicitRequestParams" }

func TestDecodeParamsAndResult(t *testing.T) {
	if v, err := mcp.DecodeParams("ping", nil); v != nil || err != nil {
		t.Errorf("absent params: got %v, %v", v, err)
	}
	for _, decode := range []func(string, []byte, ...codec.Option) (mcp.Value, error){mcp.DecodeParams, mcp.DecodeResult} {
		_, err := decode("no/such", []byte(`{}`))
		var e *jsonrpc.Error
		if !errors.As(err, &e) || e.Code != jsonrpc.CodeMethodNotFound {
			t.Errorf("unknown method: got %v", err)
		}
		_, err = decode("tools/call", []byte(`{"name":5,"content":5}`))
		if codec.Code(err) != -32602 {
			t.Errorf("wrong shape: got %v", err)
		}
		_, err = decode("tools/call", []byte(`{"name":"n","content":[]} x`))
		if !errors.Is(err, jsonfault.Trailing) {
			t.Errorf("trailing text: got %v", err)
		}
		_, err = decode("tools/call", []byte(`{"name":"n","content":[[[]]]}`), codec.MaxDepth(3))
		if !errors.Is(err, jsonfault.Depth) {
			t.Errorf("too deep: got %v", err)
		}
	}
}

// Params are checked against the schema of their revision, both where the message states it inline
// and where it has a definition of its own.
func TestValidateParams(t *testing.T) {
	for _, tt := range []struct {
		method, params string
		want           map[mcp.Revision][]string // faults; a revision that is missing has none
	}{
		{"tools/call", `{"name":"n","arguments":{"a":1}}`, map[mcp.Revision][]string{
			mcp.Revision20260728: {" required"}, // _meta
		}},
		{"tools/call", `{"arguments":[]}`, map[mcp.Revision][]string{
			mcp.Revision20241105: {" required", "/arguments type"},
			mcp.Revision20250326: {" required", "/arguments type"},
			mcp.Revision20250618: {" required", "/arguments type"},
			mcp.Revision20251125: {" required", "/arguments type"},
			mcp.Revision20260728: {" required", " required", "/arguments type"},
		}},
		{"tools/call", `{"name":"n","task":{"ttl":"1"},"_meta":{"io.modelcontextprotocol/protocolVersion":"v","io.modelcontextprotocol/clientCapabilities":{}}}`, map[mcp.Revision][]string{
			mcp.Revision20251125: {"/task/ttl type"}, // the one revision that has tasks
		}},
		{"logging/setLevel", `{"level":"loud"}`, map[mcp.Revision][]string{
			mcp.Revision20241105: {"/level enum"}, mcp.Revision20250326: {"/level enum"}, mcp.Revision20250618: {"/level enum"}, mcp.Revision20251125: {"/level enum"},
		}},
		{"notifications/progress", `{"progressToken":1.5,"progress":"x"}`, map[mcp.Revision][]string{
			mcp.Revision20241105: {"/progress type", "/progressToken type"},
			mcp.Revision20250326: {"/progress type", "/progressToken type"},
			mcp.Revision20250618: {"/progress type", "/progressToken type"},
			mcp.Revision20251125: {"/progress type", "/progressToken type"},
			mcp.Revision20260728: {"/progress type", "/progressToken type"},
		}},
	} {
		for _, name := range schema.Revisions() {
			rev := mcp.Revision(name)
			if m, _ := mcp.LookupMethod(tt.method); !m.In(rev) {
				continue
			}
			got := faults(t, mcp.ValidateParams(rev, tt.method, []byte(tt.params)))
			slices.Sort(got)
			for i, f := range got { // an anyOf of types is one fault of type
				got[i] = strings.TrimSuffix(f, " number is not an integer")
				if got[i] != f {
					got[i] += " type"
				}
			}
			if diff := cmp.Diff(tt.want[rev], got); diff != "" {
				t.Errorf("%s %s in %s (-want +got):\n%s", tt.method, tt.params, rev, diff)
			}
		}
	}
	if err := mcp.ValidateParams(mcp.Revision20241105, "tasks/get", []byte(`{"taskId":"t"}`)); jsonrpc.CodeOf(err) != jsonrpc.CodeMethodNotFound {
		t.Errorf("a method of another revision: got %v", err)
	}
	if err := mcp.ValidateParams(mcp.Revision20251125, "tools/call", nil); err == nil {
		t.Error("a tool call without params is valid")
	}
	if err := mcp.ValidateParams(mcp.Revision20251125, "ping", nil); err != nil {
		t.Error(err)
	}
}

// The params of every method have a schema in every revision that has the method and
// states them.
func TestEveryMethodHasParamsToValidate(t *testing.T) {
	for _, name := range schema.Revisions() {
		for _, m := range mcp.Methods() {
			if !m.In(mcp.Revision(name)) {
				continue
			}
			err := mcp.ValidateParams(mcp.Revision(name), m.Name, []byte(`[]`))
			if got := faults(t, err); len(got) != 1 || got[0] != " type" {
				t.Errorf("%s in %s: a list instead of params: %q", m.Name, name, got)
			}
		}
	}
}

// loopback is a connection to a peer in the same process, with every message encoded.
type loopback struct {
	request func(ctx context.Context, method string, params json.RawMessage) (codec.Encoder, error)
	notice  func(ctx context.Context, method string, params json.RawMessage) error
}

func params(p codec.Encoder) (json.RawMessage, error) {
	if p == nil {
		return nil, nil
	}
	return codec.Marshal(p)
}

func (l loopback) Call(ctx context.Context, method string, p codec.Encoder) (json.RawMessage, error) {
	raw, err := params(p)
	if err != nil {
		return nil, err
	}
	result, err := l.request(ctx, method, raw)
	if err != nil {
		return nil, err
	}
	return codec.Marshal(result)
}

func (l loopback) Notify(ctx context.Context, method string, p codec.Encoder) error {
	raw, err := params(p)
	if err != nil {
		return err
	}
	return l.notice(ctx, method, raw)
}

// server handles two requests and records notifications.
type server struct {
	mcp.UnimplementedServerHandler
	mcp.UnimplementedServerNotificationHandler
	seen []string
}

func (s *server) CallTool(ctx context.Context, p *mcp.CallToolRequestParams) (mcp.CallToolOutcome, error) {
	s.seen = append(s.seen, "call "+p.Name+" "+string(p.Arguments))
	if p.Task != nil {
		return &mcp.CreateTaskResult{Task: mcp.Task{TaskID: "t", Status: mcp.TaskStatusWorking, TTL: p.Task.TTL}}, nil
	}
	return &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: "done"}}}, nil
}

func (s *server) ListTools(ctx context.Context, p *mcp.PaginatedRequestParams) (*mcp.ListToolsResult, error) {
	if p != nil {
		s.seen = append(s.seen, "list "+*p.Cursor)
		return nil, &jsonrpc.Error{Code: -32602, Message: "bad cursor"}
	}
	s.seen = append(s.seen, "list")
	return &mcp.ListToolsResult{Tools: []mcp.Tool{{Name: "sleep"}}}, nil
}

func (s *server) Progress(ctx context.Context, p *mcp.ProgressNotificationParams) error {
	s.seen = append(s.seen, fmt.Sprint("progress ", p.Progress))
	return nil
}

func (s *server) Initialized(ctx context.Context, p *mcp.NotificationParams) error {
	s.seen = append(s.seen, fmt.Sprint("initialized ", p == nil))
	return nil
}

func connect(s *server, rev mcp.Revision) (mcp.ToServer, mcp.NotifyServer) {
	l := loopback{
		func(ctx context.Context, method string, params json.RawMessage) (codec.Encoder, error) {
			return mcp.DispatchServer(ctx, s, rev, method, params)
		},
		func(ctx context.Context, method string, params json.RawMessage) error {
			return mcp.DispatchServerNotification(ctx, s, rev, method, params)
		},
	}
	return mcp.ToServer{Caller: l}, mcp.NotifyServer{Notifier: l}
}

// A typed call reaches the typed handler on the other side and returns its typed result.
func TestDispatchToAServer(t *testing.T) {
	ctx := t.Context()
	s := new(server)
	call, notify := connect(s, mcp.Revision20251125)

	got, err := call.CallTool(ctx, &mcp.CallToolRequestParams{Name: "sleep", Arguments: json.RawMessage(`{"s":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(mcp.CallToolOutcome(&mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: "done"}}}), got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	got, err = call.CallTool(ctx, &mcp.CallToolRequestParams{Name: "sleep", Task: &mcp.TaskMetadata{TTL: new(int64(5))}})
	if err != nil {
		t.Fatal(err)
	}
	if created, ok := got.(*mcp.CreateTaskResult); !ok || *created.Task.TTL != 5 {
		t.Errorf("a call as a task gives %+v", got)
	}
	tools, err := call.ListTools(ctx, nil)
	if err != nil || len(tools.Tools) != 1 || tools.Tools[0].Name != "sleep" {
		t.Errorf("tools are %+v, %v", tools, err)
	}
	_, err = call.ListTools(ctx, &mcp.PaginatedRequestParams{Cursor: new("c")})
	if diff := cmp.Diff(&jsonrpc.Error{Code: -32602, Message: "bad cursor"}, err); diff != "" {
		t.Errorf("error of the handler (-want +got):\n%s", diff)
	}
	if _, err = call.GetTask(ctx, &mcp.GetTaskRequestParams{TaskID: "t"}); jsonrpc.CodeOf(err) != jsonrpc.CodeMethodNotFound {
		t.Errorf("a request without a handler: %v", err)
	}
	if err := notify.Progress(ctx, &mcp.ProgressNotificationParams{Progress: 0.5, ProgressToken: codec.IntScalar(1)}); err != nil {
		t.Error(err)
	}
	if err := notify.Initialized(ctx, nil); err != nil {
		t.Error(err)
	}
	if err := notify.RootsListChanged(ctx, nil); err != nil {
		t.Errorf("a notification without a handler: %v", err)
	}
	want := []string{`call sleep {"s":1}`, "call sleep ", "list", "list c", "progress 0.5", "initialized true"}
	if diff := cmp.Diff(want, s.seen); diff != "" {
		t.Errorf("the server saw (-want +got):\n%s", diff)
	}
}

// Dispatch rejects invalid requests before they reach the handler, with the right error code.
func TestDispatchRejectsInvalidRequests(t *testing.T) {
	ctx := t.Context()
	for _, tt := range []struct {
		rev            mcp.Revision
		method, params string
		code           int64
	}{
		{"", "tools/call", `{"name":5}`, jsonrpc.CodeInvalidParams},
		{"", "tools/call", ``, jsonrpc.CodeInvalidParams},
		{"", "no/such", `{}`, jsonrpc.CodeMethodNotFound},
		{"", "sampling/createMessage", `{}`, jsonrpc.CodeMethodNotFound}, // goes the other way
		{"", "tools/call", `{"name":"n","_meta":{}}`, 0},
		{mcp.Revision20251125, "tools/call", `{"name":"n","task":{"ttl":"x"}}`, jsonrpc.CodeInvalidParams},
		{mcp.Revision20251125, "tools/call", ``, jsonrpc.CodeInvalidParams},
		{mcp.Revision20251125, "tools/call", `{}`, jsonrpc.CodeInvalidParams},
		{mcp.Revision20260728, "tools/call", `{"name":"n"}`, jsonrpc.CodeInvalidParams},
		{mcp.Revision20250618, "tools/call", `{"name":"n"}`, 0},
		{mcp.Revision20260728, "initialize", `{}`, jsonrpc.CodeMethodNotFound},
	} {
		s := new(server)
		_, err := mcp.DispatchServer(ctx, s, tt.rev, tt.method, json.RawMessage(tt.params))
		if got := jsonrpc.CodeOf(err); got != tt.code {
			t.Errorf("%q %s %s: got %v, want code %d", tt.rev, tt.method, tt.params, err, tt.code)
		}
		if called := s.seen != nil; called != (tt.code == 0) {
			t.Errorf("%q %s %s: handler called: %v", tt.rev, tt.method, tt.params, called)
		}
	}
	s := new(server)
	if err := mcp.DispatchServerNotification(ctx, s, mcp.Revision20251125, "notifications/progress", json.RawMessage(`{"progress":1}`)); jsonrpc.CodeOf(err) != jsonrpc.CodeInvalidParams || s.seen != nil {
		t.Errorf("got %v, seen %q", err, s.seen)
	}
	if err := mcp.DispatchServerNotification(ctx, s, "", "notifications/message", json.RawMessage(`{}`)); jsonrpc.CodeOf(err) != jsonrpc.CodeMethodNotFound {
		t.Errorf("got %v", err)
	}
}

// client handles the requests of a server.
type client struct {
	mcp.UnimplementedClientHandler
	mcp.UnimplementedClientNotificationHandler
}

func (client) Elicit(ctx context.Context, p mcp.ElicitRequestParams) (mcp.ElicitOutcome, error) {
	switch p := p.(type) {
	case *mcp.ElicitRequestFormParams:
		return &mcp.ElicitResult{Action: mcp.ElicitActionAccept, Content: map[string]mcp.ElicitResultContentValue{
			"asked": &mcp.ElicitResultContentValueScalar{Value: codec.StringScalar(p.Message)},
		}}, nil
	case *mcp.ElicitRequestURLParams:
		return &mcp.ElicitResult{Action: mcp.ElicitActionDecline}, nil
	}
	return nil, jsonrpc.MethodNotFound("elicitation/create")
}

func (client) CreateMessage(ctx context.Context, p *mcp.CreateMessageRequestParams) (mcp.CreateMessageOutcome, error) {
	return &mcp.CreateMessageResult{Model: "m", Role: mcp.RoleAssistant, Content: p.Messages[0].Content}, nil
}

func TestDispatchToAClient(t *testing.T) {
	ctx := t.Context()
	call := mcp.ToClient{Caller: loopback{request: func(ctx context.Context, method string, params json.RawMessage) (codec.Encoder, error) {
		return mcp.DispatchClient(ctx, client{}, mcp.Revision20251125, method, params)
	}}}
	got, err := call.Elicit(ctx, &mcp.ElicitRequestFormParams{Message: "name?",
		RequestedSchema: mcp.ElicitRequestFormParamsRequestedSchema{Properties: map[string]mcp.PrimitiveSchemaDefinition{}}})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "form", `{"action":"accept","content":{"asked":"name?"}}`, encode(t, got))
	got, err = call.Elicit(ctx, &mcp.ElicitRequestURLParams{Message: "m", URL: "http://x", ElicitationID: new("e")})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "URL", `{"action":"decline"}`, encode(t, got))
	message, err := call.CreateMessage(ctx, &mcp.CreateMessageRequestParams{MaxTokens: 5, Messages: []mcp.SamplingMessage{
		{Role: mcp.RoleUser, Content: mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{&mcp.TextContent{Text: "hi"}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "sampling", `{"model":"m","role":"assistant","content":{"type":"text","text":"hi"}}`, encode(t, message))
	if _, err := call.ListRoots(ctx, nil); jsonrpc.CodeOf(err) != jsonrpc.CodeMethodNotFound {
		t.Errorf("got %v", err)
	}
}

// Every definition of every revision has a type, and Definitions lists them all.
func TestDefinitionsAreComplete(t *testing.T) {
	listed := mcp.Definitions()
	if !slices.IsSorted(listed) {
		t.Error("the list is not sorted")
	}
	for _, rev := range schema.Revisions() {
		for _, name := range document(t, rev).Names() {
			if _, ok := slices.BinarySearch(listed, name); !ok || mcp.New(name) == nil {
				t.Errorf("%s of %s has no type", name, rev)
			}
		}
	}
	if mcp.New("NoSuchThing") != nil {
		t.Error("a definition that does not exist has a type")
	}
	if err := mcp.Validate(mcp.Revision20241105, "Task", []byte(`{}`)); err == nil {
		t.Error("a definition of another revision validates")
	}
	if err := mcp.Validate("1999-01-01", "Tool", []byte(`{}`)); err == nil {
		t.Error("a revision that does not exist validates")
	}
}
