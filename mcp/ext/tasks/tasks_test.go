package tasks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/internal/oracle"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
	"github.com/mcpwire/mcpwire/schema"
)

const common = `"taskId":"t","createdAt":"c","lastUpdatedAt":"l","ttlMs":null`

func same(t *testing.T, want string, v codec.Encoder) {
	t.Helper()
	got, err := codec.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if d := oracle.Diff([]byte(want), got); d != "" {
		t.Errorf("%s\nwant %s\ngot  %s", d, want, got)
	}
}

// The status of a task determines its variant, in all three definitions that contain a whole task.
func TestStatusDeterminesTaskVariant(t *testing.T) {
	for _, tt := range []struct{ text, variant string }{
		{`{` + common + `,"status":"working"}`, "Working"},
		{`{` + common + `,"status":"input_required","inputRequests":{"a":{"method":"roots/list"}}}`, "InputRequired"},
		{`{` + common + `,"status":"completed","result":{"content":[],"n":1.50}}`, "Completed"},
		{`{` + common + `,"status":"failed","error":{"code":-32603,"message":"m","data":[null]}}`, "Failed"},
		{`{` + common + `,"status":"cancelled","x":1}`, "Cancelled"},
		{`{` + common + `,"status":"asleep"}`, ""},
		{`{"status":5}`, ""},
		{`[]`, ""},
	} {
		detailed, err := codec.UnmarshalFunc([]byte(tt.text), tasks.DecodeDetailedTask)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		want := "*tasks." + tt.variant + "Task"
		if tt.variant == "" {
			want = "*tasks.Unknown"
		}
		if got := fmt.Sprintf("%T", detailed); got != want {
			t.Errorf("%s: got %s, want %s", tt.text, got, want)
		}
		same(t, tt.text, detailed)
		if tt.variant == "" {
			continue
		}
		for _, decode := range []func() (tasks.Value, error){
			func() (tasks.Value, error) { return tasks.DecodeResult("tasks/get", []byte(tt.text)) },
			func() (tasks.Value, error) { return tasks.DecodeParams("notifications/tasks", []byte(tt.text)) },
		} {
			v, err := decode()
			if err != nil {
				t.Errorf("%s: %v", tt.text, err)
				continue
			}
			same(t, tt.text, v)
		}
		if err := tasks.Validate(tasks.RevisionExtTasks, "DetailedTask", []byte(tt.text)); err != nil {
			t.Errorf("%s: %v", tt.text, err)
		}
	}
}

// Only the definitions that the extension shares with the protocol have the protocol's types.
func TestSharedDefinitions(t *testing.T) {
	src, err := schema.Read(revision)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := load.Parse(revision, revision+".json", src)
	if err != nil {
		t.Fatal(err)
	}
	own := tasks.Definitions()
	for _, name := range doc.Names() {
		_, listed := slices.BinarySearch(own, name)
		if listed != (tasks.New(name) != nil) {
			t.Errorf("%s: listed is %v, but New says otherwise", name, listed)
		}
		if !listed && mcp.New(name) == nil {
			t.Errorf("%s has a type neither here nor in package mcp", name)
		}
	}
	failed := tasks.FailedTask{Error: mcp.Error{Code: -32603, Message: "m"}}
	same(t, `{"status":"failed","error":{"code":-32603,"message":"m"},"createdAt":"","lastUpdatedAt":"","taskId":"","ttlMs":null}`, &failed)
}

type server struct {
	tasks.UnimplementedServerHandler
	updated []string
}

func (s *server) GetTask(ctx context.Context, p *tasks.GetTaskRequestParams) (tasks.GetTaskResult, error) {
	return &tasks.GetTaskResultCompleted{TaskID: p.TaskID, Result: json.RawMessage(`{"content":[]}`)}, nil
}

func (s *server) UpdateTask(ctx context.Context, p *tasks.UpdateTaskRequestParams) (*tasks.UpdateTaskResult, error) {
	for name, response := range p.InputResponses {
		s.updated = append(s.updated, fmt.Sprintf("%s %s %T", p.TaskID, name, response))
	}
	return &tasks.UpdateTaskResult{}, nil
}

// Call implements jsonrpc.Caller with a server in the same process.
func (s *server) Call(ctx context.Context, method string, params codec.Encoder) (json.RawMessage, error) {
	raw, err := codec.Marshal(params)
	if err != nil {
		return nil, err
	}
	result, err := tasks.DispatchServer(ctx, s, "", method, raw)
	if err != nil {
		return nil, err
	}
	return codec.Marshal(result)
}

func TestDispatch(t *testing.T) {
	s := new(server)
	call := tasks.ToServer{Caller: s}
	got, err := call.GetTask(t.Context(), &tasks.GetTaskRequestParams{TaskID: "t"})
	if err != nil {
		t.Fatal(err)
	}
	done, ok := got.(*tasks.GetTaskResultCompleted)
	if !ok || done.TaskID != "t" || string(done.Result) != `{"content":[]}` {
		t.Errorf("got %T %+[1]v", got)
	}
	_, err = call.UpdateTask(t.Context(), &tasks.UpdateTaskRequestParams{TaskID: "t",
		InputResponses: mcp.InputResponses{"a": &mcp.ElicitResult{Action: mcp.ElicitActionAccept}}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"t a *mcp.ElicitResult"}, s.updated); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := call.CancelTask(t.Context(), &tasks.CancelTaskRequestParams{TaskID: "t"}); jsonrpc.CodeOf(err) != jsonrpc.CodeMethodNotFound {
		t.Errorf("got %v", err)
	}
	if _, err := tasks.DispatchServer(t.Context(), s, tasks.RevisionExtTasks, "tasks/get", json.RawMessage(`{}`)); jsonrpc.CodeOf(err) != jsonrpc.CodeInvalidParams {
		t.Errorf("got %v", err)
	}
}

// A client switches on the variant of a task.
func ExampleValidate() {
	m, ok := tasks.LookupMethod("tasks/update")
	fmt.Println(m.Params, ok)
	fmt.Println(tasks.Validate(tasks.RevisionExtTasks, "Task", []byte(`{"taskId":7,"createdAt":"","lastUpdatedAt":"","ttlMs":null}`)))
	fmt.Println(tasks.ValidateParams(tasks.RevisionExtTasks, "tasks/get", []byte(`{}`)))
	// Output:
	// UpdateTaskRequestParams true
	// json: required member "status" is missing (line 1, column 1, offset 0)
	// json: /taskId: want string, got number (line 1, column 11, offset 10)
	// json: required member "taskId" is missing (line 1, column 1, offset 0)
}

func ExampleDecodeGetTaskResult() {
	result, err := tasks.DecodeResult("tasks/get", []byte(`{"resultType":"complete","taskId":"786512e2","status":"completed",
		"createdAt":"2026-07-28T10:30:00Z","lastUpdatedAt":"2026-07-28T10:31:00Z","ttlMs":60000,
		"result":{"content":[{"type":"text","text":"Done."}]}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	switch task := result.(type) {
	case *tasks.GetTaskResultCompleted:
		fmt.Println(task.TaskID, string(task.Result))
	case *tasks.GetTaskResultFailed:
		fmt.Println(task.TaskID, task.Error.Message)
	}
	// Output:
	// 786512e2 {"content":[{"type":"text","text":"Done."}]}
}
