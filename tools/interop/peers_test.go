package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"

	mcpgoclient "github.com/mark3labs/mcp-go/client"
	mcpgotransport "github.com/mark3labs/mcp-go/client/transport"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	official "github.com/modelcontextprotocol/go-sdk/mcp"
)

// askSchema is the schema of a form with one text field.
func askSchema(field string) map[string]any {
	return map[string]any{
		"type": "object", "properties": map[string]any{field: map[string]any{"type": "string"}}, "required": []string{field},
	}
}

// newOfficialServer returns a server of the official Go SDK with the features.
func newOfficialServer(ctx context.Context, revisions ...string) *official.Server {
	s := official.NewServer(&official.Implementation{Name: "official", Version: "1"}, &official.ServerOptions{
		SupportedProtocolVersions: revisions,
		SubscribeHandler:          func(context.Context, *official.SubscribeRequest) error { return nil },
		UnsubscribeHandler:        func(context.Context, *official.UnsubscribeRequest) error { return nil },
	})
	g := newGates(ctx)
	text := func(text string, err error) (*official.CallToolResult, error) {
		return &official.CallToolResult{Content: []official.Content{&official.TextContent{Text: text}}}, err
	}
	report := func(ctx context.Context, r *official.CallToolRequest) error {
		return r.Session.NotifyProgress(ctx, &official.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1, Total: 2})
	}
	form := func(message, field string) *official.ElicitParams {
		return &official.ElicitParams{Message: message, RequestedSchema: askSchema(field)}
	}
	add := func(name, description string, call official.ToolHandler) {
		s.AddTool(&official.Tool{Name: name, Description: description, InputSchema: map[string]any{"type": "object"}}, call)
	}
	add("echo", "", func(_ context.Context, r *official.CallToolRequest) (*official.CallToolResult, error) {
		var in struct{ Text string }
		err := json.Unmarshal(r.Params.Arguments, &in)
		return text(in.Text, err)
	})
	add("work", "", func(ctx context.Context, r *official.CallToolRequest) (*official.CallToolResult, error) {
		if err := report(ctx, r); err != nil {
			return nil, err
		}
		return text(g.work(ctx))
	})
	add("proceed", "", func(context.Context, *official.CallToolRequest) (*official.CallToolResult, error) {
		g.proceed <- true
		return text("", nil)
	})
	add("ask", "", func(_ context.Context, r *official.CallToolRequest) (*official.CallToolResult, error) {
		name, _ := r.Params.InputResponses["name"].(*official.ElicitResult)
		color, _ := r.Params.InputResponses["color"].(*official.ElicitResult)
		switch {
		case color != nil:
			return text(fmt.Sprint(r.Params.RequestState, " likes ", color.Content["color"]), nil)
		case name != nil:
			return &official.CallToolResult{
				InputRequests: official.InputRequestMap{"color": form(question2, "color")}, RequestState: name.Content["name"].(string),
			}, nil
		}
		return &official.CallToolResult{InputRequests: official.InputRequestMap{"name": form(question1, "name")}}, nil
	})
	add("survey", "", func(_ context.Context, r *official.CallToolRequest) (*official.CallToolResult, error) {
		if len(r.Params.InputResponses) == 0 {
			return &official.CallToolResult{InputRequests: official.InputRequestMap{
				"name":   form(question1, "name"),
				"sample": &official.CreateMessageParams{MaxTokens: 10, Messages: []*official.SamplingMessage{{Role: "user", Content: &official.TextContent{Text: "How much?"}}}},
				"roots":  &official.ListRootsParams{},
			}}, nil
		}
		name, _ := r.Params.InputResponses["name"].(*official.ElicitResult)
		sample, _ := r.Params.InputResponses["sample"].(*official.CreateMessageWithToolsResult)
		roots, _ := r.Params.InputResponses["roots"].(*official.ListRootsResult)
		if name == nil || sample == nil || roots == nil {
			return nil, errors.New("a response is missing")
		}
		return text(fmt.Sprint(name.Content["name"], " ", sample.Content[0].(*official.TextContent).Text, " ", roots.Roots[0].URI), nil)
	})
	changing := func(context.Context, *official.CallToolRequest) (*official.CallToolResult, error) {
		return text("", nil)
	}
	add("changing", "", changing)
	add("change", "", func(context.Context, *official.CallToolRequest) (*official.CallToolResult, error) {
		add("changing", "changed", changing)
		return text("", nil)
	})
	s.AddResource(&official.Resource{URI: note, Name: "note"}, func(context.Context, *official.ReadResourceRequest) (*official.ReadResourceResult, error) {
		return &official.ReadResourceResult{Contents: []*official.ResourceContents{{URI: note, Text: "text"}}}, nil
	})
	add("touch", "", func(ctx context.Context, _ *official.CallToolRequest) (*official.CallToolResult, error) {
		err := s.ResourceUpdated(ctx, &official.ResourceUpdatedNotificationParams{URI: note})
		return text("", err)
	})
	add("hang", "", func(ctx context.Context, r *official.CallToolRequest) (*official.CallToolResult, error) {
		if err := report(ctx, r); err != nil {
			return nil, err
		}
		return nil, g.hang(ctx)
	})
	add("ended", "", func(ctx context.Context, _ *official.CallToolRequest) (*official.CallToolResult, error) {
		return text(g.waitEnded(ctx))
	})
	return s
}

// newMCPGoServer returns a server of mcp-go with the features.
func newMCPGoServer(ctx context.Context) *mcpgoserver.MCPServer {
	s := mcpgoserver.NewMCPServer("mcp-go", "1", mcpgoserver.WithToolCapabilities(true),
		mcpgoserver.WithResourceCapabilities(true, true), mcpgoserver.WithElicitation(), mcpgoserver.WithRoots())
	s.EnableSampling()
	g := newGates(ctx)
	text := func(text string, err error) (*mcpgo.CallToolResult, error) { return mcpgo.NewToolResultText(text), err }
	report := func(ctx context.Context, r mcpgo.CallToolRequest) error {
		return s.SendNotificationToClient(ctx, "notifications/progress", map[string]any{
			"progressToken": r.Params.Meta.ProgressToken, "progress": 1, "total": 2,
		})
	}
	form := func(message, field string) mcpgo.ElicitationParams {
		return mcpgo.ElicitationParams{Message: message, RequestedSchema: askSchema(field)}
	}
	field := func(r *mcpgo.ElicitationResult, name string) string {
		content, _ := r.Content.(map[string]any)
		return fmt.Sprint(content[name])
	}
	add := func(name, description string, call mcpgoserver.ToolHandlerFunc) {
		s.AddTool(mcpgo.NewTool(name, mcpgo.WithDescription(description)), call)
	}
	add("echo", "", func(_ context.Context, r mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		return text(r.GetString("text", ""), nil)
	})
	add("work", "", func(ctx context.Context, r mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		if err := report(ctx, r); err != nil {
			return nil, err
		}
		return text(g.work(ctx))
	})
	add("proceed", "", func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		g.proceed <- true
		return text("", nil)
	})
	add("ask", "", func(_ context.Context, r mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		if color := mcpgoserver.ElicitationResponse(r.Params.InputResponses, "color"); color != nil {
			return text(r.Params.RequestState+" likes "+field(color, "color"), nil)
		}
		if name := mcpgoserver.ElicitationResponse(r.Params.InputResponses, "name"); name != nil {
			return mcpgoserver.NewInputRequestBuilder(field(name, "name")).Elicit("color", form(question2, "color")).ToolResult(), nil
		}
		return mcpgoserver.NewInputRequestBuilder("").Elicit("name", form(question1, "name")).ToolResult(), nil
	})
	add("survey", "", func(_ context.Context, r mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		if len(r.Params.InputResponses) == 0 {
			return mcpgoserver.NewInputRequestBuilder("").Elicit("name", form(question1, "name")).
				Sample("sample", mcpgo.CreateMessageParams{MaxTokens: 10, Messages: []mcpgo.SamplingMessage{{
					Role: mcpgo.RoleUser, Content: mcpgo.NewTextContent("How much?"),
				}}}).Roots("roots").ToolResult(), nil
		}
		name := mcpgoserver.ElicitationResponse(r.Params.InputResponses, "name")
		sample := mcpgoserver.SamplingResponse(r.Params.InputResponses, "sample")
		roots := mcpgoserver.RootsResponse(r.Params.InputResponses, "roots")
		if name == nil || sample == nil || roots == nil {
			return nil, errors.New("a response is missing")
		}
		return text(fmt.Sprint(field(name, "name"), " ", mcpgo.GetTextFromContent(sample.Content), " ", roots.Roots[0].URI), nil)
	})
	changing := func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) { return text("", nil) }
	add("changing", "", changing)
	add("change", "", func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		add("changing", "changed", changing)
		return text("", nil)
	})
	s.AddResource(mcpgo.NewResource(note, "note"), func(context.Context, mcpgo.ReadResourceRequest) ([]mcpgo.ResourceContents, error) {
		return []mcpgo.ResourceContents{mcpgo.TextResourceContents{URI: note, Text: "text"}}, nil
	})
	add("touch", "", func(context.Context, mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		s.SendNotificationToAllClients("notifications/resources/updated", map[string]any{"uri": note})
		return text("", nil)
	})
	add("hang", "", func(ctx context.Context, r mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		if err := report(ctx, r); err != nil {
			return nil, err
		}
		return nil, g.hang(ctx)
	})
	add("ended", "", func(ctx context.Context, _ mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
		return text(g.waitEnded(ctx))
	})
	return s
}

// target is a server of this module: a URL, or the program of a child process with its environment.
type target struct {
	url     string
	program string
	env     string
}

func (s target) command() *exec.Cmd {
	cmd := exec.Command(s.program)
	cmd.Env = append(os.Environ(), s.env)
	cmd.Stderr = os.Stderr
	return cmd
}

// connectOfficial connects a client of the official Go SDK. It finds the revision if revision is
// empty.
func connectOfficial(ctx context.Context, s target, revision string) (*peer, error) {
	seen := newChanges()
	c := official.NewClient(&official.Implementation{Name: "official", Version: "1"}, &official.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *official.ElicitRequest) (*official.ElicitResult, error) {
			return &official.ElicitResult{Action: "accept", Content: answers[r.Params.Message]}, nil
		},
		CreateMessageHandler: func(context.Context, *official.CreateMessageRequest) (*official.CreateMessageResult, error) {
			return &official.CreateMessageResult{Role: "assistant", Model: "m", Content: &official.TextContent{Text: clientModel}}, nil
		},
		ToolListChangedHandler: func(context.Context, *official.ToolListChangedRequest) { seen.toolsChanged() },
		ResourceUpdatedHandler: func(_ context.Context, r *official.ResourceUpdatedNotificationRequest) {
			seen.resourceUpdated(r.Params.URI)
		},
		ProgressNotificationHandler: func(_ context.Context, r *official.ProgressNotificationClientRequest) {
			progressed(r.Params.ProgressToken)
		},
	})
	c.AddRoots(&official.Root{URI: clientRoot})
	var transport official.Transport = &official.StreamableClientTransport{Endpoint: s.url}
	if s.url == "" {
		transport = &official.CommandTransport{Command: s.command()}
	}
	sess, err := c.Connect(ctx, transport, &official.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		return nil, err
	}
	return &peer{
		revision: sess.InitializeResult().ProtocolVersion,
		call: func(ctx context.Context, tool string, args map[string]any, progress func()) (string, error) {
			p := &official.CallToolParams{Name: tool, Arguments: args}
			if progress != nil {
				token, done := onProgress(progress)
				defer done()
				p.Meta = official.Meta{}
				p.SetProgressToken(token)
			}
			result, err := sess.CallTool(ctx, p)
			if err != nil {
				return "", err
			}
			text := result.Content[0].(*official.TextContent).Text
			if result.IsError {
				return "", errors.New(text)
			}
			return text, nil
		},
		subscribe: func(ctx context.Context, uri string) error {
			return sess.Subscribe(ctx, &official.SubscribeParams{URI: uri})
		},
		changes: seen,
		close:   sess.Close,
	}, nil
}

// mcpgoHost responds to the input requests of the features.
type mcpgoHost struct{}

func (mcpgoHost) CreateMessage(context.Context, mcpgo.CreateMessageRequest) (*mcpgo.CreateMessageResult, error) {
	return &mcpgo.CreateMessageResult{Model: "m", SamplingMessage: mcpgo.SamplingMessage{Role: mcpgo.RoleAssistant, Content: mcpgo.NewTextContent(clientModel)}}, nil
}

func (mcpgoHost) Elicit(_ context.Context, r mcpgo.ElicitationRequest) (*mcpgo.ElicitationResult, error) {
	return &mcpgo.ElicitationResult{ElicitationResponse: mcpgo.ElicitationResponse{
		Action: mcpgo.ElicitationResponseActionAccept, Content: answers[r.Params.Message],
	}}, nil
}

func (mcpgoHost) ListRoots(context.Context, mcpgo.ListRootsRequest) (*mcpgo.ListRootsResult, error) {
	return &mcpgo.ListRootsResult{Roots: []mcpgo.Root{{URI: clientRoot}}}, nil
}

// connectMCPGo connects a client of mcp-go. It finds the revision, unless sessions is set.
func connectMCPGo(ctx context.Context, s target, sessions bool) (*peer, error) {
	var transport mcpgotransport.Interface
	if s.url == "" {
		transport = mcpgotransport.NewStdio(s.program, append(os.Environ(), s.env))
	} else {
		var options []mcpgotransport.StreamableHTTPCOption
		if sessions {
			options = append(options, mcpgotransport.WithContinuousListening())
		}
		var err error
		if transport, err = mcpgotransport.NewStreamableHTTP(s.url, options...); err != nil {
			return nil, err
		}
	}
	options := []mcpgoclient.ClientOption{
		mcpgoclient.WithSamplingHandler(mcpgoHost{}), mcpgoclient.WithElicitationHandler(mcpgoHost{}), mcpgoclient.WithRootsHandler(mcpgoHost{}),
	}
	if sessions {
		options = append(options, mcpgoclient.WithLegacyProtocolOnly())
	}
	c := mcpgoclient.NewClient(transport, options...)
	seen := newChanges()
	accepted := make(chan bool, 1)
	c.OnNotification(func(n mcpgo.JSONRPCNotification) {
		fields := n.Params.AdditionalFields
		switch n.Method {
		case "notifications/tools/list_changed":
			seen.toolsChanged()
		case "notifications/resources/updated":
			seen.resourceUpdated(fmt.Sprint(fields["uri"]))
		case "notifications/progress":
			progressed(fields["progressToken"])
		case "notifications/subscriptions/acknowledged":
			accepted <- true
		}
	})
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	var hello mcpgo.InitializeRequest
	hello.Params.ClientInfo = mcpgo.Implementation{Name: "mcp-go", Version: "1"}
	if _, err := c.Initialize(ctx, hello); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	closeAll := c.Close
	if c.ProtocolVersion() == mcpgo.ProtocolVersion20260728 {
		stop, err := c.ListenAsync(ctx, mcpgo.SubscriptionFilter{ToolsListChanged: true, ResourceSubscriptions: []string{note}}, nil)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		select {
		case <-accepted:
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), c.Close())
		}
		closeAll = func() error {
			stop()
			return c.Close()
		}
	}
	return &peer{
		revision: c.ProtocolVersion(),
		call: func(ctx context.Context, tool string, args map[string]any, progress func()) (string, error) {
			var r mcpgo.CallToolRequest
			r.Params.Name, r.Params.Arguments = tool, args
			if progress != nil {
				token, done := onProgress(progress)
				defer done()
				r.Params.Meta = &mcpgo.Meta{ProgressToken: token}
			}
			result, err := c.CallTool(ctx, r)
			if err != nil {
				return "", err
			}
			text := mcpgo.GetTextFromContent(result.Content[0])
			if result.IsError {
				return "", errors.New(text)
			}
			return text, nil
		},
		subscribe: func(ctx context.Context, uri string) error {
			return c.Subscribe(ctx, mcpgo.SubscribeRequest{Params: mcpgo.SubscribeParams{URI: uri}})
		},
		changes: seen,
		close:   closeAll,
	}, nil
}

// progressTokens are the calls of other SDKs' clients that want to know their progress, by token.
var (
	progressTokens sync.Map // of func()
	lastToken      atomic.Int64
)

// onProgress returns a token for which progressed calls f, until done is called.
func onProgress(f func()) (token string, done func()) {
	token = fmt.Sprint("token ", lastToken.Add(1))
	progressTokens.Store(token, f)
	return token, func() { progressTokens.Delete(token) }
}

func progressed(token any) {
	if f, ok := progressTokens.Load(token); ok {
		f.(func())()
	}
}
