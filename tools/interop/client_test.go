package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// host is a client with a model for sampling.
type host struct {
	mcp.UnimplementedClientHandler
	mcp.UnimplementedClientNotificationHandler
	log       chan string
	cancelled chan error
}

func (h *host) CreateMessage(ctx context.Context, p *mcp.CreateMessageRequestParams) (mcp.CreateMessageOutcome, error) {
	if p.MaxTokens == 1 { // the server cancels this request
		<-ctx.Done()
		h.cancelled <- context.Cause(ctx)
		return nil, ctx.Err()
	}
	peer, _ := session.PeerFrom(ctx)
	for i := range 3 {
		if err := peer.Report(session.Progress{Value: float64(i + 1)}); err != nil {
			return nil, err
		}
	}
	if req, ok := session.FromContext(ctx); ok {
		if err := settle(ctx, req.Session); err != nil {
			return nil, err
		}
	}
	return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{&mcp.TextContent{Text: "forty-two"}}}}, nil
}

func (h *host) LoggingMessage(_ context.Context, p *mcp.LoggingMessageNotificationParams) error {
	h.log <- string(p.Data)
	return nil
}

func TestClientWithTypeScriptServer(t *testing.T) {
	needSDK(t)
	overEach(t, "server.mjs", testClient)
}

func testClient(t *testing.T, conn transport.Conn) {
	h := &host{log: make(chan string, 10), cancelled: make(chan error, 1)}
	s, err := session.Connect(t.Context(), conn, &mcp.InitializeRequestParams{
		Capabilities: mcp.ClientCapabilities{Sampling: &mcp.ClientCapabilitiesSampling{}},
		ClientInfo:   mcp.Implementation{Name: "mcpwire", Version: "1"},
	}, &session.Options{Limits: session.Limits{ProgressInterval: -1}, Revisions: both, Handler: sessiontest.ClientHandler(h, h)})
	if err != nil {
		t.Fatal(err)
	}
	call := func(ctx context.Context, tool string, opts ...session.Option) string {
		t.Helper()
		outcome, err := mcp.ToServer{Caller: s.With(opts...)}.CallTool(ctx, &mcp.CallToolRequestParams{Name: tool, Arguments: json.RawMessage(`{"n":1.5}`)})
		if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
			return fmt.Sprint("error ", e.Code, " ", string(e.Data))
		}
		if err != nil {
			return err.Error()
		}
		return outcome.(*mcp.CallToolResult).Content[0].(*mcp.TextContent).Text
	}
	check := func(name, want, got string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}

	check("name", "typescript", s.Server().ServerInfo.Name)
	check("instructions", "Be nice.", *s.Server().Instructions)
	check("revision", string(mcp.Revision20251125), string(s.Revision()))
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	check("their ping", "pong", call(t.Context(), "ping"))
	check("echo", `{"n":1.5}`, call(t.Context(), "echo"))
	check("fail", `error -32602 {"a":1}`, call(t.Context(), "fail"))

	var progress []string
	got := call(t.Context(), "progress", session.OnProgress(func(p session.Progress) {
		progress = append(progress, fmt.Sprint(p.Value, " of ", *p.Total, " ", p.Message))
	}))
	check("progress", "done", got)
	check("progress", "[1 of 3 step 1 2 of 3 step 2 3 of 3 step 3]", fmt.Sprint(progress))

	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { // ends with the message
		check("log", `"hanging"`, <-h.log)
		cancel(errors.New("no patience"))
	}()
	check("hang", "no patience", call(ctx, "hang"))
	check("log", `"cancelled: no patience"`, <-h.log)
	check("timeout", session.ErrTimeout.Error(), call(t.Context(), "hang", session.Timeout(300*time.Millisecond)))
	check("log", `"hanging"`, <-h.log)
	check("log", `"cancelled: `+session.ErrTimeout.Error()+`"`, <-h.log)

	check("ask", "forty-two after 1,2,3", call(t.Context(), "ask"))
	check("give up", "gave up", call(t.Context(), "give up"))
	if err := <-h.cancelled; !errors.Is(err, session.ErrCancelled) {
		t.Errorf("the sampling request was cancelled with %v", err)
	}

	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() { check("echo", `{"n":1.5}`, call(t.Context(), "echo")) })
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
