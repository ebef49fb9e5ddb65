package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
)

const taskJSON = `{"createdAt":"c","lastUpdatedAt":"l","status":"working","taskId":"t","ttl":null}`

// recorded is a conversation with the expected method and payload type of each message.
var recorded = []struct{ text, about, payload string }{
	{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"n","version":"1"}}}`, "initialize", "*mcp.InitializeRequestParams"},
	{`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"n","version":"1"}}}`, "initialize", "*mcp.InitializeResult"},
	{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, "notifications/initialized", "<nil>"},
	{`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"slow","task":{"ttl":60000.0}}}`, "tools/call", "*mcp.CallToolRequestParams"},
	{`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"quick"}}`, "tools/call", "*mcp.CallToolRequestParams"},
	{`{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`, "tools/call", "*mcp.CallToolResult"},
	{`{"jsonrpc":"2.0","id":"1","result":{"task":` + taskJSON + `}}`, "tools/call", "*mcp.CreateTaskResult"},
	{`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":` + taskJSON + `}`, "notifications/tasks/status", "*mcp.TaskStatusNotificationParams"},
	{`{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":"t"}}`, "tasks/get", "*mcp.GetTaskRequestParams"},
	// The server sends requests while it works. Their ids are in use in the other direction, too.
	{`{"jsonrpc":"2.0","id":3,"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}`, "elicitation/create", "*mcp.ElicitRequestFormParams"},
	{`{"jsonrpc":"2.0","id":3,"result":{"action":"decline"}}`, "elicitation/create", "*mcp.ElicitResult"},
	{`{"jsonrpc":"2.0","id":3,"result":` + taskJSON + `}`, "tasks/get", "*mcp.GetTaskResult"},
	// The result of tasks/result has the type of the request that created the task.
	{`{"jsonrpc":"2.0","id":4,"method":"tasks/result","params":{"taskId":"t"}}`, "tasks/result", "*mcp.GetTaskPayloadRequestParams"},
	{`{"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"text","text":"a"}]}}`, "tasks/result", "*mcp.CallToolResult"},
	{`{"jsonrpc":"2.0","id":5,"method":"tasks/result","params":{"taskId":"unknown"}}`, "tasks/result", "*mcp.GetTaskPayloadRequestParams"},
	{`{"jsonrpc":"2.0","id":5,"result":{"content":[]}}`, "tasks/result", "*mcp.GetTaskPayloadResult"},
	{`{"jsonrpc":"2.0","id":6,"method":"future/call","params":{"x":[1, 2]}}`, "future/call", "<nil>"},
	{`{"jsonrpc":"2.0","id":6,"error":{"code":-32601,"message":"m"}}`, "future/call", "<nil>"},
	{`{"jsonrpc":"2.0","id":99,"result":{"x":1}}`, "", "*mcp.Result"},
	{`{"jsonrpc":"2.0","id":99,"error":{"code":-32600,"message":"m"}}`, "", "<nil>"},
}

// A conversation types responses by their requests, in one pass or after parsing, with members in
// any order.
func TestConversation(t *testing.T) {
	for _, how := range []struct {
		name string
		next func(c *mcp.Conversation, text []byte) (mcp.Typed, error)
	}{
		{"Decode", func(c *mcp.Conversation, text []byte) (mcp.Typed, error) { return c.Decode(text) }},
		{"Next", func(c *mcp.Conversation, text []byte) (mcp.Typed, error) {
			m, err := jsonrpc.Parse(text)
			if err != nil {
				return mcp.Typed{}, err
			}
			return c.Next(m)
		}},
		{"members reversed", func(c *mcp.Conversation, text []byte) (mcp.Typed, error) { return c.Decode(reversed(t, text)) }},
	} {
		t.Run(how.name, func(t *testing.T) {
			var c mcp.Conversation
			for _, r := range recorded {
				text := []byte(r.text)
				m, err := how.next(&c, text)
				if err != nil {
					t.Fatalf("%s: %v", r.text, err)
				}
				clear(text) // nothing may share memory with it
				if got := fmt.Sprintf("%T", m.Payload); m.For != r.about || got != r.payload {
					t.Errorf("%s:\ngot  %q, %s\nwant %q, %s", r.text, m.For, got, r.about, r.payload)
				}
				same(t, r.text, r.text, encode(t, &m.Message))
			}
		})
	}
}

// reversed returns a message with its members in the opposite order.
func reversed(t *testing.T, text []byte) []byte {
	t.Helper()
	var members [][]byte
	r := wire.NewReader(text, wire.Limits{})
	for r.Object(); r.More(); {
		key := fmt.Sprintf("%q:", r.Key())
		members = append([][]byte{append([]byte(key), r.Raw()...)}, members...)
	}
	if _, err := r.Failure(); err != nil {
		t.Fatal(err)
	}
	return append(append([]byte("{"), bytes.Join(members, []byte(","))...), '}')
}

func TestConversationExpects(t *testing.T) {
	var c mcp.Conversation
	id := codec.IntScalar(7)
	if c.Expects(id) {
		t.Error("a response is expected before any request")
	}
	c.Expect(id, "tools/list")
	if !c.Expects(id) || c.Expects(codec.StringScalar("7")) {
		t.Error("the response to id 7 is not expected, or that to \"7\" is")
	}
	m, err := c.Decode([]byte(`{"jsonrpc":"2.0","id":7,"result":{"tools":[]}}`))
	if err != nil || m.For != "tools/list" {
		t.Errorf("got %+v, %v", m, err)
	}
	if _, ok := m.Payload.(*mcp.ListToolsResult); !ok || c.Expects(id) {
		t.Errorf("got %T, and more is expected: %v", m.Payload, c.Expects(id))
	}
}

// A payload of the wrong shape is an error with its place in the message. The conversation
// continues.
func TestConversationContinuesAfterFaults(t *testing.T) {
	var c mcp.Conversation
	m, err := c.Decode([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}`))
	var e *codec.Error
	if !errors.As(err, &e) || e.Pointer != "/params/name" || jsonrpc.CodeOf(err) != jsonrpc.CodeInvalidParams {
		t.Errorf("got %v", err)
	}
	if m.Kind != jsonrpc.KindRequest || m.For != "tools/call" {
		t.Errorf("got %+v", m)
	}
	m, err = c.Decode([]byte(`{"jsonrpc":"2.0","id":1,"result":{"content":{}}}`))
	if !errors.As(err, &e) || e.Pointer != "/result/content" || m.For != "tools/call" || c.Expects(codec.IntScalar(1)) {
		t.Errorf("got %+v, %v", m, err)
	}
	if _, err = c.Decode([]byte(`{"jsonrpc":"2.0","id":2,`)); jsonrpc.CodeOf(err) != jsonrpc.CodeParseError {
		t.Errorf("got %v", err)
	}
}

// An invalid response does not complete its request. A valid response after it still does.
func TestInvalidResponseDoesNotCompleteItsRequest(t *testing.T) {
	for _, bad := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"tools":[}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"tools":[]}} {}`,
		`{"jsonrpc":"2.0","id":1,"result":{"tools":[]},"id":1}`,
		`{"jsonrpc":"2.0","id":1,"result":{"tools":[]},"error":{"code":1,"message":"m"}}`,
		`{"jsonrpc":"1.0","id":1,"error":{"code":1,"message":"m"}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"mess`,
	} {
		var c mcp.Conversation
		c.Expect(codec.IntScalar(1), "tools/list")
		if m, err := c.Decode([]byte(bad)); err == nil || m.For != "tools/list" && m.For != "" {
			t.Errorf("%s: got %+v, %v", bad, m, err)
		}
		m, err := c.Decode([]byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`))
		if _, ok := m.Payload.(*mcp.ListToolsResult); !ok || err != nil || m.For != "tools/list" || c.Expects(codec.IntScalar(1)) {
			t.Errorf("behind %s: got a %T for %q, %v", bad, m.Payload, m.For, err)
		}
	}
}

// A single message is typed by its method, or by that of its request.
func TestDecodeRequestAndResponse(t *testing.T) {
	m, err := mcp.DecodeRequest([]byte(`{"jsonrpc":"2.0","id":1,"params":{"name":"n","x":1},"method":"tools/call","y":2}`))
	if err != nil {
		t.Fatal(err)
	}
	if call, ok := m.Payload.(*mcp.CallToolRequestParams); !ok || call.Name != "n" || m.Params != nil {
		t.Errorf("got %+v", m)
	}
	same(t, "request", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n","x":1},"y":2}`, encode(t, &m))

	m, err = mcp.DecodeResponse("tools/call", []byte(`{"result":{"task":`+taskJSON+`},"jsonrpc":"2.0","id":"a"}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := m.Payload.(*mcp.CreateTaskResult); !ok {
		t.Errorf("got %T", m.Payload)
	}
	m, err = mcp.DecodeResponse("tools/call", []byte(`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":[1e400]}}`))
	if err != nil || m.Kind != jsonrpc.KindErrorResponse || string(m.Error.Data) != "[1e400]" {
		t.Errorf("got %+v, %v", m, err)
	}
	m, err = mcp.DecodeRequest([]byte(`{"jsonrpc":"2.0","id":1,"method":"future/call","params":{"x": 1}}`))
	if err != nil || m.Payload != nil || string(m.Params) != `{"x": 1}` {
		t.Errorf("an unknown method: got %+v, %v", m, err)
	}
	for text, code := range map[string]int64{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}`:                    jsonrpc.CodeInvalidParams,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":1}}`:            jsonrpc.CodeInvalidParams,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":1}}`: jsonrpc.CodeParseError,
		`{"jsonrpc":"1.0","id":1,"method":"ping"}`:                                      jsonrpc.CodeInvalidRequest,
		`{"jsonrpc":"2.0","id":1,"method":"ping"} {}`:                                   jsonrpc.CodeParseError,
	} {
		if _, err := mcp.DecodeRequest([]byte(text)); jsonrpc.CodeOf(err) != code {
			t.Errorf("%s: got %v, want code %d", text, err, code)
		}
	}
}

type listener struct {
	mcp.UnimplementedClientNotificationHandler
	seen []string
}

func (l *listener) LoggingMessage(ctx context.Context, p *mcp.LoggingMessageNotificationParams) error {
	l.seen = append(l.seen, string(p.Level)+" "+string(p.Data))
	return nil
}

func (l *listener) TaskStatus(ctx context.Context, p *mcp.TaskStatusNotificationParams) error {
	l.seen = append(l.seen, p.TaskID+" "+string(p.Status))
	return errors.New("refused")
}

// Notifications of a server reach the handler of a client.
func TestNotifyClient(t *testing.T) {
	l := new(listener)
	n := mcp.NotifyClient{Notifier: loopback{notice: func(ctx context.Context, method string, params json.RawMessage) error {
		return mcp.DispatchClientNotification(ctx, l, mcp.Revision20251125, method, params)
	}}}
	if err := n.LoggingMessage(t.Context(), &mcp.LoggingMessageNotificationParams{Level: mcp.LoggingLevelInfo, Data: json.RawMessage(`"a"`)}); err != nil {
		t.Error(err)
	}
	if err := n.ToolListChanged(t.Context(), nil); err != nil {
		t.Error(err)
	}
	err := n.TaskStatus(t.Context(), &mcp.TaskStatusNotificationParams{TaskID: "t", Status: mcp.TaskStatusCompleted})
	if err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
	if err := n.LoggingMessage(t.Context(), &mcp.LoggingMessageNotificationParams{Level: "loud", Data: json.RawMessage(`1`)}); jsonrpc.CodeOf(err) != jsonrpc.CodeInvalidParams {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff([]string{`info "a"`, "t completed"}, l.seen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Both sides number their requests from 1, and the responses cross.
func TestConversationWithCrossingAnswers(t *testing.T) {
	type step struct {
		from mcp.Direction
		text string
		want string // method and type
	}
	steps := []step{
		{mcp.FromClient, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"f"}}`, "tools/call *mcp.CallToolRequestParams"},
		{mcp.FromServer, `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}`, "elicitation/create *mcp.ElicitRequestFormParams"},
		{mcp.FromServer, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`, "tools/call *mcp.CallToolResult"},
		{mcp.FromClient, `{"jsonrpc":"2.0","id":1,"result":{"action":"decline"}}`, "elicitation/create *mcp.ElicitResult"},
	}
	var directed, undirected mcp.Conversation
	for _, s := range steps {
		for name, decode := range map[string]func() (mcp.Typed, error){
			"DecodeFrom": func() (mcp.Typed, error) { return directed.DecodeFrom(s.from, []byte(s.text)) },
			"Decode":     func() (mcp.Typed, error) { return undirected.Decode([]byte(s.text)) },
		} {
			m, err := decode()
			if got := fmt.Sprintf("%s %T", m.For, m.Payload); err != nil || got != s.want {
				t.Errorf("%s of %s: %s, %v; want %s", name, s.text, got, err, s.want)
			}
		}
	}

	// Decode does not guess if the results do not tell the requests apart.
	var c mcp.Conversation
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}`,
	} {
		m, err := c.Decode([]byte(text))
		if _, ok := m.Payload.(*mcp.Result); err != nil || m.Kind == jsonrpc.KindResponse && (!ok || m.For != "") {
			t.Errorf("%s: for %q, %T, %v", text, m.For, m.Payload, err)
		}
	}
	if id := codec.IntScalar(1); c.Expects(id) {
		t.Error("a request is left over")
	}
}
