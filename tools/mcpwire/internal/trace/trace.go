// Package trace records the messages between clients and a server and shows them as a list or as a
// drawing.
//
// A [Recording] is in memory. A [Log] writes a file, and [Read] returns a Recording of it.
package trace

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/printable"
)

// Recording holds messages in the order in which they were added. The zero value is empty and ready
// to use. It is safe for concurrent use.
type Recording struct {
	mu       sync.Mutex
	start    time.Time
	rows     []row
	sessions []*conversation
	named    map[string]*conversation
	server   string // the name of the first server
}

// conversation holds the messages of one session.
type conversation struct {
	number int                 // from 1, in the order of the first messages
	client string              // the name of the client
	types  mcp.Conversation    // determines the type of each message
	asked  map[question]string // task ids of pending requests for results
}

// newConversation returns a Conversation for connections that may use the Tasks extension.
func newConversation() mcp.Conversation {
	return mcp.Conversation{Params: tasks.ReadParams, Result: tasks.ReadResult}
}

// question is a request for the result of a task.
type question struct {
	from mcp.Direction
	id   jsonrpc.ID
}

// row is one message, several consecutive messages of one kind, or an event.
type row struct {
	at      time.Duration // since the start
	session *conversation // nil for an event that belongs to no session
	from    mcp.Direction // 0 for an event
	kind    jsonrpc.Kind
	method  string // method of the request, also for a response
	detail  string
	task    string         // the task whose status the message reports, or ""
	status  mcp.TaskStatus // the reported status, or ""
	count   int
}

// Event records an event.
func (r *Recording) Event(at time.Time, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.event(at, "", text)
}

// Message records a message. It records an invalid message with its error.
func (r *Recording) Message(at time.Time, from mcp.Direction, text []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.message(at, "", from, text)
}

// conversation returns the conversation with the given name, and creates it if needed.
func (r *Recording) conversation(session string) *conversation {
	if c := r.named[session]; c != nil {
		return c
	}
	c := &conversation{number: len(r.sessions) + 1, asked: map[question]string{}, types: newConversation()}
	if r.named == nil {
		r.named = map[string]*conversation{}
	}
	r.named[session], r.sessions = c, append(r.sessions, c)
	return c
}

func (r *Recording) event(at time.Time, session, text string) {
	next := row{detail: text, count: 1}
	if session != "" {
		next.session = r.conversation(session)
	}
	r.add(at, next)
}

func (r *Recording) message(at time.Time, session string, from mcp.Direction, text []byte) {
	c := r.conversation(session)
	m, err := c.types.DecodeFrom(from, text)
	next := row{session: c, from: from, kind: m.Kind, method: m.For, count: 1}
	if err != nil {
		next.detail = "not understood: " + err.Error()
	} else {
		next.detail = describe(m)
		next.task, next.status = c.state(from, m)
		r.setNames(c, m, text)
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

// messageSize records a message of which only the size is known.
func (r *Recording) messageSize(at time.Time, session string, from mcp.Direction, detail string) {
	r.add(at, row{session: r.conversation(session), from: from, detail: detail, count: 1})
}

func (r *Recording) add(at time.Time, next row) {
	if len(r.rows) == 0 {
		r.start = at
	}
	next.at = at.Sub(r.start)
	r.rows = append(r.rows, next)
}

// setNames stores the names in the messages of the handshake. In revisions without sessions, the
// client's name is in each request, and the server's in the result of server/discover.
func (r *Recording) setNames(c *conversation, m mcp.Typed, text []byte) {
	switch p := m.Payload.(type) {
	case *mcp.InitializeRequestParams:
		c.client = p.ClientInfo.Name
	case *mcp.InitializeResult:
		r.server = cmp.Or(r.server, p.ServerInfo.Name)
	case *mcp.DiscoverResult:
		if p.Meta != nil && p.Meta.ServerInfo != nil {
			r.server = cmp.Or(r.server, p.Meta.ServerInfo.Name)
		}
	}
	if m.Kind == jsonrpc.KindRequest && c.client == "" {
		var request struct {
			Params struct {
				Meta struct {
					Client mcp.Implementation `json:"io.modelcontextprotocol/clientInfo"`
				} `json:"_meta"`
			} `json:"params"`
		}
		if json.Unmarshal(text, &request) == nil {
			c.client = request.Params.Meta.Client.Name
		}
	}
}

// state returns the task and the status that a message reports, if any.
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
	case tasks.Value:
		t := taskOf(p)
		return t.TaskID, t.Status
	}
	if m.Kind != jsonrpc.KindResponse && m.Kind != jsonrpc.KindErrorResponse || m.For != mcp.MethodTasksResult {
		return "", ""
	}
	asked := question{(mcp.FromClient | mcp.FromServer) ^ from, m.ID} // the other side sent the request
	task = c.asked[asked]
	delete(c.asked, asked)
	if task == "" || m.Kind == jsonrpc.KindErrorResponse { // the error may concern the task or the request for its result
		return "", ""
	}
	if result, ok := m.Payload.(*mcp.CallToolResult); ok && result.Failed() {
		return task, mcp.TaskStatusFailed
	}
	return task, mcp.TaskStatusCompleted
}

// extensionTask has the members of a task of the Tasks extension that a diagram shows.
type extensionTask struct {
	TaskID   string              `json:"taskId"`
	Status   mcp.TaskStatus      `json:"status"`
	Result   *mcp.CallToolResult `json:"result"`
	Error    *mcp.Error          `json:"error"`
	requests mcp.InputRequests
}

// taskOf returns the task that a payload of the Tasks extension holds. It is zero if there is none.
func taskOf(payload tasks.Value) (t extensionTask) {
	if text, err := codec.Marshal(payload); err == nil {
		codec.Unmarshal(text, value.Of(&t)) // a payload of another form is shown without its content
	}
	switch p := payload.(type) {
	case *tasks.GetTaskResultInputRequired:
		t.requests = p.InputRequests
	case *tasks.TaskStatusNotificationParamsInputRequired:
		t.requests = p.InputRequests
	}
	return t
}

// describe returns the part of a task that a diagram shows beside its message.
func (t *extensionTask) describe() string {
	switch {
	case t.requests != nil:
		return string(t.Status) + inputRequests(t.requests)
	case t.Result != nil:
		return joinNonEmpty(string(t.Status), describeResult(t.Result))
	case t.Error != nil:
		return joinNonEmpty(string(t.Status), t.Error.Message)
	}
	return string(t.Status)
}

func joinNonEmpty(status, detail string) string {
	if detail == "" {
		return status
	}
	return status + ": " + detail
}

// describeResult returns the first text of a result.
func describeResult(result *mcp.CallToolResult) string {
	for _, c := range result.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			return text.Text
		}
	}
	return ""
}

// describe summarizes the content of a message.
func describe(m mcp.Typed) string {
	if m.Error != nil {
		return m.Error.Message
	}
	switch p := m.Payload.(type) {
	case *mcp.CallToolRequestParams:
		if p.Task != nil {
			return p.Name + ", as a task"
		}
		return p.Name + responses(p.InputResponses)
	case *mcp.GetPromptRequestParams:
		return p.Name + responses(p.InputResponses)
	case *mcp.ReadResourceRequestParams:
		return p.URI + responses(p.InputResponses)
	case *mcp.InputRequiredResult:
		return "input required" + inputRequests(p.InputRequests)
	case *mcp.DiscoverResult:
		return strings.Join(p.SupportedVersions, ", ")
	case *mcp.SubscriptionsListenRequestParams:
		return filter(&p.Notifications)
	case *mcp.SubscriptionsAcknowledgedNotificationParams:
		return filter(&p.Notifications)
	case *mcp.ResourceUpdatedNotificationParams:
		return p.URI
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
	case *mcp.LoggingMessageNotificationParams:
		var text string
		if json.Unmarshal(p.Data, &text) != nil {
			text = string(p.Data)
		}
		return text
	case *mcp.ElicitRequestFormParams:
		return p.Message
	case *mcp.ElicitResult:
		return string(p.Action)
	case *mcp.CallToolResult:
		return describeResult(p)
	case *tasks.UpdateTaskRequestParams:
		return strings.TrimPrefix(responses(p.InputResponses), ", ")
	case tasks.Value:
		t := taskOf(p)
		return t.describe()
	}
	return ""
}

// responses describes the responses to input requests in a request that is sent again.
func responses(r mcp.InputResponses) string {
	if len(r) == 0 {
		return ""
	}
	return ", with input " + strings.Join(slices.Sorted(maps.Keys(r)), ", ")
}

// inputRequests describes the input requests in a result.
func inputRequests(requests mcp.InputRequests) string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(requests)) {
		method := mcp.MethodRootsList
		switch requests[key].(type) {
		case *mcp.ElicitRequest:
			method = mcp.MethodElicitationCreate
		case *mcp.CreateMessageRequest:
			method = mcp.MethodSamplingCreateMessage
		}
		list = append(list, fmt.Sprintf(", %s (%s)", key, method))
	}
	return strings.Join(list, "")
}

// filter describes the notifications that a client listens to.
func filter(f *mcp.SubscriptionFilter) string {
	var list []string
	for name, on := range map[string]*bool{"prompts": f.PromptsListChanged, "resources": f.ResourcesListChanged, "tools": f.ToolsListChanged} {
		if on != nil && *on {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return strings.Join(append(list, f.ResourceSubscriptions...), ", ")
}

// label returns the description of a row.
func (r *row) label() string {
	var parts []string
	switch r.kind {
	case jsonrpc.KindResponse:
		parts = append(parts, strings.TrimSuffix("result of "+r.method, " of "))
	case jsonrpc.KindErrorResponse:
		parts = append(parts, strings.TrimSuffix("error of "+r.method, " of "))
	case jsonrpc.KindInvalid: // an event or an invalid message
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

// Print writes the messages as a list, with the numbers of sessions if there are several.
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
