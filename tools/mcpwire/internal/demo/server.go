package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable/boltstore"
)

// Serve runs the server of the demo on standard input and output. It stores tasks in file.
func Serve(file string) error {
	return withTasks(file, "local", func(serve func(transport.Conn) *session.Session) error {
		return serve(stdio.Server(stdio.Options{})).Wait()
	})
}

// ServeHTTP runs the server of the demo over HTTP, at a loopback address that it writes to standard
// output. It stores tasks in file and sessions in a second file, and ends when standard input ends.
func ServeHTTP(file string) error {
	return withTasks(file, "", func(serve func(transport.Conn) *session.Session) error {
		events, err := boltstore.Open(file+".events", boltstore.Options{})
		if err != nil {
			return err
		}
		defer events.Close()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		handler := streamable.NewHandler(func(_ *http.Request, conn transport.Conn) { serve(conn) }, streamable.HandlerOptions{
			Store: events, StreamAfter: -1, Retry: 200 * time.Millisecond,
		})
		web := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
		ended := make(chan error, 1)
		go func() { ended <- web.Serve(listener) }() // ends with Close
		fmt.Println(listener.Addr())
		_, err = io.Copy(io.Discard, os.Stdin)
		err = errors.Join(err, handler.Close(), web.Close())
		<-ended
		return err
	})
}

// withTasks runs f with a function that serves a connection. The task manager stores tasks in file
// and runs until f returns. All connections have the given principal. If principal is "", the
// server cannot distinguish its clients, and they cannot list tasks.
func withTasks(file, principal string, f func(serve func(transport.Conn) *session.Session) error) error {
	store, err := bolt.Open(file)
	if err != nil {
		return err
	}
	defer store.Close()
	handler := session.ServerHandler(tools{}, nil)
	manager, err := task.New(context.Background(), task.Config{
		Store:   store,
		Recover: func(r task.Record) task.Work { return receiver.Work(handler, r) },
	})
	if err != nil {
		return err
	}
	defer manager.Close(context.Background())
	cfg := &session.Config{Handler: handler, Principal: principal}
	receiver.Attach(cfg, receiver.Options{Manager: manager, Support: func(context.Context, *session.Request) receiver.Support {
		return receiver.Support{Mode: mcp.TaskSupportOptional, Restartable: true}
	}})
	return f(func(conn transport.Conn) *session.Session {
		return session.Serve(conn, &mcp.InitializeResult{
			ServerInfo:   mcp.Implementation{Name: "mcpwire demo server", Version: "1"},
			Capabilities: mcp.ServerCapabilities{Tools: new(mcp.ServerCapabilitiesTools), Tasks: receiver.ServerCapabilities(principal != "")},
		}, cfg)
	})
}

// tools has one tool, which renders frames at 50 ms each.
type tools struct{ mcp.UnimplementedServerHandler }

func (tools) CallTool(ctx context.Context, p *mcp.CallToolRequestParams) (mcp.CallToolOutcome, error) {
	var args struct{ Frames int }
	if err := json.Unmarshal(p.Arguments, &args); err != nil {
		return nil, jsonrpc.InvalidParams(err)
	}
	peer, _ := session.PeerFrom(ctx)
	quality := "draft"
	for i := range args.Frames {
		if i == askAt {
			var err error
			if quality, err = ask(ctx, peer); err != nil {
				return nil, err
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		peer.Report(session.Progress{Value: float64(i + 1), Total: new(float64(args.Frames)), Message: fmt.Sprintf("frame %d", i+1)})
	}
	text := fmt.Sprintf("%d frames in %s quality", args.Frames, quality)
	return &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: text}}}, nil
}

// form is the input that the tool requests: the quality, as text.
type form struct {
	Quality string `json:"quality"`
}

func ask(ctx context.Context, peer session.Peer) (quality string, err error) {
	var schema mcp.ElicitRequestFormParamsRequestedSchema
	if err := codec.Unmarshal([]byte(`{"type":"object","properties":{"quality":{"type":"string"}},"required":["quality"]}`), &schema); err != nil {
		return "", err
	}
	raw, err := peer.Call(ctx, mcp.MethodElicitationCreate, &mcp.ElicitRequestFormParams{Message: "Which quality?", RequestedSchema: schema})
	if err != nil {
		return "", err
	}
	var result struct {
		Action  mcp.ElicitAction `json:"action"`
		Content form             `json:"content"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return "", err
	}
	if result.Action != mcp.ElicitActionAccept {
		return "draft", nil
	}
	return result.Content.Quality, nil
}

// answer returns the user's response to ask.
func answer(quality string) (*mcp.ElicitResult, error) {
	content, err := json.Marshal(form{quality})
	if err != nil {
		return nil, err
	}
	result := new(mcp.ElicitResult)
	err = codec.Unmarshal([]byte(`{"action":"accept","content":`+string(content)+`}`), result)
	return result, err
}
