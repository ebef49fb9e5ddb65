package tables_test

import (
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec/wire/jsonschema"
	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/internal/instance"
)

// messages are typical values.
var messages = []struct{ name, definition, text string }{
	{"task", "Task", `{"taskId":"786512e2-9e0d-44bd-8f29-789f320fe840","status":"working","statusMessage":"The operation is now in progress.","createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:40:00Z","ttl":60000,"pollInterval":5000}`},
	{"get task result", "GetTaskResult", `{"taskId":"786512e2-9e0d-44bd-8f29-789f320fe840","status":"working","createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:40:00Z","ttl":60000,"pollInterval":5000,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"1"}}}`},
	{"tool call", "CallToolRequest", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_weather","arguments":{"city":"New York","days":[1,2,3],"units":{"temperature":"celsius"}},"task":{"ttl":60000},"_meta":{"progressToken":"abc"}}}`},
	{"client request", "ClientRequest", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_weather","arguments":{"city":"New York","days":[1,2,3],"units":{"temperature":"celsius"}},"task":{"ttl":60000},"_meta":{"progressToken":"abc"}}}`},
	{"tool result", "CallToolResult", `{"content":[{"type":"text","text":"Current weather in New York:\nTemperature: 72°F\nConditions: Partly cloudy"},{"type":"resource","resource":{"uri":"file:///project/src/main.rs","mimeType":"text/x-rust","text":"fn main() {\n    println!(\"Hello world!\");\n}"}}],"isError":false,"structuredContent":{"temperature":72}}`},
	{"server result", "ServerResult", `{"content":[{"type":"text","text":"Current weather in New York:\nTemperature: 72°F\nConditions: Partly cloudy"}],"isError":false}`},
	{"sampling", "SamplingMessage", `{"role":"user","content":[{"type":"tool_result","toolUseId":"1","content":[{"type":"text","text":"x"},{"type":"image","data":"aGVsbG8=","mimeType":"image/png"}]},{"type":"text","text":"y"}]}`},
}

func latest(tb testing.TB) (*load.Document, *jsonschema.Table) {
	tb.Helper()
	doc := read(tb, "../../../schema/2025-11-25/schema.json")
	return doc, table(tb, doc)
}

// CheckValid does not allocate for valid messages and instances of all definitions.
func TestCheckAllocatesNothingForValidValues(t *testing.T) {
	doc, table := latest(t)
	for _, m := range messages {
		root, _ := table.Root(doc.Revision, m.definition)
		text := []byte(m.text)
		if n := testing.AllocsPerRun(100, func() {
			if err := table.CheckValid(root, text); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", m.name, n)
		}
	}
	maker := instance.New(doc, 1)
	for _, name := range doc.Names() {
		root, _ := table.Root(doc.Revision, name)
		for range 10 {
			v, err := maker.Value(name)
			if err != nil {
				t.Fatal(err)
			}
			text := v.JSON()
			if n := testing.AllocsPerRun(1, func() { _ = table.CheckValid(root, text) }); n != 0 {
				t.Fatalf("%s: %v allocations for %s", name, n, text)
			}
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	doc, table := latest(b)
	for _, m := range messages {
		root, _ := table.Root(doc.Revision, m.definition)
		text := []byte(m.text)
		name := strings.ReplaceAll(m.name, " ", "-")
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if err := table.Check(root, text); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/trusted", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if err := table.CheckValid(root, text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
