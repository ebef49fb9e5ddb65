package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// serveTasks serves tools like those of typescript/tasks-server.mjs.
func serveTasks(conn transport.Conn) error {
	manager, err := task.New(context.Background(), task.Options{Store: memory.New(), Updates: task.Updates{Poll: 50 * time.Millisecond}, Limits: task.Limits{PageSize: 2}})
	if err != nil {
		return err
	}
	cfg := &session.Options{Limits: session.Limits{ProgressInterval: -1}}
	cfg.Handler = sessiontest.ServerHandler(&jobs{tasks: requestor.Attach(cfg)}, nil)
	receiver.Attach(cfg, receiver.Options{Manager: manager})
	s := session.Serve(conn, &mcp.InitializeResult{
		Capabilities: mcp.ServerCapabilities{Tools: &mcp.ServerCapabilitiesTools{}, Tasks: receiver.ServerCapabilities(true)},
		ServerInfo:   mcp.Implementation{Name: "mcpwire", Version: "1"},
	}, cfg)
	return errors.Join(s.Wait(), manager.Close(context.Background()))
}

type jobs struct {
	mcp.UnimplementedServerHandler
	tasks *requestor.Tasks // tasks of the client
}

func (j *jobs) CallTool(ctx context.Context, p *mcp.CallToolRequestParams) (mcp.CallToolOutcome, error) {
	peer, _ := session.PeerFrom(ctx)
	switch p.Name {
	case "job":
		for i := range 2 {
			if err := peer.Report(session.Progress{Value: float64(i + 1), Total: new(2.0)}); err != nil {
				return nil, err
			}
		}
		return askColour(ctx, mcp.ToClient{Caller: peer})
	case "fail inside":
		result := text("no luck")
		result.IsError = new(true)
		return result, nil
	case "forever":
		<-ctx.Done()
		return nil, ctx.Err()
	case "think":
		req, _ := session.FromContext(ctx)
		h, err := j.tasks.CreateMessage(ctx, req.Session, &mcp.CreateMessageRequestParams{Messages: []mcp.SamplingMessage{}, MaxTokens: 10}, requestor.TTL(time.Minute))
		if err != nil {
			return nil, err
		}
		created := h.State().Status
		result, err := h.Result(ctx)
		if err != nil {
			return nil, err
		}
		return text(result.Content.Items[0].(*mcp.TextContent).Text + " from a task that was " + string(created)), nil
	}
	return nil, jsonrpc.InvalidParams(errors.New("no such tool"))
}

// askColour returns the user's answer to a question about a colour.
func askColour(ctx context.Context, client mcp.ToClient) (mcp.CallToolOutcome, error) {
	outcome, err := client.Elicit(ctx, &mcp.ElicitRequestFormParams{
		Message: "which colour?",
		RequestedSchema: mcp.ElicitRequestFormParamsRequestedSchema{
			Properties: map[string]mcp.PrimitiveSchemaDefinition{"colour": &mcp.StringSchema{}},
		},
	})
	if err != nil {
		return nil, err
	}
	answer := outcome.(*mcp.ElicitResult)
	return text(fmt.Sprint(answer.Action, " ", answer.Content["colour"].(*mcp.ElicitResultContentValueScalar).Value)), nil
}

func TestTypeScriptClientWithTasks(t *testing.T) {
	needSDK(t)
	want := strings.Join([]string{
		`job created working 60000`,
		`asked which colour? true`,
		`job result accept "blue" true`,
		`job progress [1,2]`,
		`job notified completed`,
		`job again accept "blue"`,
		`fail inside created working 60000`,
		`fail inside error after failed`,
		`fail inside progress []`,
		`fail inside true no luck failed`,
		`forever working`,
		`forever result refused -32800`,
		`forever cancelled`,
		`cancel again refused -32602`,
		`unknown refused -32602`,
		`think forty-two from a task that was working`,
		`list 3 true`,
		`done`,
		``,
	}, "\n")
	overBoth(t, "tasks-client.mjs", "tasks", serveTasks, want)
}

// user is a client that responds to elicitation and sampling.
type user struct {
	mcp.UnimplementedClientHandler
	asked    chan string   // the task of each input request
	reported chan struct{} // closed when all progress has arrived, possibly over another stream than the input request
}

func (u *user) Elicit(ctx context.Context, p mcp.ElicitRequestParams) (mcp.ElicitOutcome, error) {
	req, _ := session.FromContext(ctx)
	meta, err := req.Meta()
	if err != nil {
		return nil, err
	}
	u.asked <- meta.RelatedTask.TaskID
	select {
	case <-u.reported:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return &mcp.ElicitResult{Action: mcp.ElicitActionAccept, Content: map[string]mcp.ElicitResultContentValue{
		"colour": &mcp.ElicitResultContentValueScalar{Value: codec.StringScalar("blue")},
	}}, nil
}

func (u *user) CreateMessage(context.Context, *mcp.CreateMessageRequestParams) (mcp.CreateMessageOutcome, error) {
	return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{&mcp.TextContent{Text: "forty-two"}}}}, nil
}

func TestClientWithTypeScriptTasks(t *testing.T) {
	needSDK(t)
	overEach(t, "tasks-server.mjs", testClientWithTasks)
}

func testClientWithTasks(t *testing.T, conn transport.Conn) {
	u := &user{asked: make(chan string, 1), reported: make(chan struct{})}
	cfg := &session.Options{Limits: session.Limits{ProgressInterval: -1}, Handler: sessiontest.ClientHandler(u, nil)}
	tasks := requestor.Attach(cfg)
	manager, err := task.New(t.Context(), task.Options{Store: memory.New(), Updates: task.Updates{Poll: 50 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close(context.Background())
	receiver.Attach(cfg, receiver.Options{Manager: manager})
	s, err := session.Connect(t.Context(), conn, &mcp.InitializeRequestParams{
		Capabilities: mcp.ClientCapabilities{
			Elicitation: &mcp.ClientCapabilitiesElicitation{Form: json.RawMessage(`{}`)},
			Sampling:    &mcp.ClientCapabilitiesSampling{},
			Tasks:       receiver.ClientCapabilities(false, true, false),
		},
		ClientInfo: mcp.Implementation{Name: "mcpwire", Version: "1"},
	}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	start := func(tool string, opts ...requestor.Option) *requestor.Handle[*mcp.CallToolResult] {
		t.Helper()
		h, err := tasks.CallTool(t.Context(), s, &mcp.CallToolRequestParams{Name: tool}, append(opts, requestor.TTL(time.Minute))...)
		if err != nil {
			t.Fatal(err)
		}
		if state := h.State(); state.TaskID != h.ID() || state.TTL == nil || *state.TTL != 60_000 {
			t.Errorf("%s begins as %+v", tool, state) // any status is valid: the task may be terminal in the first response
		}
		return h
	}
	content := func(r *mcp.CallToolResult) string { return r.Content[0].(*mcp.TextContent).Text }

	job := start("job", requestor.Progress())
	progress := make(chan []float64)
	go func() { // ends with the task
		var got []float64
		for p := range job.Progress(t.Context()) {
			if got = append(got, p.Value); len(got) == 2 {
				close(u.reported)
			}
		}
		progress <- got
	}()
	result, err := job.Result(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := content(result); got != "accept blue" {
		t.Errorf("result of the job: %q", got)
	}
	if got := <-u.asked; got != job.ID() {
		t.Errorf("input request of task %q, want %q", got, job.ID())
	}
	if diff := cmp.Diff([]float64{1, 2}, <-progress); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	again, err := tasks.AttachTool(s, job.ID()).Result(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := content(again); got != "accept blue" {
		t.Errorf("repeated result of the job: %q", got)
	}

	failed := start("fail inside")
	result, err = failed.Result(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if result.IsError == nil || !*result.IsError || content(result) != "no luck" {
		t.Errorf("got %+v", result)
	}

	forever := start("forever")
	done := make(chan error)
	go func() { // ends with the task
		_, err := forever.Result(t.Context())
		done <- err
	}()
	state, err := forever.Cancel(t.Context())
	if err != nil || state.Status != mcp.TaskStatusCancelled {
		t.Errorf("got %+v, %v", state, err)
	}
	if err := <-done; !errors.Is(err, task.ErrCancelled) {
		t.Errorf("got %v, want %v", err, task.ErrCancelled)
	}
	if _, err := forever.Cancel(t.Context()); jsonrpc.CodeOf(err) != jsonrpc.CodeInvalidParams {
		t.Errorf("cancelled again: %v", err)
	}
	if _, err := tasks.AttachTool(s, "unknown").Refresh(t.Context()); jsonrpc.CodeOf(err) != jsonrpc.CodeInvalidParams {
		t.Errorf("an unknown task: %v", err)
	}

	outcome, err := mcp.ToServer{Caller: s}.CallTool(t.Context(), &mcp.CallToolRequestParams{Name: "think"})
	if err != nil {
		t.Error(err)
	} else if got := content(outcome.(*mcp.CallToolResult)); got != "forty-two from a task that was working" {
		t.Errorf("result of think: %q", got)
	}

	list, err := mcp.ToServer{Caller: s}.ListTasks(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	statuses := map[string]mcp.TaskStatus{}
	for _, task := range list.Tasks {
		statuses[task.TaskID] = task.Status
	}
	want := map[string]mcp.TaskStatus{job.ID(): mcp.TaskStatusCompleted, failed.ID(): mcp.TaskStatusFailed, forever.ID(): mcp.TaskStatusCancelled}
	if diff := cmp.Diff(want, statuses); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
}
