// Package trace keeps what went over the wire between a client and a server, and shows it: as a list, or drawn.
//
// A [Recording] is in memory. A [Log] writes a file that [Read] makes a Recording of again.
package trace

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/printable"
)

// Recording is what went over the wire, in the order in which it was told. The zero value is empty and ready to use,
// by several goroutines.
type Recording struct {
	mu       sync.Mutex
	start    time.Time
	rows     []row
	sessions []*conversation
	named    map[string]*conversation
	server   string // what the first server calls itself
}

// conversation is what one client and its server say.
type conversation struct {
	number int                 // from 1, in the order in which they begin
	client string              // what the client calls itself
	kept   mcp.Conversation    // gives each message its type
	asked  map[question]string // the tasks whose results are waited for
}

// question is a request for the result of a task.
type question struct {
	from mcp.Direction
	id   jsonrpc.ID
}

// row is one message, several of a kind in a row, or an event.
type row struct {
	at      time.Duration // since the start
	session *conversation // nil for an event that belongs to none
	from    mcp.Direction // 0 for an event
	kind    jsonrpc.Kind
	method  string // that is called or answered
	detail  string
	task    string         // whose status the message tells, or ""
	status  mcp.TaskStatus // that the message tells, or ""
	count   int
}

// Event records something that happened beside the messages.
func (r *Recording) Event(at time.Time, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.event(at, "", text)
}

// Message records a message. One that is none is recorded with what is wrong with it.
func (r *Recording) Message(at time.Time, from mcp.Direction, text []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.message(at, "", from, text)
}

// in returns the conversation of a name.
func (r *Recording) in(session string) *conversation {
	if c := r.named[session]; c != nil {
		return c
	}
	c := &conversation{number: len(r.sessions) + 1, asked: map[question]string{}}
	if r.named == nil {
		r.named = map[string]*conversation{}
	}
	r.named[session], r.sessions = c, append(r.sessions, c)
	return c
}

func (r *Recording) event(at time.Time, session, text string) {
	next := row{detail: text, count: 1}
	if session != "" {
		next.session = r.in(session)
	}
	r.add(at, next)
}

func (r *Recording) message(at time.Time, session string, from mcp.Direction, text []byte) {
	c := r.in(session)
	m, err := c.kept.DecodeFrom(from, text)
	next := row{session: c, from: from, kind: m.Kind, method: m.For, count: 1}
	if err != nil {
		next.detail = "not understood: " + err.Error()
	} else {
		next.detail = describe(m)
		next.task, next.status = c.state(from, m)
		r.introduce(c, m)
	}
	if n := len(r.rows); n > 0 && next.kind == jsonrpc.KindNotification && next.status == "" {
		if last := &r.rows[n-1]; last.session == c && last.from == from && last.kind == next.kind && last.method == next.method && last.status == "" {
			last.detail = next.detail
			last.count++
			return
		}
	}
	r.add(at, next)
}

// unread records a message whose text is not there.
func (r *Recording) unread(at time.Time, session string, from mcp.Direction, detail string) {
	r.add(at, row{session: r.in(session), from: from, detail: detail, count: 1})
}

func (r *Recording) add(at time.Time, next row) {
	if len(r.rows) == 0 {
		r.start = at
	}
	next.at = at.Sub(r.start)
	r.rows = append(r.rows, next)
}

// introduce notes the name that a side gives itself.
func (r *Recording) introduce(c *conversation, m mcp.Typed) {
	switch p := m.Payload.(type) {
	case *mcp.InitializeRequestParams:
		c.client = p.ClientInfo.Name
	case *mcp.InitializeResult:
		r.server = cmp.Or(r.server, p.ServerInfo.Name)
	}
}

// state says which status of which task a message tells, if any.
func (c *conversation) state(from mcp.Direction, m mcp.Typed) (task string, status mcp.TaskStatus) {
	switch p := m.Payload.(type) {
	case *mcp.CreateTaskResult:
		return p.Task.TaskID, p.Task.Status
	case *mcp.GetTaskResult:
		return p.TaskID, p.Status
	case *mcp.CancelTaskResult:
		return p.TaskID, p.Status
	case *mcp.TaskStatusNotificationParams:
		return p.TaskID, p.Status
	case *mcp.GetTaskPayloadRequestParams:
		c.asked[question{from, m.ID}] = p.TaskID
		return "", ""
	}
	if m.Kind != jsonrpc.KindResponse && m.Kind != jsonrpc.KindErrorResponse || m.For != mcp.MethodTasksResult {
		return "", ""
	}
	asked := question{(mcp.FromClient | mcp.FromServer) ^ from, m.ID} // of the other side
	task = c.asked[asked]
	delete(c.asked, asked)
	if task == "" || m.Kind == jsonrpc.KindErrorResponse { // an error can be that of the task or of asking for it
		return "", ""
	}
	if result, ok := m.Payload.(*mcp.CallToolResult); ok && result.IsError != nil && *result.IsError {
		return task, mcp.TaskStatusFailed
	}
	return task, mcp.TaskStatusCompleted
}

// describe says in a few words what is in a message.
func describe(m mcp.Typed) string {
	if m.Error != nil {
		return m.Error.Message
	}
	switch p := m.Payload.(type) {
	case *mcp.CallToolRequestParams:
		if p.Task != nil {
			return p.Name + ", as a task"
		}
		return p.Name
	case *mcp.CreateTaskResult:
		return string(p.Task.Status)
	case *mcp.GetTaskResult:
		return string(p.Status)
	case *mcp.CancelTaskResult:
		return string(p.Status)
	case *mcp.TaskStatusNotificationParams:
		return string(p.Status)
	case *mcp.ProgressNotificationParams:
		if p.Total != nil {
			return fmt.Sprintf("%v of %v", p.Progress, *p.Total)
		}
		return fmt.Sprint(p.Progress)
	case *mcp.ElicitRequestFormParams:
		return p.Message
	case *mcp.ElicitResult:
		return string(p.Action)
	case *mcp.CallToolResult:
		for _, c := range p.Content {
			if text, ok := c.(*mcp.TextContent); ok {
				return text.Text
			}
		}
	}
	return ""
}

// label names a row.
func (r *row) label() string {
	var parts []string
	switch r.kind {
	case jsonrpc.KindResponse:
		parts = append(parts, strings.TrimSuffix("result of "+r.method, " of "))
	case jsonrpc.KindErrorResponse:
		parts = append(parts, strings.TrimSuffix("error of "+r.method, " of "))
	case jsonrpc.KindInvalid: // an event, or no message
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

// Print writes the conversations as a list, with their numbers if there are several.
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
			arrow = "        •        "
		}
		session := ""
		if len(r.sessions) > 1 {
			session = "    "
			if row.session != nil {
				session = fmt.Sprintf("%-4d", row.session.number)
			}
		}
		if _, err := fmt.Fprintf(w, "%7.3f s  %s%s  %s\n", row.at.Seconds(), session, arrow, printable.Line(row.label())); err != nil {
			return err
		}
	}
	return nil
}
