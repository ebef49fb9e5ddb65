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
	mcpgoclient "github.com/mark3labs/mcp-go/client"
	mcpgotransport "github.com/mark3labs/mcp-go/client/transport"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	official "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpwire/mcpwire/runtime/session"
)

// goClient is a client of another library that is connected to our server.
type goClient struct {
	list  func(ctx context.Context) ([]string, error)
	call  func(ctx context.Context, tool string) (text string, err error) // with a progress token
	close func() error
}

// notifications holds the notifications that a goClient received.
type notifications struct {
	progress, log chan string
}

func officialClient(ctx context.Context, serverURL string, h notifications) (goClient, error) {
	c := official.NewClient(&official.Implementation{Name: "official", Version: "1"}, &official.ClientOptions{
		CreateMessageHandler: func(ctx context.Context, r *official.CreateMessageRequest) (*official.CreateMessageResult, error) {
			for i := range 3 {
				err := r.Session.NotifyProgress(ctx, &official.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1)})
				if err != nil {
					return nil, err
				}
			}
			return &official.CreateMessageResult{Role: "assistant", Model: "m", Content: &official.TextContent{Text: "forty-two"}}, nil
		},
		ElicitationHandler: func(context.Context, *official.ElicitRequest) (*official.ElicitResult, error) {
			return &official.ElicitResult{Action: "accept", Content: map[string]any{"colour": "blue"}}, nil
		},
		LoggingMessageHandler: func(_ context.Context, r *official.LoggingMessageRequest) { h.log <- fmt.Sprint(r.Params.Data) },
		ProgressNotificationHandler: func(_ context.Context, r *official.ProgressNotificationClientRequest) {
			h.progress <- fmt.Sprint(r.Params.Progress, " of ", r.Params.Total, " ", r.Params.Message)
		},
	})
	s, err := c.Connect(ctx, &official.StreamableClientTransport{Endpoint: serverURL}, nil)
	if err != nil {
		return goClient{}, err
	}
	return goClient{
		list: func(ctx context.Context) (names []string, err error) {
			result, err := s.ListTools(ctx, nil)
			if err != nil {
				return nil, err
			}
			for _, tool := range result.Tools {
				names = append(names, tool.Name)
			}
			return names, nil
		},
		call: func(ctx context.Context, tool string) (string, error) {
			p := &official.CallToolParams{Name: tool, Arguments: map[string]any{"n": 1.5}, Meta: official.Meta{}}
			p.SetProgressToken("token")
			result, err := s.CallTool(ctx, p)
			if err != nil {
				return "", err
			}
			return result.Content[0].(*official.TextContent).Text, nil
		},
		close: s.Close,
	}, nil
}

// mcpgoUser responds to requests to a client of mcp-go.
type mcpgoUser struct{}

func (mcpgoUser) CreateMessage(context.Context, mcpgo.CreateMessageRequest) (*mcpgo.CreateMessageResult, error) {
	return &mcpgo.CreateMessageResult{Model: "m", SamplingMessage: mcpgo.SamplingMessage{Role: mcpgo.RoleAssistant, Content: mcpgo.NewTextContent("forty-two")}}, nil
}

func (mcpgoUser) Elicit(context.Context, mcpgo.ElicitationRequest) (*mcpgo.ElicitationResult, error) {
	return &mcpgo.ElicitationResult{ElicitationResponse: mcpgo.ElicitationResponse{
		Action: mcpgo.ElicitationResponseActionAccept, Content: map[string]any{"colour": "blue"},
	}}, nil
}

func dialMCPGo(ctx context.Context, serverURL string, h notifications) (*mcpgoclient.Client, error) {
	conn, err := mcpgotransport.NewStreamableHTTP(serverURL, mcpgotransport.WithContinuousListening())
	if err != nil {
		return nil, err
	}
	c := mcpgoclient.NewClient(conn, mcpgoclient.WithSamplingHandler(mcpgoUser{}), mcpgoclient.WithElicitationHandler(mcpgoUser{}))
	c.OnNotification(func(n mcpgo.JSONRPCNotification) {
		fields := n.Params.AdditionalFields
		switch n.Method {
		case "notifications/message":
			h.log <- fmt.Sprint(fields["data"])
		case "notifications/progress":
			h.progress <- fmt.Sprint(fields["progress"], " of ", fields["total"], " ", fields["message"])
		}
	})
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	var hello mcpgo.InitializeRequest
	hello.Params.ProtocolVersion = mcpgo.LATEST_PROTOCOL_VERSION
	hello.Params.ClientInfo = mcpgo.Implementation{Name: "mcp-go", Version: "1"}
	_, err = c.Initialize(ctx, hello)
	return c, err
}

func mcpgoClient(ctx context.Context, serverURL string, h notifications) (goClient, error) {
	c, err := dialMCPGo(ctx, serverURL, h)
	if err != nil {
		return goClient{}, err
	}
	return goClient{
		list: func(ctx context.Context) (names []string, err error) {
			result, err := c.ListTools(ctx, mcpgo.ListToolsRequest{})
			if err != nil {
				return nil, err
			}
			for _, tool := range result.Tools {
				names = append(names, tool.Name)
			}
			return names, nil
		},
		call: func(ctx context.Context, tool string) (string, error) {
			var r mcpgo.CallToolRequest
			r.Params.Name, r.Params.Arguments = tool, map[string]any{"n": 1.5}
			r.Params.Meta = &mcpgo.Meta{ProgressToken: "token"}
			result, err := c.CallTool(ctx, r)
			if err != nil {
				return "", err
			}
			return result.Content[0].(mcpgo.TextContent).Text, nil
		},
		close: c.Close,
	}, nil
}

func TestGoClientsWithServerOverHTTP(t *testing.T) {
	for _, test := range []struct {
		name    string
		connect func(context.Context, string, notifications) (goClient, error)
		asked   string // the result of the tool that samples the client's model; mcp-go reports no progress
		cancels bool   // whether the client cancels calls whose context ends
	}{
		{"official", officialClient, "forty-two after 1,2,3", true},
		{"mcp-go", mcpgoClient, "forty-two after ", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx := t.Context()
			h := notifications{progress: make(chan string, 10), log: make(chan string, 10)}
			stopped := make(chan error, 1)
			c, err := test.connect(ctx, listen(t, tools{stopped: stopped}.serve), h)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := c.close(); err != nil {
					t.Error(err)
				}
			}()
			check := func(name string, want, got any) {
				t.Helper()
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
			call := func(ctx context.Context, tool string) string {
				t.Helper()
				text, err := c.call(ctx, tool)
				if err != nil {
					return "error: " + err.Error()
				}
				return text
			}
			next := func(from <-chan string) string {
				select {
				case s := <-from:
					return s
				case <-ctx.Done():
					return "nothing"
				}
			}

			list, err := c.list(ctx)
			if err != nil {
				t.Error(err)
			}
			check("list", names, list)
			check("echo", `{"n":1.5}`, call(ctx, "echo"))
			check("no such tool", true, strings.Contains(call(ctx, "missing"), "no such tool"))
			check("progress", "done", call(ctx, "progress"))
			for i := range 3 {
				check("progress", fmt.Sprintf("%d of 3 step %d", i+1, i+1), next(h.progress))
			}
			check("ask", test.asked, call(ctx, "ask"))
			check("elicit", `accept "blue"`, call(ctx, "elicit"))

			hanging, stop := context.WithCancel(ctx)
			defer stop()
			ended := make(chan string, 1)
			go func() { ended <- call(hanging, "hang") }() // ends with its context
			check("log", "hanging", next(h.log))
			stop()
			check("hang", true, strings.Contains(next(ended), context.Canceled.Error()))
			if test.cancels {
				select {
				case err := <-stopped:
					check("hang", true, errors.Is(err, session.ErrCancelled))
					check("log", "cancelled", next(h.log)) // the library no longer reads the stream of the call
				case <-ctx.Done():
					t.Error("the call was not cancelled")
				}
			}
			check("echo", `{"n":1.5}`, call(ctx, "echo"))
		})
	}
}

// mcp-go has no function for a tool call as a task, so the test uses its transport.
func TestMCPGoClientWithTasksOverHTTP(t *testing.T) {
	ctx := t.Context()
	h := notifications{progress: make(chan string, 10), log: make(chan string, 10)}
	c, err := dialMCPGo(ctx, listen(t, serveTasks), h)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	create := func(id int, tool string) string {
		t.Helper()
		response, err := c.GetTransport().SendRequest(ctx, mcpgotransport.JSONRPCRequest{
			JSONRPC: "2.0", ID: mcpgo.NewRequestId(int64(1000 + id)), Method: "tools/call",
			Params: map[string]any{"name": tool, "task": map[string]any{"ttl": 60_000}},
		})
		if err != nil {
			t.Fatal(err)
		}
		var created mcpgo.CreateTaskResult
		if err := json.Unmarshal(response.Result, &created); err != nil || created.Task.TaskId == "" {
			t.Fatalf("no task: %s, %v, %v", response.Result, response.Error, err)
		}
		return created.Task.TaskId
	}
	status := func(id string) mcpgo.TaskStatus {
		t.Helper()
		got, err := c.WaitForTask(ctx, mcpgo.GetTaskRequest{Params: mcpgo.GetTaskParams{TaskId: id}}, time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		return got.Status
	}

	job := create(1, "job")
	result, err := c.TaskResult(ctx, mcpgo.TaskResultRequest{Params: mcpgo.TaskResultParams{TaskId: job}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`accept "blue"`, result.Content[0].(mcpgo.TextContent).Text); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
	if got := status(job); got != mcpgo.TaskStatusCompleted {
		t.Errorf("job: %s", got)
	}
	if got := status(create(2, "fail inside")); got != mcpgo.TaskStatusFailed {
		t.Errorf("fail inside: %s", got)
	}
	forever := create(3, "forever")
	if _, err := c.CancelTask(ctx, mcpgo.CancelTaskRequest{Params: mcpgo.CancelTaskParams{TaskId: forever}}); err != nil {
		t.Error(err)
	}
	if got := status(forever); got != mcpgo.TaskStatusCancelled {
		t.Errorf("forever: %s", got)
	}
	list, err := c.ListTasks(ctx, mcpgo.ListTasksRequest{})
	if err != nil || len(list.Tasks) != 3 {
		t.Errorf("list: %+v, %v", list, err)
	}
}
