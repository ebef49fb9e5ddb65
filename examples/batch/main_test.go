package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

func TestBatch(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "batch")
	if text, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	nine, err := client.Accept(map[string]any{"count": 9})
	if err != nil {
		t.Fatal(err)
	}
	in := stock{[]row{{"nuts", "12"}, {"bolts", "a few"}, {"nails", "30"}}}
	for _, tt := range []struct {
		name   string
		answer *mcp.ElicitResult
		want   string // the structured output or, if there is none, the text
	}{
		{"the user answers", nine, `{"total":51}`},
		{"the user skips one", client.Decline(), `{"total":42,"skipped":["bolts"]}`},
		{"the user stops", client.Cancel(), "the user stopped at row 2 of 3, bolts"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx := t.Context()
			var asked []string
			c, err := client.Command(ctx, stdio.Command{Path: binary}, &client.Options{
				Session: session.Options{Revisions: session.Revisions()}, // for tasks
				Input: client.Input{Fill: func(_ context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) {
					asked = append(asked, f.Message)
					return tt.answer, nil
				}},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			plain, err := c.CallTool(ctx, "count", in)
			if err != nil {
				t.Fatal(err)
			}
			h, err := c.StartTool(ctx, "count", in)
			if err != nil {
				t.Fatal(err)
			}
			if h.ID() == "" {
				t.Error("the call did not create a task")
			}
			asTask, err := h.Result(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tt.want, tt.want}, []string{outputOf(plain), outputOf(asTask)}); diff != "" {
				t.Errorf("results of a plain call and of a task (-want +got):\n%s", diff)
			}
			request := `How many are "a few" of bolts?`
			if diff := cmp.Diff([]string{request, request}, asked); diff != "" {
				t.Errorf("input requests (-want +got):\n%s", diff)
			}
		})
	}
}

// outputOf returns the structured output of a tool or, if there is none, its text.
func outputOf(r *mcp.CallToolResult) string {
	if r.StructuredContent != nil {
		return string(r.StructuredContent)
	}
	return r.Content[0].(*mcp.TextContent).Text
}
