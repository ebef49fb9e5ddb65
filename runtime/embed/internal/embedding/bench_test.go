package embedding

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// BenchmarkCycle is a tools/call that is a task, and the tasks/result for it, without an SDK.
func BenchmarkCycle(b *testing.B) {
	for name, tool := range map[string]embed.Tool{"transient": {}, "durable": embed.Durable()} {
		b.Run(name, func(b *testing.B) {
			done := func(context.Context, *Call) (json.RawMessage, error) { return json.RawMessage(`{"content":[]}`), nil }
			e, err := New(embed.Options{Tasks: task.Options{Store: memory.New(), Limits: task.Limits{Tasks: -1, Bytes: -1, Rate: -1}}, Default: &tool}, tools{"t": done})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			p := newPeer("p")
			serve := func(method, params string) string {
				out, err := e.Serve(b.Context(), inSession(p, method, params))
				if err != nil {
					b.Fatal(err)
				}
				text, err := codec.Marshal(out.Result)
				if err != nil {
					b.Fatal(err)
				}
				return string(text)
			}
			b.ReportAllocs()
			for b.Loop() {
				id := part(serve("tools/call", `{"name":"t","arguments":{"a":1},"task":{}}`), "task", "taskId")
				serve("tasks/result", `{"taskId":"`+id+`"}`)
			}
		})
	}
}
