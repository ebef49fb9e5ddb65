// Package servers holds the same server written with mcpwire and with two other Go SDKs.
// docs/howto/from-other-sdks.md shows all three.
package servers

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// All three behave the same, and the document shows their source.
func TestServersBehaveTheSame(t *testing.T) {
	guide, err := os.ReadFile("../../../docs/howto/from-other-sdks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mcpwire", "official", "mcpgo"} {
		t.Run(name, func(t *testing.T) {
			code, err := os.ReadFile(filepath.Join(name, "main.go"))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(guide), "```go\n"+string(code)+"```\n") {
				t.Error("docs/howto/from-other-sdks.md does not show this program")
			}
			binary := filepath.Join(t.TempDir(), name)
			if text, err := exec.Command("go", "build", "-o", binary, "./"+name).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			for _, way := range []struct {
				name    string
				connect func(*testing.T, string, *client.Options) *client.Client
			}{{"stdio", overStdio}, {"HTTP", overHTTP}} {
				t.Run(way.name, func(t *testing.T) {
					inOrder := name != "mcpgo"   // mcp-go may send notifications after the response, and the client drops those
					var answer *mcp.ElicitResult // the response to the input request
					use(t, way.connect(t, binary, &client.Options{Session: session.Options{Revisions: session.Revisions()}, Input: client.Input{Fill: func(_ context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) {
						if fields := f.Fields; f.Message != "For how many?" || len(fields) != 1 || fields[0].Name != "people" || !fields[0].Required {
							t.Errorf("input request %q %+v", f.Message, fields)
						}
						return answer, nil
					}}}), &answer, inOrder)
				})
			}
		})
	}
}

func overStdio(t *testing.T, binary string, o *client.Options) *client.Client {
	c, err := client.Command(t.Context(), stdio.Command{Path: binary, Stderr: t.Output()}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// overHTTP starts the server on a free port. The server cannot report which port it got, so
// overHTTP finds a free one first. If another process takes that port in the meantime, the server
// exits and overHTTP tries another port.
func overHTTP(t *testing.T, binary string, o *client.Options) *client.Client {
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		l.Close()
		cmd := exec.Command(binary, "-http", addr)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { // ends with the server process, which the cleanup kills
			cmd.Wait()
			close(ended)
		}()
		t.Cleanup(func() {
			cmd.Process.Kill()
			<-ended
		})
		for waiting := true; waiting; {
			c, err := client.Dial(t.Context(), "http://"+addr+"/mcp", o)
			if err == nil && c.Server().ServerInfo.Name == "example" {
				t.Cleanup(func() { c.Close() })
				return c
			}
			if err == nil {
				c.Close() // another process has the port
			}
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ended:
				waiting = false
			case <-t.Context().Done():
				t.Fatal(err)
			}
		}
	}
}

func use(t *testing.T, c *client.Client, answer **mcp.ElicitResult, inOrder bool) {
	ctx := t.Context()
	result, err := c.CallTool(ctx, "add", map[string]any{"a": 1, "b": 2})
	if err != nil || string(result.StructuredContent) != `{"sum":3}` {
		t.Errorf("add: %+v, %v", result, err)
	}
	contents, err := c.ReadResource(ctx, "greeting://Ada")
	if err != nil {
		t.Fatal(err)
	}
	text := contents.Contents[0].(*mcp.TextResourceContents)
	if text.Text != "Hello, Ada!" || text.URI != "greeting://Ada" || text.MIMEType == nil || *text.MIMEType != "text/plain" {
		t.Errorf("greeting: %+v", text)
	}
	prompt, err := c.GetPrompt(ctx, "review", map[string]string{"code": "x++"})
	if err != nil {
		t.Fatal(err)
	}
	if got := prompt.Messages[0].Content.(*mcp.TextContent).Text; got != "Please review: x++" {
		t.Errorf("review: %q", got)
	}
	three, err := client.Accept(map[string]any{"people": 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		answer *mcp.ElicitResult
		says   string
		last   session.Progress // earlier reports may have been merged into it
	}{
		{three, "soup for 3", session.Progress{Value: 2, Total: new(2.0), Message: "done"}},
		{client.Decline(), "Nothing was cooked.", session.Progress{Value: 1, Total: new(2.0), Message: "asking"}},
	} {
		*answer = tt.answer
		var last session.Progress
		result, err := c.CallTool(ctx, "cook", map[string]any{"dish": "soup"}, client.OnProgress(func(p session.Progress) { last = p }))
		if err != nil {
			t.Fatal(err)
		}
		if got := result.Content[0].(*mcp.TextContent).Text; got != tt.says {
			t.Errorf("cook: %q, want %q", got, tt.says)
		}
		if diff := cmp.Diff(tt.last, last); inOrder && diff != "" {
			t.Errorf("progress (-want +got):\n%s", diff)
		}
	}
}
