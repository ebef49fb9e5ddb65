package proxy_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/proxy"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// secret is the StateKeys of proxies that know each other's tags.
func secret(b byte) [][]byte { return [][]byte{slices.Repeat([]byte{b}, 32)} }

// A task belongs to the principal that has created it. For others, its id is that of no task,
// through each proxy with the same key: after a restart, and beside the first one.
//
// Proves TASK-68.
func TestTaskBelongsToPrincipal(t *testing.T) {
	one := newTaskUpstream(t, "one")
	addTool(t, one.Server, "work", func(ctx context.Context, _ *server.Call, _ struct{}) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}, required)
	front := func(key byte) string {
		p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}, Server: server.Options{Shared: server.Shared{StateKeys: secret(key)}}})
		return serveUsers(t, p)
	}
	first, second, other := front(1), front(1), front(2)
	as := func(url, user string) *client.Client { return dial(t, url, withToken(sessions.in(nil), user)) }
	ada := as(first, "ada")
	id := startTask(t, ada, "a_work")
	ask := func(c *client.Client, method, id string) (string, error) {
		raw, err := c.Session().Call(t.Context(), method, session.Raw(`{"taskId":"`+id+`"}`))
		status, _ := codec.Member(raw, "status")
		return string(status), err
	}
	tag, own := strings.Split(id, ":")[1], strings.Split(id, ":")[2]
	for name, c := range map[string]*client.Client{
		"another principal": as(first, "eve"), "another principal at the second proxy": as(second, "eve"), "a proxy with another key": as(other, "ada"),
	} {
		for _, method := range []string{mcp.MethodTasksGet, mcp.MethodTasksResult, mcp.MethodTasksCancel} {
			for _, id := range []string{id, "a:" + own, "a::" + own, "a:" + tag + ":none", own, "none", "b:" + tag + ":" + own} {
				_, err := ask(c, method, id)
				failed, ok := err.(*jsonrpc.Error)
				if !ok || failed.Code != jsonrpc.CodeInvalidParams || !strings.HasPrefix(failed.Message, "task: not found: ") {
					t.Errorf("%s: %s of %q: %v", name, method, id, err)
				}
			}
		}
	}
	for name, c := range map[string]*client.Client{"the session": ada, "a later session": as(first, "ada"), "the second proxy": as(second, "ada")} {
		if status, err := ask(c, mcp.MethodTasksGet, id); status != `"working"` || err != nil {
			t.Errorf("%s: %s, %v", name, status, err)
		}
	}
	if status, err := ask(as(second, "ada"), mcp.MethodTasksCancel, id); status != `"cancelled"` || err != nil {
		t.Errorf("cancel: %s, %v", status, err)
	}
}

// An upstream may take a member for taskId, requestState or name whose name differs in case only.
// The proxy, which checks the right one, does not pass on the other.
func TestMembersAlikeAreNotPassedOn(t *testing.T) {
	var got []string
	record := func(result string) session.Handler {
		return func(_ context.Context, req *session.Request) (codec.Encoder, error) {
			got = append(got, string(req.Params))
			return session.Raw(result), nil
		}
	}
	one := newUpstream(t, "one", sessions.serving(&server.Options{
		Features: server.Features{
			Capabilities: func(c *mcp.ServerCapabilities) { c.Tasks = receiver.ServerCapabilities(true) },
			Methods: map[string]session.Handler{
				mcp.MethodToolsCall: record(`{"task":{"taskId":"7","status":"working"}}`), mcp.MethodTasksGet: record(`{"taskId":"7","status":"working"}`),
			},
		},
	}))
	addTool(t, one.Server, "t", echo(""))
	two := newUpstream(t, "two", modern.serving(&server.Options{Features: server.Features{Methods: map[string]session.Handler{
		mcp.MethodToolsCall: record(`{"resultType":"input_required","inputRequests":{},"requestState":"x"}`),
	}}}))
	addTool(t, two.Server, "t", echo(""))
	p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a"), two.as("b")}})
	c := connect(t, p, sessions.in(nil))
	id := startTask(t, c, "a_t")
	if _, err := c.Session().Call(t.Context(), mcp.MethodTasksGet, session.Raw(`{"taskId":"`+id+`","TASKID":"8","x":1,"taskid":"9","task_id":"10"}`)); err != nil {
		t.Fatal(err)
	}
	equal(t, "params", `{"taskId":"7","x":1}`, got[1])
	// Middleware before the proxy has checked the name.
	if _, err := c.Session().Call(t.Context(), mcp.MethodToolsCall, session.Raw(`{"Name":"other","name":"a_t","Arguments":{}}`)); err != nil {
		t.Fatal(err)
	}
	equal(t, "params", `{"name":"t"}`, got[2])
	m := connect(t, p, modern.in(nil))
	asked, err := send(t, m, "b_t", `{}`, round{}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Session().Call(t.Context(), mcp.MethodToolsCall, session.Raw(`{"name":"b_t","requestState":"`+asked.state+`","RequestState":"y","request_state":"z"}`)); err != nil {
		t.Fatal(err)
	}
	if last := got[len(got)-1]; !strings.Contains(last, `"requestState":"x"`) || strings.Contains(last, `"y"`) || strings.Contains(last, `"z"`) {
		t.Errorf("params: %s", last)
	}
}

// statuses records the ids in notifications of the status of tasks.
type statuses struct {
	mcp.UnimplementedClientNotificationHandler
	ids chan string
}

func (s statuses) TaskStatus(_ context.Context, p *mcp.TaskStatusNotificationParams) error {
	s.ids <- p.TaskID
	return nil
}

// An upstream that reports the status of a task to all sessions of the proxy does not reach other
// clients. A report that arrives before the result that creates the task reaches its client.
func TestStatusOfTaskReachesItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const state = `{"taskId":"7","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":null}`
		var all []*session.Session
		one := newUpstream(t, "one", &server.Options{
			Features: server.Features{
				Capabilities: func(c *mcp.ServerCapabilities) { c.Tasks = receiver.ServerCapabilities(true) },
				Methods: map[string]session.Handler{
					mcp.MethodToolsCall: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
						for _, s := range all {
							if err := s.Notify(context.Background(), mcp.MethodNotificationsTasksStatus, session.Raw(state)); err != nil {
								return nil, err
							}
						}
						time.Sleep(patience / 2)
						return session.Raw(`{"task":` + state + `}`), nil
					},
				},
			},
		})
		addTool(t, one.Server, "t", echo(""))
		p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}})
		ada, eve := make(chan string, 10), make(chan string, 10)
		c := connect(t, p, sessions.in(&client.Options{Notifications: statuses{ids: ada}}))
		connect(t, p, sessions.in(&client.Options{Notifications: statuses{ids: eve}}))
		all = one.Sessions()
		equal(t, "sessions", 2, len(all))
		id := startTask(t, c, "a_t")
		synctest.Wait()
		equal(t, "notifications", 1, len(ada))
		equal(t, "id", id, <-ada)
		time.Sleep(time.Minute)
		equal(t, "notifications for another client", 0, len(eve))
	})
}

// patience is how long a request that concerns several upstreams waits for one of them.
const patience = time.Second

// The upstream knows all principals as one, so that it cannot see that another principal continues
// a call. The proxy can.
func TestRequestStateBelongsToPrincipal(t *testing.T) {
	one := newUpstream(t, "one", modern.serving(nil))
	addAsking(t, one.Server)
	cfg := &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}, Server: server.Options{Shared: server.Shared{StateKeys: secret(1)}}}
	first, second := serveUsers(t, newProxy(t, cfg)), serveUsers(t, newProxy(t, cfg))
	as := func(url, name string) *client.Client { return dial(t, url, withToken(modern.in(user("Ada")), name)) }
	asked, err := send(t, as(first, "ada"), "a_ask", `{}`, round{}, "")
	if err != nil {
		t.Fatal(err)
	}
	kind, opaque, _ := strings.Cut(asked.state, ".")
	for name, state := range map[string]string{"as it is": asked.state, "without the tag": "a:s" + opaque, "without the value of the tag": "a:s." + opaque, "with another state": kind + ".x"} {
		stolen := asked
		stolen.state = state
		if _, err := send(t, as(first, "eve"), "a_ask", `{}`, stolen, accept); jsonrpc.CodeOf(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("%s: %v", name, err)
		}
	}
	last, err := send(t, as(second, "ada"), "a_ask", `{}`, asked, accept)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "result", "accept Ada", last.text)
}
