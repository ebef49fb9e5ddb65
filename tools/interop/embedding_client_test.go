package interop

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mcpgoclient "github.com/mark3labs/mcp-go/client"
	mcpgotransport "github.com/mark3labs/mcp-go/client/transport"
	mcpgosdk "github.com/mark3labs/mcp-go/mcp"
	official "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed/gosdk"
	"github.com/mcpwire/mcpwire/runtime/embed/mcpgo"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
)

// taskClient is a client of a Go SDK with tasks of this module.
type taskClient struct {
	call   func(ctx context.Context, tool string, o ...requestor.Option) (taskHandle, error)
	invoke func(ctx context.Context, tool string) error
	attach func(id string) taskHandle
	list   func(ctx context.Context) iter.Seq2[mcp.Task, error]
}

// taskHandle is the handle of a task.
type taskHandle interface {
	ID() string
	Raw(ctx context.Context) (json.RawMessage, error)
	Updates(ctx context.Context) iter.Seq2[mcp.Task, error]
	Progress(ctx context.Context) iter.Seq[session.Progress]
	Cancel(ctx context.Context) (mcp.Task, error)
}

// taskEndpoint is a server: its URL, or the command that starts it.
type taskEndpoint struct {
	server  string // the name of its SDK
	url     string
	command []string
	env     []string // of the command
}

// officialWithTasks returns a client of the official Go SDK.
func officialWithTasks(t *testing.T, at taskEndpoint, revision string) taskClient {
	var transport official.Transport = &official.StreamableClientTransport{Endpoint: at.url}
	if at.url == "" {
		cmd := exec.Command(at.command[0], at.command[1:]...)
		cmd.Env = append(cmd.Environ(), at.env...)
		transport = &official.CommandTransport{Command: cmd, TerminateDuration: 100 * time.Millisecond}
	}
	own := official.NewClient(&official.Implementation{Name: "official", Version: "1"}, &official.ClientOptions{
		ElicitationHandler: func(context.Context, *official.ElicitRequest) (*official.ElicitResult, error) {
			return &official.ElicitResult{Action: "accept", Content: map[string]any{"colour": "blue"}}, nil
		},
	})
	c, err := gosdk.Connect(t.Context(), own, transport, &official.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	params := func(tool string) *official.CallToolParams {
		return &official.CallToolParams{Name: tool, Arguments: map[string]any{}}
	}
	return taskClient{
		func(ctx context.Context, tool string, o ...requestor.Option) (taskHandle, error) {
			return c.CallTool(ctx, params(tool), o...)
		},
		func(ctx context.Context, tool string) error {
			_, err := c.Session.CallTool(ctx, params(tool))
			return err
		},
		func(id string) taskHandle { return c.AttachTool(id) }, c.List,
	}
}

// blue is the elicitation handler of a client of mcp-go.
type blue struct{}

func (blue) Elicit(context.Context, mcpgosdk.ElicitationRequest) (*mcpgosdk.ElicitationResult, error) {
	return &mcpgosdk.ElicitationResult{ElicitationResponse: mcpgosdk.ElicitationResponse{
		Action: mcpgosdk.ElicitationResponseActionAccept, Content: map[string]any{"colour": "blue"},
	}}, nil
}

// mcpgoOver returns a transport of mcp-go to a server.
func mcpgoOver(t *testing.T, at taskEndpoint, revision string) mcpgotransport.Interface {
	if at.url == "" {
		return mcpgotransport.NewStdio(at.command[0], at.env, at.command[1:]...)
	}
	// Only with this option does the client receive notifications that belong to no request.
	var o []mcpgotransport.StreamableHTTPCOption
	if revision != mcpgosdk.ProtocolVersion20260728 {
		o = append(o, mcpgotransport.WithContinuousListening())
	}
	over, err := mcpgotransport.NewStreamableHTTP(at.url, o...)
	if err != nil {
		t.Fatal(err)
	}
	return over
}

// initialize opens the connection of a client of mcp-go.
func initialize(t *testing.T, c *mcpgoclient.Client, revision string) {
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var r mcpgosdk.InitializeRequest
	r.Params.ProtocolVersion = revision
	if _, err := c.Initialize(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// mcpgoWithTasks returns a client of mcp-go.
func mcpgoWithTasks(t *testing.T, at taskEndpoint, revision string) taskClient {
	c := mcpgo.NewClient(mcpgoOver(t, at, revision), mcpgoclient.WithElicitationHandler(blue{}))
	t.Cleanup(func() { c.Close() })
	initialize(t, c.Client, revision)
	request := func(tool string) mcpgosdk.CallToolRequest {
		return mcpgosdk.CallToolRequest{Params: mcpgosdk.CallToolParams{Name: tool, Arguments: map[string]any{}}}
	}
	return taskClient{
		func(ctx context.Context, tool string, o ...requestor.Option) (taskHandle, error) {
			return c.CallTool(ctx, request(tool), o...)
		},
		func(ctx context.Context, tool string) error {
			_, err := c.Client.CallTool(ctx, request(tool))
			return err
		},
		func(id string) taskHandle {
			h, err := c.AttachTool(id)
			if err != nil {
				t.Fatal(err)
			}
			return h
		}, c.List,
	}
}

// taskClients has the clients by the name of their SDK.
var taskClients = map[string]func(t *testing.T, at taskEndpoint, revision string) taskClient{
	"official Go SDK": officialWithTasks, "mcp-go": mcpgoWithTasks,
}

func TestGoClientsWithTypeScriptTasks(t *testing.T) {
	needSDK(t)
	for _, name := range slices.Sorted(maps.Keys(taskClients)) {
		t.Run(name+"/stdio", func(t *testing.T) {
			at := taskEndpoint{command: []string{"node", filepath.Join("typescript", "tasks-server.mjs")}}
			testTaskClient(t, taskClients[name](t, at, string(mcp.Revision20251125)), "accept blue", mcp.Revision20251125)
		})
		t.Run(name+"/HTTP", func(t *testing.T) {
			url, _ := serveTypeScript(t, "tasks-server.mjs")
			testTaskClient(t, taskClients[name](t, taskEndpoint{url: url}, string(mcp.Revision20251125)), "accept blue", mcp.Revision20251125)
		})
	}
}

// testTaskClient tests a client with tools like those of typescript/tasks-server.mjs. The result of
// the tool job is given.
func testTaskClient(t *testing.T, c taskClient, result string, revision mcp.Revision) {
	ctx := t.Context()
	start := func(tool string, o ...requestor.Option) taskHandle {
		t.Helper()
		h, err := c.call(ctx, tool, append(o, requestor.TTL(time.Minute))...)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	expect := func(h taskHandle, want string) {
		t.Helper()
		raw, err := h.Raw(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var r mcp.CallToolResult
		if err := codec.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		if got := r.Content[0].(*mcp.TextContent).Text; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	job := start("job", requestor.Progress())
	progress := make(chan []float64, 1)
	go func() { // ends with the task
		var got []float64
		for p := range job.Progress(ctx) {
			got = append(got, p.Value)
		}
		progress <- got
	}()
	expect(job, result)
	// Over HTTP, the last reports may arrive after the result: they belong to other streams.
	if got := <-progress; len(got) > 2 || !slices.IsSorted(got) {
		t.Errorf("progress is %v", got)
	}
	var states []mcp.TaskStatus
	for state, err := range c.attach(job.ID()).Updates(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, state.Status)
	}
	if diff := cmp.Diff([]mcp.TaskStatus{mcp.TaskStatusCompleted}, states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	expect(c.attach(job.ID()), result)

	failed := start("fail inside")
	expect(failed, "no luck")

	forever := start("forever")
	done := make(chan error)
	go func() { // ends with the task
		_, err := forever.Raw(ctx)
		done <- err
	}()
	if _, err := forever.Cancel(ctx); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, task.ErrCancelled) {
		t.Errorf("got %v", err)
	}
	if _, err := c.attach("unknown").Raw(ctx); jsonrpc.CodeOf(err) != jsonrpc.CodeInvalidParams {
		t.Errorf("an unknown task: %v", err)
	}
	if revision == mcp.Revision20260728 {
		return // the revision has no list of tasks
	}
	ids := map[string]bool{}
	for state, err := range c.list(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		ids[state.TaskID] = true
	}
	for _, h := range []taskHandle{job, failed, forever} { // the list also has the tasks of other tests
		if !ids[h.ID()] {
			t.Errorf("the list does not have task %q", h.ID())
		}
	}
}
