package tasks_test

import (
	"fmt"
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
)

// On one connection, tasks of sessions and of the extension have the types of their own revisions,
// although their methods have the same names.
func TestConversationOfBothRevisions(t *testing.T) {
	const (
		meta    = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
		session = `"taskId":"a","status":"working","createdAt":"c","lastUpdatedAt":"l","ttl":null`
		task    = `"taskId":"a","status":"working","createdAt":"c","lastUpdatedAt":"l","ttlMs":null`
	)
	talk := mcp.Conversation{Params: tasks.ReadParams, Result: tasks.ReadResult}
	for _, tt := range []struct {
		from       mcp.Direction
		text, want string
	}{
		{mcp.FromClient, `"id":1,"method":"tools/call","params":{"name":"n","task":{}}`, "*mcp.CallToolRequestParams"},
		{mcp.FromServer, `"id":1,"result":{"task":{` + session + `}}`, "*mcp.CreateTaskResult"},
		{mcp.FromClient, `"id":2,"method":"tools/call","params":{"name":"n",` + meta + `}`, "*mcp.CallToolRequestParams"},
		{mcp.FromServer, `"id":2,"result":{"resultType":"task",` + task + `}`, "*tasks.CreateTaskResult"},
		{mcp.FromClient, `"id":3,"method":"tools/call","params":{"name":"n",` + meta + `}`, "*mcp.CallToolRequestParams"},
		{mcp.FromServer, `"id":3,"result":{"resultType":"complete","content":[]}`, "*mcp.CallToolResult"},
		{mcp.FromClient, `"id":4,"method":"tasks/get","params":{"taskId":"a"}`, "*mcp.GetTaskRequestParams"},
		{mcp.FromServer, `"id":4,"result":{` + session + `}`, "*mcp.GetTaskResult"},
		{mcp.FromClient, `"id":5,"method":"tasks/get","params":{"taskId":"a",` + meta + `}`, "*tasks.GetTaskRequestParams"},
		{mcp.FromServer, `"id":5,"result":{"resultType":"complete",` + task + `}`, "*tasks.GetTaskResultWorking"},
		{mcp.FromClient, `"id":6,"method":"tasks/update","params":{"taskId":"a","inputResponses":{},` + meta + `}`, "*tasks.UpdateTaskRequestParams"},
		{mcp.FromServer, `"id":6,"result":{"resultType":"complete"}`, "*tasks.UpdateTaskResult"},
		{mcp.FromClient, `"id":7,"method":"tasks/cancel","params":{"taskId":"a"}`, "*mcp.CancelTaskRequestParams"},
		{mcp.FromServer, `"id":7,"result":{` + session + `}`, "*mcp.CancelTaskResult"},
		{mcp.FromClient, `"id":8,"method":"tasks/cancel","params":{"taskId":"a",` + meta + `}`, "*tasks.CancelTaskRequestParams"},
		{mcp.FromServer, `"id":8,"result":{"resultType":"complete"}`, "*tasks.CancelTaskResult"},
		{mcp.FromServer, `"method":"notifications/tasks","params":{` + task + `}`, "*tasks.TaskStatusNotificationParamsWorking"},
		{mcp.FromServer, `"method":"notifications/tasks/status","params":{` + session + `}`, "*mcp.TaskStatusNotificationParams"},
	} {
		m, err := talk.DecodeFrom(tt.from, []byte(`{"jsonrpc":"2.0",`+tt.text+`}`))
		if got := fmt.Sprintf("%T", m.Payload); err != nil || got != tt.want {
			t.Errorf("%s: %s, %v, want %s", tt.text, got, err, tt.want)
		}
	}
}
