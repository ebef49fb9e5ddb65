package embedding

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

const declared = `"_meta":{"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

var messages = []struct {
	text, method string
	special      bool
}{
	{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`, "tools/call", false},
	{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","task":{}}}`, "tools/call", true},
	{`{"id":1,"params":{"task":null,"name":"t"},"method":"tools/call"}`, "tools/call", true},
	{`{"id":1,"method":"tools/call","params":{"name":"t","arguments":{"task":{}}}}`, "tools/call", false},
	{`{"id":1,"method":"tools/call","params":{"name":"t","t\u0061sk":{}}}`, "tools/call", true},
	{`{"id":1,"m\u0065thod":"tools\/call","params":{"name":"t","task":{}}}`, "tools/call", true},
	{`{"id":1,"method":"tools/call","params":{"name":"t","arguments":{"text":"a\nb"}}}`, "tools/call", false},
	{`{"id":1,"method":"tools/call","params":{"name":"t",` + declared + `}}`, "tools/call", true},
	{`{"id":1,"method":"tools/call","params":{"name":"t",` + strings.ReplaceAll(declared, "/", `\/`) + `}}`, "tools/call", true},
	{`{"id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":"io.modelcontextprotocol/tasks"}}}`, "tools/call", false},
	{`{"id":1,"method":"tasks/get","params":{"taskId":"x"}}`, "tasks/get", true},
	{`{"id":1,"method":"tasks/update"}`, "tasks/update", true},
	{`{"id":1,"method":"tasks/other"}`, "tasks/other", false},
	{`{"id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}}}`, "subscriptions/listen", false},
	{`{"id":1,"method":"subscriptions/listen","params":{"notifications":{"taskIds":[]}}}`, "subscriptions/listen", true},
	{`{"id":1,"method":"tools/list","params":{"task":{}}}`, "tools/list", false},
	{`{"method":"notifications/initialized"}`, "notifications/initialized", false},
	{`{"id":1,"result":{"method":"tasks/get"}}`, "", false},
	{`[{"id":1,"method":"tasks/get"}]`, "", false},
	{`{"id":1,"method":7}`, "", false},
	{`{"id":1,"method":"tasks/get`, "", false},
	{`"method"`, "", false},
	{` `, "", false},
	{``, "", false},
}

func TestPeek(t *testing.T) {
	e := new(Engine)
	for _, m := range messages {
		method, special := e.Peek([]byte(m.text))
		if method != m.method || special != m.special {
			t.Errorf("%s: got %q, %t", m.text, method, special)
		}
	}
}

func TestPeekFindsRequiredTools(t *testing.T) {
	o := embed.Options{Tasks: task.Options{Store: memory.New()}, Tools: map[string]embed.Tool{"only": {Support: receiver.Support{Mode: mcp.TaskSupportRequired}}, "may": {}}}
	e, err := New(o, tools{})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		`{"id":1,"method":"tools/call","params":{"name":"only"}}`:  true,
		`{"id":1,"method":"tools/call","params":{"name":"may"}}`:   false,
		`{"id":1,"method":"tools/call","params":{"name":"other"}}`: false,
		`{"id":1,"method":"tools/call"}`:                           false,
		`{"id":1,"method":"tools/list","params":{"name":"only"}}`:  false,
		`{"id":1,"method":"tasks/get","params":{"name":"only"}}`:   true,
	} {
		if _, special := e.Peek([]byte(text)); special != want {
			t.Errorf("%s: got %t", text, special)
		}
	}
}

func TestPeekOfPlainCallDoesNotAllocate(t *testing.T) {
	e := new(Engine)
	message := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"text":"` + strings.Repeat("abc ", 1000) + `"}}}`)
	if n := testing.AllocsPerRun(100, func() { e.Peek(message) }); n > 4 { // none, but the race detector drops pooled readers
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPeek(b *testing.B) {
	for name, size := range map[string]int{"small": 16, "1MiB": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			message := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"text":"` + strings.Repeat("a", size) + `"}}}`)
			e := new(Engine)
			b.SetBytes(int64(len(message)))
			b.ReportAllocs()
			for b.Loop() {
				e.Peek(message)
			}
		})
	}
}

// For valid messages without repeated names, Peek agrees with encoding/json.
func FuzzPeek(f *testing.F) {
	for _, m := range messages {
		f.Add([]byte(m.text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		method, special := new(Engine).Peek(text)
		if special && method == "" {
			t.Errorf("%s is special without a method", text)
		}
		if checkObject(text) != nil || len(text) == 0 {
			return
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal(text, &m); err != nil {
			t.Skip(err)
		}
		var want string
		json.Unmarshal(m["method"], &want)
		if method != want {
			t.Errorf("%s: got method %q, want %q", text, method, want)
		}
		wanted := strings.HasPrefix(method, "tasks/") && method != "tasks/" && bytes.Contains([]byte("get result list cancel update"), []byte(method[len("tasks/"):])) && !strings.Contains(method, " ")
		var params struct {
			Task          json.RawMessage `json:"task"`
			Notifications map[string]json.RawMessage
			Meta          map[string]json.RawMessage `json:"_meta"`
		}
		members := map[string]json.RawMessage{}
		json.Unmarshal(m["params"], &members)
		switch method {
		case "tools/call":
			_, wanted = members["task"]
			json.Unmarshal(members["_meta"], &params.Meta)
			var capabilities, extensions map[string]json.RawMessage
			json.Unmarshal(params.Meta["io.modelcontextprotocol/clientCapabilities"], &capabilities)
			json.Unmarshal(capabilities["extensions"], &extensions)
			_, extension := extensions["io.modelcontextprotocol/tasks"]
			wanted = wanted || extension
		case "subscriptions/listen":
			json.Unmarshal(members["notifications"], &params.Notifications)
			_, wanted = params.Notifications["taskIds"]
		case "tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update":
		default:
			wanted = false
		}
		if special != wanted {
			t.Errorf("%s: got %t, want %t", text, special, wanted)
		}
	})
}

func TestCheckName(t *testing.T) {
	for _, row := range []struct{ method, params, header, want string }{
		{"tasks/get", `{"taskId":"x"}`, "x", ""},
		{"tasks/get", `{"taskId":"é"}`, "=?base64?w6k=?=", ""},
		{"tasks/get", `{"taskId":"x"}`, "y", `Mcp-Name is "y", but the message has "x"`},
		{"tasks/cancel", `{"taskId":"x"}`, "none", "Mcp-Name is missing"},
		{"tasks/update", `{}`, "x", `Mcp-Name is "x", but the message has ""`},
		{"tools/call", `{"name":"x"}`, "x", ""},
		{"tasks/list", `{}`, "none", ""},
	} {
		header := http.Header{}
		if row.header != "none" {
			header.Set("mcp-name", row.header)
		}
		err := CheckName(row.method, json.RawMessage(row.params), header)
		if (err == nil) != (row.want == "") || err != nil && (err.Code != -32020 || !strings.HasSuffix(err.Message, row.want)) {
			t.Errorf("%s %s with %s: got %v", row.method, row.params, row.header, err)
		}
	}
}
