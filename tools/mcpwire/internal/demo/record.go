package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Recording is what went over the wire, in the order the client saw it.
type Recording struct {
	start time.Time
	mu    sync.Mutex
	rows  []row
	kept  mcp.Conversation // gives each message its type
}

// row is one message, several of a kind in a row, or an event.
type row struct {
	at     time.Duration // since the start
	from   mcp.Direction // 0 for an event
	kind   jsonrpc.Kind
	method string // that is called or answered
	detail string
	status mcp.TaskStatus // that the message tells, or ""
	count  int
}

func newRecording() *Recording { return &Recording{start: time.Now()} }

// note records an event.
func (r *Recording) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, row{at: time.Since(r.start), detail: text, count: 1})
}

// message records a message.
func (r *Recording) message(from mcp.Direction, text []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, err := r.kept.DecodeFrom(from, text)
	next := row{at: time.Since(r.start), from: from, kind: m.Kind, method: m.For, count: 1}
	if err != nil {
		next.detail = err.Error()
	} else {
		next.detail, next.status = describe(m)
	}
	if n := len(r.rows); n > 0 && next.kind == jsonrpc.KindNotification {
		if last := &r.rows[n-1]; last.from == from && last.kind == next.kind && last.method == next.method && next.status == "" {
			next.at, next.count = last.at, last.count+1
			*last = next
			return
		}
	}
	r.rows = append(r.rows, next)
}

// describe says in a few words what is in a message.
func describe(m mcp.Typed) (detail string, status mcp.TaskStatus) {
	if m.Error != nil {
		return m.Error.Message, ""
	}
	switch p := m.Payload.(type) {
	case *mcp.CallToolRequestParams:
		if p.Task != nil {
			return p.Name + ", as a task", ""
		}
		return p.Name, ""
	case *mcp.CreateTaskResult:
		return string(p.Task.Status), p.Task.Status
	case *mcp.GetTaskResult:
		return string(p.Status), p.Status
	case *mcp.TaskStatusNotificationParams:
		return string(p.Status), p.Status
	case *mcp.ProgressNotificationParams:
		if p.Total != nil {
			return fmt.Sprintf("%v of %v", p.Progress, *p.Total), ""
		}
		return fmt.Sprint(p.Progress), ""
	case *mcp.ElicitRequestFormParams:
		return p.Message, ""
	case *mcp.ElicitResult:
		return string(p.Action), ""
	case *mcp.CallToolResult:
		for _, c := range p.Content {
			if text, ok := c.(*mcp.TextContent); ok {
				return text.Text, ended(m.For)
			}
		}
	}
	return "", ""
}

// ended is the status of a task whose result a message is, or "".
func ended(method string) mcp.TaskStatus {
	if method == "tasks/result" {
		return mcp.TaskStatusCompleted
	}
	return ""
}

// label names a row.
func (r *row) label() string {
	var parts []string
	switch r.kind {
	case jsonrpc.KindResponse:
		parts = append(parts, "result of "+r.method)
	case jsonrpc.KindErrorResponse:
		parts = append(parts, "error of "+r.method)
	case jsonrpc.KindInvalid: // an event
	default:
		parts = append(parts, r.method)
	}
	if r.count > 1 {
		parts[0] += fmt.Sprintf(" × %d", r.count)
	}
	if r.detail != "" {
		parts = append(parts, r.detail)
	}
	return strings.Join(parts, ": ")
}

// Print writes the conversation as a list.
func (r *Recording) Print(w io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.rows {
		row := &r.rows[i]
		arrow := "client ──▶ server"
		switch row.from {
		case mcp.FromServer:
			arrow = "client ◀── server"
		case 0:
			arrow = "        ✗        "
		}
		if _, err := fmt.Fprintf(w, "%7.3f s  %s  %s\n", row.at.Seconds(), arrow, row.label()); err != nil {
			return err
		}
	}
	return nil
}

// tap returns a connection that records what goes over another one.
func (r *Recording) tap(conn transport.Conn) transport.Conn { return tapped{conn, r} }

type tapped struct {
	transport.Conn
	r *Recording
}

func (t tapped) Read() (transport.Message, error) {
	m, err := t.Conn.Read()
	if err == nil {
		t.r.message(mcp.FromServer, m.Text)
	}
	return m, err
}

func (t tapped) Write(ctx context.Context, m transport.Message) error {
	t.r.message(mcp.FromClient, m.Text)
	return t.Conn.Write(ctx, m)
}
