package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// fakeTasks are the tasks of a fake server. The next state of a task is the first of states, which
// is removed unless it is the last. A state is the members of a task after its ttlMs.
type fakeTasks struct {
	*fake
	mu       sync.Mutex
	poll     int                 // pollIntervalMs
	states   map[string][]string // by task
	sent     []string            // methods about tasks, with the responses of tasks/update
	gets     []time.Time         // of tasks/get
	refuse   func(method string) *jsonrpc.Error
	declared []string // extensions in tools/call and requests about tasks
}

func newFakeTasks(t *testing.T) *fakeTasks {
	f := &fakeTasks{fake: newFake(t), poll: 1000, states: map[string][]string{}}
	f.answer = f.respond
	return f
}

func (f *fakeTasks) respond(r *http.Request, m jsonrpc.Message) (string, *jsonrpc.Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := strings.Trim(param(m, "taskId"), `"`)
	if strings.HasPrefix(m.Method, "tasks/") && r.Header.Get("Mcp-Name") != id {
		f.t.Errorf("%s of task %q has Mcp-Name %q", m.Method, id, r.Header.Get("Mcp-Name"))
	}
	meta, _ := codec.Member(m.Params, "_meta")
	capabilities, _ := codec.Member(meta, "io.modelcontextprotocol/clientCapabilities")
	extensions, _ := codec.Member(capabilities, "extensions")
	f.declared = append(f.declared, m.Method+" "+string(extensions))
	if m.Method == "tasks/get" {
		f.gets = append(f.gets, time.Now())
	}
	if f.refuse != nil {
		if err := f.refuse(m.Method); err != nil {
			return "", err
		}
	}
	switch m.Method {
	case "tools/call":
		if param(m, "name") == `"plain"` {
			return `{"resultType":"complete","content":[{"type":"text","text":"plain"}]}`, nil
		}
		return f.state("task", "a", `"status":"working"`), nil
	case "tasks/get":
		states := f.states[id]
		if len(states) == 0 {
			return "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown task"}
		}
		if len(states) > 1 {
			f.states[id] = states[1:]
		}
		return f.state("complete", id, states[0]), nil
	case "tasks/update":
		f.sent = append(f.sent, "update "+id+" "+param(m, "inputResponses"))
	case "tasks/cancel":
		f.sent = append(f.sent, "cancel "+id)
	case "subscriptions/listen":
		return "", &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: m.Method}
	default:
		f.t.Errorf("unexpected %s", m.Method)
	}
	return `{"resultType":"complete"}`, nil
}

// state returns the state of a task.
func (f *fakeTasks) state(kind, id, rest string) string {
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	if kind != "" {
		kind = `"resultType":"` + kind + `",`
	}
	return fmt.Sprintf(`{%s"taskId":%q,"createdAt":"2000-01-01T00:00:00Z","lastUpdatedAt":%q,"ttlMs":600000,"pollIntervalMs":%d,%s}`, kind, id, now, f.poll, rest)
}

// set sets the states of a task.
func (f *fakeTasks) set(id string, states ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.states[id] = states
}

// took returns the methods about tasks since the last call.
func (f *fakeTasks) took() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	sent := f.sent
	f.sent = nil
	return sent
}

const (
	working = `"status":"working"`
	done    = `"status":"completed","result":{"content":[{"type":"text","text":"done"}]}`
)

// asking returns a state that asks for a form with each key, which has one field of that name.
func asking(keys ...string) string {
	var all []string
	for _, key := range keys {
		all = append(all, fmt.Sprintf(`%q:{"method":"elicitation/create","params":{"message":%q,"requestedSchema":{"type":"object","properties":{"x":{"type":"string"}}}}}`, key, key+"?"))
	}
	return `"status":"input_required","inputRequests":{` + strings.Join(all, ",") + `}`
}

func textOf(result *mcp.CallToolResult, err error) string {
	if err != nil {
		return err.Error()
	}
	return result.Content[0].(*mcp.TextContent).Text
}

// Proves XTASK-03, XTASK-07, XTASK-50.
func TestCallToolTakesTaskOrResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeTasks(t)
		c := f.dial(client.Options{})
		for _, x := range []struct{ tool, state, want string }{
			{"plain", "", "plain"},
			{"task", done, "done"},
			{"task", `"status":"completed","result":{"resultType":"complete","content":[{"type":"text","text":"broken"}],"isError":true}`, "broken"},
			{"task", `"status":"failed","error":{"code":-7,"message":"no way","data":{"why":[1.0,"é"]}}`, "jsonrpc: no way (code -7)"},
			{"task", `"status":"cancelled"`, task.ErrCancelled.Error()},
		} {
			f.set("a", working, x.state)
			result, err := c.CallTool(t.Context(), x.tool, nil)
			if got := textOf(result, err); got != x.want {
				t.Errorf("CallTool: got %s, want %s", got, x.want)
			}
			if e, ok := errors.AsType[*jsonrpc.Error](err); ok && string(e.Data) != `{"why":[1.0,"é"]}` {
				t.Errorf("data of the error: %s", e.Data)
			}
			f.set("a", working, x.state)
			h, err := c.StartTool(t.Context(), x.tool, nil)
			if err != nil {
				t.Fatal(err)
			}
			if want := map[string]string{"plain": "", "task": "a"}[x.tool]; h.ID() != want {
				t.Errorf("handle of task %q, want %q", h.ID(), want)
			}
			if got := textOf(h.Result(t.Context())); got != x.want {
				t.Errorf("StartTool: got %s, want %s", got, x.want)
			}
		}
		for _, got := range f.declared {
			if !strings.HasSuffix(got, ` {"io.modelcontextprotocol/tasks":{}}`) {
				t.Errorf("declared extensions: %s", got)
			}
		}
	})
}

func TestNoTasksKeepsExtensionUndeclared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeTasks(t)
		c := f.dial(client.Options{Features: client.Features{NoTasks: true, Capabilities: mcp.ClientCapabilities{Extensions: json.RawMessage(`{"com.example/x":{}}`)}}})
		if got := textOf(c.CallTool(t.Context(), "plain", nil)); got != "plain" || f.declared[0] != `tools/call {"com.example/x":{}}` {
			t.Errorf("got %s after %s", got, f.declared)
		}
		if _, err := c.CallTool(t.Context(), "task", nil); err == nil || !strings.Contains(err.Error(), `resultType "task"`) {
			t.Errorf("a task that was not asked for: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFakeTasks(t)
		c := f.dial(client.Options{Features: client.Features{Capabilities: mcp.ClientCapabilities{Extensions: json.RawMessage(`{"com.example/x":{}}`)}}})
		c.CallTool(t.Context(), "plain", nil)
		if f.declared[0] != `tools/call {"com.example/x":{},"io.modelcontextprotocol/tasks":{}}` {
			t.Errorf("declared %s", f.declared)
		}
	})
}

// Proves XTASK-08.
func TestTaskForOtherMethodsIsInvalid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.answer = func(*http.Request, jsonrpc.Message) (string, *jsonrpc.Error) {
			return `{"resultType":"task","taskId":"a","status":"working","createdAt":"2000-01-01T00:00:00Z","lastUpdatedAt":"2000-01-01T00:00:00Z","ttlMs":null,
				"tools":[],"contents":[],"messages":[],"ttl":0}`, nil
		}
		c := f.dial(client.Options{})
		for _, failed := range []error{
			second(c.Tool(t.Context(), "x")), second(c.GetPrompt(t.Context(), "x", nil)), second(c.ReadResource(t.Context(), "x:a")),
			second(c.AttachTool("a").Refresh(t.Context())),
		} {
			if failed == nil || !strings.Contains(failed.Error(), `unknown resultType "task"`) {
				t.Errorf("got %v", failed)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

// Proves XTASK-28, XTASK-30.
func TestTaskIsPolledAtItsInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeTasks(t) // which rejects subscriptions
		c := f.dial(client.Options{})
		f.set("a", append(slices.Repeat([]string{working}, 9), done)...)
		h, err := c.StartTool(t.Context(), "task", nil)
		if err != nil {
			t.Fatal(err)
		}
		f.gets = []time.Time{time.Now()}
		f.refuse = func(string) *jsonrpc.Error {
			if len(f.gets) == 6 {
				f.poll = 10 // shorter than the client polls
			}
			return nil
		}
		if got := textOf(h.Result(t.Context())); got != "done" || len(f.gets) != 11 {
			t.Fatalf("got %s after %d requests", got, len(f.gets))
		}
		for i := range f.gets[1:] {
			gap, from := f.gets[i+1].Sub(f.gets[i]), time.Second
			if i >= 5 {
				from = 100 * time.Millisecond
			}
			if gap < from || gap > from*13/10 {
				t.Errorf("poll %d after %v, want at least %v", i, gap, from)
			}
		}
	})
}

// pushing is the subscription of a fake server that reports tasks.
type pushing struct {
	mu   sync.Mutex
	send func(string)
	end  context.CancelFunc
	ids  []string // taskIds of each request
	over bool     // further requests are not accepted
}

func (p *pushing) listen(ctx context.Context, m jsonrpc.Message, send func(string)) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	filter, _ := codec.Member(m.Params, "notifications")
	ids, _ := codec.Member(filter, "taskIds")
	p.mu.Lock()
	if p.over {
		p.mu.Unlock()
		return
	}
	p.send, p.end = send, end
	p.ids = append(p.ids, string(ids))
	n := len(p.ids)
	send(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID},"notifications":` + string(filter) + `}}`)
	p.mu.Unlock()
	<-ctx.Done()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ids) == n {
		p.send = func(string) {} // the stream has ended
	}
}

func (p *pushing) push(state string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.send(`{"jsonrpc":"2.0","method":"notifications/tasks","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID},` + state[1:] + `}`)
}

func TestChangesOfTaskArePushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p := newFakeTasks(t), new(pushing)
		f.listen = p.listen
		c := f.dial(client.Options{})
		f.set("a", working)
		h, err := c.StartTool(t.Context(), "task", nil)
		if err != nil {
			t.Fatal(err)
		}
		var states []string
		got := make(chan string)
		go func() { got <- textOf(h.Result(t.Context())) }() // ends with the task
		go func() {                                          // ends with the task
			for state := range h.Updates(t.Context()) {
				states = append(states, string(state.Status)+" "+message(state))
			}
		}()
		time.Sleep(50 * time.Second)
		if n := f.requests("tasks/get"); n != 1 {
			t.Errorf("%d polls in 50 s although the server reports changes", n)
		}
		p.push(f.state("", "a", `"status":"working","statusMessage":"halfway"`))
		synctest.Wait()
		if h.State().StatusMessage == nil || *h.State().StatusMessage != "halfway" {
			t.Errorf("state %+v", h.State())
		}
		// Without the subscription, the client polls as often as the server asks for.
		f.set("a", `"status":"working","statusMessage":"halfway"`)
		p.mu.Lock()
		p.over = true
		p.end()
		p.mu.Unlock()
		before := f.requests("tasks/get")
		time.Sleep(10 * time.Second)
		if n := f.requests("tasks/get") - before; n < 8 || n > 11 {
			t.Errorf("%d polls in 10 s without subscription", n)
		}
		f.set("a", `"status":"working","statusMessage":"polled"`)
		time.Sleep(2 * time.Second)
		f.set("a", done)
		if text := <-got; text != "done" {
			t.Errorf("got %s", text)
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{"working ", "working halfway", "working polled", "completed "}, slices.Compact(states)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{`["a"]`}, p.ids); diff != "" {
			t.Errorf("subscriptions (-want +got):\n%s", diff)
		}
	})
}

// A change of a list that the server is sending while a task begins or ends is not lost.
func TestTaskDoesNotReplaceSubscriptionToLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p := newFakeTasks(t), new(pushing)
		var mu sync.Mutex
		var log []string // beginnings and ends of subscriptions
		f.listen = func(ctx context.Context, m jsonrpc.Message, send func(string)) {
			subject := "lists"
			if strings.Contains(param(m, "notifications"), "taskIds") {
				subject = "tasks"
			}
			note := func(text string) {
				mu.Lock()
				defer mu.Unlock()
				log = append(log, text)
			}
			note(subject + " begin")
			p.listen(ctx, m, send)
			note(subject + " end")
		}
		c := f.dial(client.Options{Notifications: mcp.UnimplementedClientNotificationHandler{}})
		synctest.Wait() // until the subscription to the lists is open
		f.set("a", working)
		h, err := c.StartTool(t.Context(), "task", nil)
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan string)
		go func() { got <- textOf(h.Result(t.Context())) }() // ends with the task
		time.Sleep(time.Second)
		p.push(f.state("", "a", done))
		if text := <-got; text != "done" {
			t.Errorf("got %s", text)
		}
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		want := []string{"lists begin", "tasks begin", "tasks end"}
		if diff := cmp.Diff(want, log); diff != "" {
			t.Errorf("subscriptions (-want +got):\n%s", diff)
		}
	})
}

// A server may accept a subscription to tasks without reporting anything. The client learns that
// from the first task.
func TestTaskIsPolledIfServerReportsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, p := newFakeTasks(t), new(pushing)
		f.listen = p.listen
		c := f.dial(client.Options{})
		for _, limit := range []time.Duration{80 * time.Second, 20 * time.Second, 20 * time.Second} {
			f.set("a", working)
			time.AfterFunc(15*time.Second, func() { f.set("a", done) })
			began := time.Now()
			if got := textOf(c.CallTool(t.Context(), "task", nil)); got != "done" || time.Since(began) > limit {
				t.Errorf("got %s after %v, want at most %v", got, time.Since(began), limit)
			}
		}
		// A notification shows that the server reports changes again.
		f.set("a", working)
		time.AfterFunc(10*time.Second, func() { p.push(f.state("", "a", `"status":"working","statusMessage":"halfway"`)) })
		time.AfterFunc(50*time.Second, func() { p.push(f.state("", "a", done)) })
		before := f.requests("tasks/get")
		if got := textOf(c.CallTool(t.Context(), "task", nil)); got != "done" || f.requests("tasks/get")-before > 15 {
			t.Errorf("got %s after %d polls", got, f.requests("tasks/get")-before)
		}
	})
}

func message(state mcp.Task) string {
	if state.StatusMessage == nil {
		return ""
	}
	return *state.StatusMessage
}

// Proves XTASK-33, XTASK-34, XTASK-35, XTASK-41.
func TestInputRequestsOfTaskAreAnsweredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeTasks(t)
		var mu sync.Mutex
		var asked, withdrawn []string
		answer := map[string]chan string{"a?": make(chan string), "b?": make(chan string), "c?": make(chan string)}
		c := f.dial(client.Options{Input: client.Input{Fill: func(ctx context.Context, form *client.FormRequest) (*mcp.ElicitResult, error) {
			mu.Lock()
			asked = append(asked, form.Message)
			mu.Unlock()
			select {
			case text := <-answer[form.Message]:
				return fill(form, text)
			case <-ctx.Done():
				mu.Lock()
				defer mu.Unlock()
				withdrawn = append(withdrawn, form.Message)
				return nil, ctx.Err()
			}
		}}})
		f.set("a", asking("a", "b", "c"))
		h, err := c.StartTool(t.Context(), "task", nil)
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan string)
		go func() { got <- textOf(h.Result(t.Context())) }()                 // ends with the task
		go func() { got <- textOf(c.AttachTool("a").Result(t.Context())) }() // ends with the task
		time.Sleep(time.Minute)
		answer["b?"] <- "two"
		synctest.Wait()
		if diff := cmp.Diff([]string{`update a {"b":{"action":"accept","content":{"x":"two"}}}`}, f.took()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		time.Sleep(time.Minute) // the server is slow to take the response
		f.set("a", asking("a"))
		time.Sleep(time.Minute)
		answer["a?"] <- "one"
		synctest.Wait()
		if diff := cmp.Diff([]string{`update a {"a":{"action":"accept","content":{"x":"one"}}}`}, f.took()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		f.set("a", working, done)
		for range 2 {
			if text := <-got; text != "done" {
				t.Errorf("got %s", text)
			}
		}
		slices.Sort(asked)
		if diff := cmp.Diff([]string{"a?", "b?", "c?"}, asked); diff != "" {
			t.Errorf("asked (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"c?"}, withdrawn); diff != "" {
			t.Errorf("withdrawn (-want +got):\n%s", diff)
		}
		if sent := f.took(); sent != nil {
			t.Errorf("sent %q", sent)
		}
	})
}

// When the first of two callers of Result gives up, the other one gets the result, and the handlers
// of input requests keep running.
func TestResultOutlastsFirstCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, wait := range []time.Duration{10 * time.Second, 0} { // the first caller waits for a poll, or for its answer
			f := newFakeTasks(t)
			answer := make(chan string)
			asked := 0
			c := f.dial(client.Options{Input: client.Input{Fill: func(ctx context.Context, form *client.FormRequest) (*mcp.ElicitResult, error) {
				asked++
				select {
				case text := <-answer:
					return fill(form, text)
				case <-ctx.Done():
					t.Errorf("the input request was withdrawn: %v", context.Cause(ctx))
					return nil, ctx.Err()
				}
			}}})
			f.poll = 60_000
			f.set("a", asking("a"), working, done)
			h := c.AttachTool("a")
			first, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			gaveUp := errors.New("gave up")
			if wait == 0 {
				f.refuse = func(method string) *jsonrpc.Error {
					if method == "tasks/get" && first.Err() == nil && len(f.gets) > 1 {
						cancel(gaveUp)
						f.mu.Unlock()
						<-first.Done()
						time.Sleep(time.Second)
						f.mu.Lock()
					}
					return nil
				}
			}
			got := make(chan string, 2)
			go func() { got <- textOf(h.Result(first)) }() // ends with first
			synctest.Wait()
			go func() { got <- textOf(h.Result(t.Context())) }() // ends with the task
			if wait > 0 {
				time.Sleep(wait)
				cancel(gaveUp)
			}
			if text := <-got; text != gaveUp.Error() {
				t.Errorf("the first caller got %s", text)
			}
			answer <- "one"
			if text := <-got; text != "done" || asked != 1 {
				t.Errorf("the second caller got %s after %d input requests", text, asked)
			}
		}
	})
}

// A handle in another process asks for the input that is still open.
func TestOpenInputRequestIsAskedAgainInAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeTasks(t)
		asked := 0
		user := func(ctx context.Context, form *client.FormRequest) (*mcp.ElicitResult, error) {
			if asked++; asked < 3 {
				<-ctx.Done() // the process ends before the user answers
				return nil, ctx.Err()
			}
			f.set("a", done)
			return fill(form, "yes")
		}
		f.set("a", asking("k"))
		first := f.dial(client.Options{Input: client.Input{Fill: user}})
		h, err := first.StartTool(t.Context(), "task", nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the handle itself asks again, too
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			if _, err := h.Result(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			cancel()
		}
		first.Close()
		second := f.dial(client.Options{Input: client.Input{Fill: user}})
		if got := textOf(second.AttachTool("a").Result(t.Context())); got != "done" || asked != 3 {
			t.Errorf("got %s after %d forms", got, asked)
		}
		if diff := cmp.Diff([]string{`update a {"k":{"action":"accept","content":{"x":"yes"}}}`}, f.took()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A handler that fails ends the wait for the result. The task still waits for the input, unless the
// call owns it.
func TestFailedInputOfTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeTasks(t)
		failure := errors.New("no user")
		c := f.dial(client.Options{Input: client.Input{Fill: func(context.Context, *client.FormRequest) (*mcp.ElicitResult, error) { return nil, failure }}})
		isFailure := func(err error) bool {
			e, ok := errors.AsType[*client.InputError](err)
			return ok && e.Method == "elicitation/create" && errors.Is(err, failure)
		}
		f.set("a", asking("k"))
		h, err := c.StartTool(t.Context(), "task", nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := h.Result(t.Context()); !isFailure(err) {
				t.Errorf("got %v", err)
			}
		}
		var last error
		for _, err := range h.Updates(t.Context()) {
			last = err
		}
		if !isFailure(last) {
			t.Errorf("Updates ends with %v", last)
		}
		if sent := f.took(); sent != nil {
			t.Errorf("sent %q", sent)
		}
		if _, err := c.CallTool(t.Context(), "task", nil); !isFailure(err) {
			t.Errorf("got %v", err)
		}
		if diff := cmp.Diff([]string{"cancel a"}, f.took()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		f.set("a", `"status":"input_required","inputRequests":{"k":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}}`)
		if _, err := c.CallTool(t.Context(), "task", nil); err == nil || !strings.Contains(err.Error(), "not declared") {
			t.Errorf("got %v", err)
		}
	})
}

// Proves XTASK-42.
func TestTaskIsCancelledByRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeTasks(t)
		c := f.dial(client.Options{})
		f.set("a", working)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := c.CallTool(ctx, "task", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if diff := cmp.Diff([]string{"cancel a"}, f.took()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if n := f.requests("notifications/cancelled"); n > 0 {
			t.Errorf("%d notifications/cancelled", n)
		}
		h, err := c.StartTool(t.Context(), "task", nil)
		if err != nil {
			t.Fatal(err)
		}
		// The server may finish the work all the same.
		if state, err := h.Cancel(t.Context()); err != nil || state.Status != mcp.TaskStatusWorking {
			t.Errorf("got %+v, %v", state, err)
		}
		f.set("a", working, done)
		if got := textOf(h.Result(t.Context())); got != "done" {
			t.Errorf("got %s", got)
		}
		// It may also forget the task.
		f.set("a", working)
		h, _ = c.StartTool(t.Context(), "task", nil)
		f.set("a")
		if state, err := h.Cancel(t.Context()); err != nil || state.Status != mcp.TaskStatusCancelled {
			t.Errorf("got %+v, %v", state, err)
		}
		if _, err := h.Result(t.Context()); !errors.Is(err, task.ErrCancelled) {
			t.Errorf("got %v", err)
		}
		if _, err := c.AttachTool("a").Result(t.Context()); jsonrpc.CodeOf(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("an unknown task: %v", err)
		}
	})
}

// Proves XTASK-32.
func TestTaskIsGivenUpAfterItsLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeTasks(t)
		net := &fragile{RoundTripper: f.client.Transport}
		f.client.Transport = net
		c := f.dial(client.Options{})
		f.set("a", working)
		h, err := c.StartTool(t.Context(), "task", nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() { // ends with the bubble's time
			time.Sleep(10 * time.Second)
			net.broken.Store(true)
			time.Sleep(2 * time.Minute)
			net.broken.Store(false)
			f.set("a", done)
		}()
		began := time.Now()
		if got := textOf(h.Result(t.Context())); got != "done" || time.Since(began) < 2*time.Minute {
			t.Errorf("got %s after %v", got, time.Since(began))
		}
		f.set("a", working)
		h = c.AttachTool("a")
		if _, err := h.Refresh(t.Context()); err != nil {
			t.Error(err)
		}
		net.broken.Store(true)
		if got := textOf(h.Result(t.Context())); !strings.Contains(got, "before the task expired") || time.Since(began) < 10*time.Minute {
			t.Errorf("got %s after %v", got, time.Since(began))
		}
	})
}

// fragile is a network that fails at times.
type fragile struct {
	http.RoundTripper
	broken atomic.Bool
}

func (x *fragile) RoundTrip(r *http.Request) (*http.Response, error) {
	if x.broken.Load() {
		return nil, errors.New("no network")
	}
	return x.RoundTripper.RoundTrip(r)
}

func TestTaskOutlastsTemporaryFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeTasks(t)
		c := f.dial(client.Options{Input: client.Input{Fill: func(_ context.Context, form *client.FormRequest) (*mcp.ElicitResult, error) {
			return fill(form, "yes")
		}}})
		failures := 0
		f.refuse = func(method string) *jsonrpc.Error {
			if failures++; method != "tools/call" && failures%3 != 0 {
				if failures%3 == 1 {
					return &jsonrpc.Error{Code: -31050, Message: "overloaded"}
				}
				return &jsonrpc.Error{Code: -32603, Message: "tasks are not available", Data: json.RawMessage(`{"retryAfter":1000}`)}
			}
			if method == "tasks/update" {
				f.states["a"] = []string{working, done}
			}
			return nil
		}
		f.set("a", asking("k"))
		if got := textOf(c.CallTool(t.Context(), "task", nil)); got != "done" {
			t.Errorf("got %s", got)
		}
		if diff := cmp.Diff([]string{`update a {"k":{"action":"accept","content":{"x":"yes"}}}`}, f.took()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		f.refuse = func(method string) *jsonrpc.Error {
			if method == "tasks/get" {
				return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "out of order"}
			}
			return nil
		}
		if _, err := c.CallTool(t.Context(), "task", nil); !errors.Is(err, requestor.ErrNoResult) {
			t.Errorf("got %v", err)
		}
	})
}

// A gateway whose server is down responds in its place. The user is not asked again for a response
// that a gateway has rejected.
func TestTaskOutlastsResponsesOfGateway(t *testing.T) {
	for _, x := range []struct {
		name    string
		respond func(w http.ResponseWriter)
	}{
		{"status 404", func(w http.ResponseWriter) { http.Error(w, "404 page not found", http.StatusNotFound) }},
		{"page", func(w http.ResponseWriter) { fmt.Fprint(w, "<html>Back soon.</html>") }},
		{"redirect", func(w http.ResponseWriter) {
			w.Header().Set("Location", "/maintenance")
			w.WriteHeader(http.StatusFound)
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeTasks(t)
				asked := 0
				c := f.dial(client.Options{Input: client.Input{Fill: func(_ context.Context, form *client.FormRequest) (*mcp.ElicitResult, error) {
					asked++
					return fill(form, "yes")
				}}})
				var down atomic.Pointer[string] // the method that the gateway rejects
				f.reject = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) bool {
					method := down.Load()
					if method == nil || m.Method != *method {
						return false
					}
					x.respond(w)
					return true
				}
				f.set("a", working, asking("k"))
				h, err := c.StartTool(t.Context(), "task", nil)
				if err != nil {
					t.Fatal(err)
				}
				down.Store(new("tasks/get"))
				time.AfterFunc(4*time.Minute, func() { down.Store(new("tasks/update")) })
				began := time.Now()
				_, err = h.Result(t.Context())
				if _, lost := errors.AsType[*transport.DeliveryError](err); !lost || time.Since(began) < 9*time.Minute || time.Since(began) > 11*time.Minute {
					t.Errorf("got %v after %v", err, time.Since(began))
				}
				down.Store(nil)
				time.AfterFunc(10*time.Second, func() { f.set("a", done) })
				if got := textOf(h.Result(t.Context())); got != "done" || asked != 1 {
					t.Errorf("got %s after %d forms", got, asked)
				}
				if diff := cmp.Diff([]string{`update a {"k":{"action":"accept","content":{"x":"yes"}}}`}, f.took()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				f := newFakeTasks(t)
				c := f.dial(client.Options{})
				f.reject = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) bool {
					if m.Method == "tasks/get" {
						x.respond(w)
					}
					return m.Method == "tasks/get"
				}
				began := time.Now()
				if _, err := c.AttachTool("a").Result(t.Context()); err == nil || time.Since(began) > 0 {
					t.Errorf("got %v after %v for a task of which nothing is known", err, time.Since(began))
				}
				if _, err := c.CallTool(t.Context(), "task", nil); !errors.Is(err, requestor.ErrNoResult) || time.Since(began) < 5*time.Minute {
					t.Errorf("got %v after %v", err, time.Since(began))
				}
				if diff := cmp.Diff([]string{"cancel a"}, f.took()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Codes that do not say that the server would reject the request again leave the task alone.
func TestTaskOutlastsErrorsOfServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeTasks(t)
		c := f.dial(client.Options{})
		n := 0
		f.refuse = func(method string) *jsonrpc.Error {
			if n++; method == "tasks/get" && n < 8 {
				return &jsonrpc.Error{Code: -32000, Message: "too many requests"}
			}
			return nil
		}
		f.set("a", working, done)
		if got := textOf(c.CallTool(t.Context(), "task", nil)); got != "done" {
			t.Errorf("got %s", got)
		}
		f.refuse = func(method string) *jsonrpc.Error {
			if method == "tasks/get" {
				return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method}
			}
			return nil
		}
		before := f.requests("tasks/get")
		if _, err := c.CallTool(t.Context(), "task", nil); jsonrpc.CodeOf(err) != jsonrpc.CodeMethodNotFound || f.requests("tasks/get") != before+1 {
			t.Errorf("got %v", err)
		}
	})
}

func TestRequestsAboutTasksHaveValuesOfContext(t *testing.T) {
	type userKey struct{}
	synctest.Test(t, func(t *testing.T) {
		f := newFakeTasks(t)
		var users []string
		f.reject = func(_ http.ResponseWriter, r *http.Request, m jsonrpc.Message) bool {
			if strings.HasPrefix(m.Method, "tasks/") {
				users = append(users, m.Method+" "+r.Header.Get("User"))
			}
			return false
		}
		var o client.Options
		o.HTTP.Prepare = func(r *http.Request) error {
			user, _ := r.Context().Value(userKey{}).(string)
			r.Header.Set("User", user)
			return nil
		}
		o.Input.Fill = func(ctx context.Context, form *client.FormRequest) (*mcp.ElicitResult, error) {
			user, _ := ctx.Value(userKey{}).(string)
			f.set("a", done)
			return fill(form, user)
		}
		c := f.dial(o)
		f.set("a", asking("k"))
		if got := textOf(c.CallTool(context.WithValue(t.Context(), userKey{}, "Ada"), "task", nil)); got != "done" {
			t.Errorf("got %s", got)
		}
		if diff := cmp.Diff([]string{"tasks/get Ada", "tasks/update Ada", "tasks/get Ada"}, users); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{`update a {"k":{"action":"accept","content":{"x":"Ada"}}}`}, f.took()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A handler that ignores its context does not delay the result of the task, or the end of a call.
func TestHangingHandlerDoesNotDelayResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeTasks(t)
		hang := make(chan struct{})
		var asked atomic.Int32
		c := f.dial(client.Options{Input: client.Input{Fill: func(_ context.Context, form *client.FormRequest) (*mcp.ElicitResult, error) {
			asked.Add(1)
			<-hang
			return fill(form, "late")
		}}})
		f.set("a", asking("k"))
		time.AfterFunc(10*time.Second, func() { f.set("a", done) }) // another client has responded
		if got := textOf(c.CallTool(t.Context(), "task", nil)); got != "done" {
			t.Errorf("got %s", got)
		}
		f.set("b", asking("k"))
		h := c.AttachTool("b")
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			if _, err := h.Result(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			cancel()
		}
		if n := asked.Load(); n != 2 {
			t.Errorf("%d forms, one of them while its first handler was running", n)
		}
		f.answer = func(*http.Request, jsonrpc.Message) (string, *jsonrpc.Error) {
			return `{"resultType":"input_required","inputRequests":` + strings.TrimPrefix(asking("k"), `"status":"input_required","inputRequests":`) + `}`, nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := c.CallTool(ctx, "ask", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		close(hang)
	})
}

// A server returns the result of a fast tool at once. The id of the handle is empty then.
func TestHandleWithoutID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeTasks(t)
		c := f.dial(client.Options{})
		f.set("", asking("k"))
		h := c.AttachTool("")
		if _, err := h.Result(t.Context()); err == nil || !strings.Contains(err.Error(), "no task id") {
			t.Errorf("got %v", err)
		}
		for _, err := range h.Updates(t.Context()) {
			if err == nil || !strings.Contains(err.Error(), "no task id") {
				t.Errorf("got %v", err)
			}
		}
		if n := f.requests("tasks/get"); n > 0 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestUnusableStatesOfTaskAreErrors(t *testing.T) {
	for _, x := range []struct{ name, state, want string }{
		{"long key", asking(strings.Repeat("k", 1025)), "1025 bytes"},
		{"another task", `"status":"working","taskId":"b"`, `about task "b"`},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeTasks(t)
				f.answer = func(r *http.Request, m jsonrpc.Message) (string, *jsonrpc.Error) {
					text, err := f.respond(r, m)
					if strings.Contains(x.state, "taskId") {
						text = strings.Replace(text, `"taskId":"a",`, "", 1)
					}
					return text, err
				}
				c := f.dial(client.Options{Input: client.Input{Fill: func(_ context.Context, form *client.FormRequest) (*mcp.ElicitResult, error) {
					return fill(form, "yes")
				}}})
				f.set("a", x.state)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if _, err := c.AttachTool("a").Result(ctx); err == nil || !strings.Contains(err.Error(), x.want) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

func TestPanicOfRespondIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeTasks(t)
		f.set("a", asking("k"))
		conn, err := streamable.Dial("http://server/mcp", streamable.ClientOptions{Options: httpclient.Options{HTTP: f.client}})
		if err != nil {
			t.Fatal(err)
		}
		cfg := session.Options{Revisions: session.ModernRevisions(), Logger: slog.New(slog.DiscardHandler)}
		tasks := requestor.Internals(boundary.Caller{}).Attach(&cfg, func(context.Context, *session.Request) (json.RawMessage, error) { panic("oops") }, nil)
		s, err := session.Connect(t.Context(), conn, &mcp.InitializeRequestParams{
			ClientInfo:   mcp.Implementation{Name: "c", Version: "1"},
			Capabilities: mcp.ClientCapabilities{Extensions: json.RawMessage(`{"io.modelcontextprotocol/tasks":{}}`)},
		}, &cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := tasks.AttachTool(s, "a").Result(t.Context()); err == nil || !strings.Contains(err.Error(), "oops") {
			t.Errorf("got %v", err)
		}
	})
}

// withOwnTasks serves a server with tasks at a network.
func withOwnTasks(t *testing.T, at *network, middleware ...func(http.Handler) http.Handler) {
	t.Helper()
	s := server.New("s", "1", &server.Options{Tasks: task.Options{Store: memory.New()}})
	t.Cleanup(func() { s.Close() })
	support := server.Tasks(receiver.Support{})
	server.AddTool(s, "quick", "", func(context.Context, *server.Call, struct{}) (string, error) { return "quick", nil }, support)
	server.AddTool(s, "slow", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		time.Sleep(10 * time.Second)
		return "slow", ctx.Err()
	}, support)
	server.AddTool(s, "ask", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		time.Sleep(5 * time.Second)
		var form nameForm
		_, err := server.Elicit(ctx, c, "Name?", &form)
		return "Hello, " + form.Name, err
	}, support)
	server.AddTool(s, "hang", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}, support)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	serveOwn(t, at, s, nil, middleware...)
}

// The same code calls, starts, attaches to and cancels tasks in both kinds of revisions.
func TestTasksOfOwnServerInBothEras(t *testing.T) {
	for _, x := range []struct {
		name      string
		revisions []mcp.Revision
	}{{"session", session.Revisions()}, {"modern", session.ModernRevisions()}} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at, requests := new(network), new(requestLog)
				withOwnTasks(t, at, requests.wrap)
				forms := 0
				c := dialOwn(t, at, client.Options{Input: client.Input{Fill: func(_ context.Context, form *client.FormRequest) (*mcp.ElicitResult, error) {
					forms++
					time.Sleep(30 * time.Minute)
					return fill(form, "Ada")
				}}}, x.revisions...)
				for _, row := range []struct{ tool, want string }{{"quick", "quick"}, {"slow", "slow"}, {"ask", "Hello, Ada"}} {
					h, err := c.StartTool(t.Context(), row.tool, nil)
					if err != nil {
						t.Fatal(err)
					}
					if got := textOf(h.Result(t.Context())); got != row.want {
						t.Errorf("%s: got %s", row.tool, got)
					}
					if h.ID() == "" {
						continue
					}
					if got := textOf(c.AttachTool(h.ID()).Result(t.Context())); got != row.want {
						t.Errorf("%s: got %s from another handle", row.tool, got)
					}
					if state, err := h.Refresh(t.Context()); err != nil || state.Status != mcp.TaskStatusCompleted {
						t.Errorf("%s: got %+v, %v", row.tool, state, err)
					}
				}
				if forms != 1 {
					t.Errorf("%d forms", forms)
				}
				h, err := c.StartTool(t.Context(), "hang", nil)
				if err != nil {
					t.Fatal(err)
				}
				failed := make(chan error)
				go func() { _, err := h.Result(t.Context()); failed <- err }() // ends with the task
				time.Sleep(time.Minute)
				if state, err := h.Cancel(t.Context()); err != nil || state.Status != mcp.TaskStatusCancelled {
					t.Errorf("got %+v, %v", state, err)
				}
				if err := <-failed; !errors.Is(err, task.ErrCancelled) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

// Proves XTASK-45.
func TestOwnServerPushesEndOfTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at, requests := new(network), new(requestLog)
		withOwnTasks(t, at, requests.wrap)
		c := dialOwn(t, at, client.Options{})
		began := time.Now()
		if got := callText(t, c, "slow", nil); got != "slow" || time.Since(began) != 10*time.Second {
			t.Errorf("got %s after %v", got, time.Since(began))
		}
		list := requests.take()
		if n := len(slices.DeleteFunc(list, func(s string) bool { return !strings.Contains(s, "tasks/get") })); n > 1 {
			t.Errorf("%d polls", n)
		}
	})
}

// The tasks that revisions without sessions have cannot be listed.
func TestModernTasksAreNotListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeTasks(t).dial(client.Options{})
		var failed error
		for _, err := range c.Tasks(t.Context()) {
			failed = err
		}
		if _, ok := errors.AsType[*session.CapabilityError](failed); !ok {
			t.Errorf("got %v", failed)
		}
	})
}

// Without Revisions, Dial prefers a revision without sessions, if the server has one.
func TestDialDiscoversRevisionByDefault(t *testing.T) {
	for _, x := range []struct {
		revisions []mcp.Revision
		modern    bool
	}{{nil, true}, {session.Revisions(), false}} {
		synctest.Test(t, func(t *testing.T) {
			at := new(network)
			s := server.New("s", "1", &server.Options{Session: session.Options{Revisions: x.revisions}})
			defer s.Close()
			defer serveOwn(t, at, s, nil)()
			o := at.options()
			defer o.HTTP.HTTP.CloseIdleConnections()
			c, err := client.Dial(t.Context(), "http://localhost/", &o)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if c.Session().Traits().Sessionless != x.modern {
				t.Errorf("server of %v: modern is %v", x.revisions, !x.modern)
			}
		})
	}
}
