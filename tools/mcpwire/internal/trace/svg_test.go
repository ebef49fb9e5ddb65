package trace

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/mcp"
)

// recorded is a message in a test table.
type recorded struct {
	from mcp.Direction
	text string
}

func call(id int) recorded {
	return recorded{mcp.FromClient, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"x","task":{}}}`, id)}
}

func created(id int, task string) recorded {
	return recorded{mcp.FromServer, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"task":%s}}`, id, state(task, "working"))}
}

func status(task, status string) recorded {
	return recorded{mcp.FromServer, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":%s}`, state(task, status))}
}

func state(task, status string) string {
	return fmt.Sprintf(`{"taskId":%q,"status":%q,"ttl":null,"createdAt":"2026-01-02T03:04:05Z","lastUpdatedAt":"2026-01-02T03:04:05Z"}`, task, status)
}

func await(id int, task string) recorded {
	return recorded{mcp.FromClient, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tasks/result","params":{"taskId":%q}}`, id, task)}
}

func result(id int, isError bool) recorded {
	return recorded{mcp.FromServer, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[],"isError":%v}}`, id, isError)}
}

func TestDrawShowsTaskStates(t *testing.T) {
	for _, c := range []struct {
		name     string
		messages []recorded
		want     []bar
		lanes    int
	}{
		{"none", []recorded{call(1), result(1, false)}, nil, 0},
		{"an unfinished task extends to the end", []recorded{call(1), created(1, "a"), call(2)},
			[]bar{{"a", "working", 0, 1, 3, true}}, 1},
		{"a repeated state is one bar", []recorded{call(1), created(1, "a"), status("a", "working"), status("a", "input_required"), status("a", "working")},
			[]bar{{"a", "working", 0, 1, 3, true}, {"a", "input_required", 0, 3, 4, false}, {"a", "working", 0, 4, 5, false}}, 1},
		{"the result ends the task", []recorded{call(1), created(1, "a"), await(2, "a"), result(2, false)},
			[]bar{{"a", "working", 0, 1, 3, true}, {"a", "completed", 0, 3, 4, false}}, 1},
		{"an error result fails the task", []recorded{call(1), created(1, "a"), await(2, "a"), result(2, true)},
			[]bar{{"a", "working", 0, 1, 3, true}, {"a", "failed", 0, 3, 4, false}}, 1},
		{"a terminal state is the last one", []recorded{call(1), created(1, "a"), status("a", "cancelled"), status("a", "working"), call(2)},
			[]bar{{"a", "working", 0, 1, 2, true}, {"a", "cancelled", 0, 2, 3, false}}, 1},
		{"concurrent tasks have separate lanes, and a free lane is reused",
			[]recorded{call(1), created(1, "a"), call(2), created(2, "b"), status("a", "completed"), call(3), created(3, "c")},
			[]bar{{"a", "working", 0, 1, 4, true}, {"b", "working", 1, 3, 7, true}, {"a", "completed", 0, 4, 5, false}, {"c", "working", 0, 6, 7, true}}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			var rec Recording
			for i, m := range c.messages {
				rec.Message(time.Unix(int64(i), 0), m.from, []byte(m.text))
			}
			bars, lanes := rec.bars()
			if diff := cmp.Diff(c.want, bars, cmp.AllowUnexported(bar{})); diff != "" || lanes != c.lanes {
				t.Errorf("%d lanes, want %d (-want +got):\n%s", lanes, c.lanes, diff)
			}
			var b strings.Builder
			if err := rec.Draw(&b); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(b.String(), "<title>"); n != len(c.want) {
				t.Errorf("%d states, want %d", n, len(c.want))
			}
		})
	}
}

func TestResponseWithoutRequestHasNoMethod(t *testing.T) {
	var rec Recording
	rec.Message(time.Unix(0, 0), mcp.FromServer, []byte(`{"jsonrpc":"2.0","error":{"code":-32600,"message":"no"}}`))
	rec.Message(time.Unix(0, 0), mcp.FromServer, []byte(`{"jsonrpc":"2.0","id":7,"result":{}}`))
	var list strings.Builder
	if err := rec.Print(&list); err != nil || !strings.Contains(list.String(), "server  error: no\n") || !strings.HasSuffix(list.String(), "server  result\n") {
		t.Errorf("%v in\n%s", err, &list)
	}
}

func TestDrawSeveralClients(t *testing.T) {
	var rec Recording
	at := func(i int) time.Time { return time.Unix(int64(i), 0) }
	rec.event(at(0), "", "begin")
	for i, session := range []string{"a", "b", "a", "b", "c", "a", "c"} { // c begins after the last message of b
		rec.message(at(i+1), session, mcp.FromClient, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	}
	got, columns := rec.lines()
	want := []*line{{0, 1, 6}, {1, 2, 4}, {1, 5, 7}}
	for i, c := range rec.sessions {
		if diff := cmp.Diff(want[i], got[c], cmp.AllowUnexported(line{})); diff != "" {
			t.Errorf("client %d (-want +got):\n%s", i+1, diff)
		}
	}
	var picture, list strings.Builder
	if err := rec.Draw(&picture); err != nil || columns != 2 {
		t.Errorf("%v, %d columns", err, columns)
	}
	for _, name := range []string{">1 client<", ">2 client<", ">3 client<"} {
		if strings.Count(picture.String(), name) != 1 {
			t.Errorf("%s is not in\n%s", name, &picture)
		}
	}
	if err := rec.Print(&list); err != nil || !strings.Contains(list.String(), "5.000 s  3   client ──▶ server  notifications/initialized") {
		t.Errorf("%v in\n%s", err, &list)
	}
}

func TestSubscriptionIsDescribed(t *testing.T) {
	var rec Recording
	const notifications = `"notifications":{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["a:b"]}`
	rec.Message(time.Unix(0, 0), mcp.FromClient, []byte(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{},`+notifications+`}}`))
	rec.Message(time.Unix(0, 0), mcp.FromServer, []byte(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{`+notifications+`}}`))
	var list strings.Builder
	if err := rec.Print(&list); err != nil || !strings.Contains(list.String(), "server  subscriptions/listen: tools, a:b\n") || !strings.Contains(list.String(), "acknowledged: tools, a:b\n") {
		t.Errorf("%v in\n%s", err, &list)
	}
}

// A call that runs as a task of the Tasks extension is shown from its creation to its result, with
// the input in between.
func TestExtensionTaskIsShown(t *testing.T) {
	var rec Recording
	const task = `"taskId":"a","createdAt":"2026-01-02T03:04:05Z","lastUpdatedAt":"2026-01-02T03:04:05Z","ttlMs":null`
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	for i, m := range []recorded{
		{mcp.FromClient, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bake",` + meta + `}}`},
		{mcp.FromServer, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"task",` + task + `,"status":"working"}}`},
		{mcp.FromClient, `{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"a",` + meta + `}}`},
		{mcp.FromServer, `{"jsonrpc":"2.0","id":2,"result":{"resultType":"complete",` + task + `,"status":"input_required","inputRequests":{"k":{"method":"roots/list"}}}}`},
		{mcp.FromClient, `{"jsonrpc":"2.0","id":3,"method":"tasks/update","params":{"taskId":"a","inputResponses":{"k":{"roots":[]}},` + meta + `}}`},
		{mcp.FromServer, `{"jsonrpc":"2.0","id":3,"result":{"resultType":"complete"}}`},
		{mcp.FromServer, `{"jsonrpc":"2.0","method":"notifications/tasks","params":{` + task + `,"status":"completed","result":{"content":[{"type":"text","text":"bread"}]}}}`},
	} {
		rec.Message(time.Unix(int64(i), 0), m.from, []byte(m.text))
	}
	bars, _ := rec.bars()
	want := []bar{{"a", "working", 0, 1, 3, true}, {"a", "input_required", 0, 3, 6, false}, {"a", "completed", 0, 6, 7, false}}
	if diff := cmp.Diff(want, bars, cmp.AllowUnexported(bar{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var list strings.Builder
	if err := rec.Print(&list); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"result of tools/call: working\n", "tasks/get: input_required, k (roots/list)\n", "tasks/update: with input k\n",
		"notifications/tasks: completed: bread\n",
	} {
		if !strings.Contains(list.String(), line) {
			t.Errorf("%q is not in\n%s", line, &list)
		}
	}
}
