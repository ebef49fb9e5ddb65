package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
)

// A list of few but large items is not cached.
func TestLargeListIsNotCached(t *testing.T) {
	text := strings.Repeat("x", 4<<20)
	fetched := 0
	c, _ := connect(t, nil, map[string]func(string) (string, error){
		"tools/list": func(params string) (string, error) {
			fetched++
			next := ""
			if n := fetched % 5; n != 0 {
				next = fmt.Sprintf(`,"nextCursor":"%d"`, n)
			}
			return `{"tools":[{"name":"a","description":"` + text + `","inputSchema":{"type":"object"}}]` + next + `}`, nil
		},
	})
	for _, want := range []int{5, 10} {
		names(t, c.Tools(t.Context()), toolName)
		if fetched != want {
			t.Errorf("%d pages fetched, want %d", fetched, want)
		}
	}
	if tool, err := c.Tool(t.Context(), "a"); err != nil || tool.Name != "a" {
		t.Errorf("got %v, %v", tool, err)
	}
}

func TestPartialResultsAreLimitedInBytes(t *testing.T) {
	text := strings.Repeat("x", 8<<20)
	parts := 0
	c, _ := connect(t, nil, map[string]func(string) (string, error){
		"tools/list": always(`{"tools":[{"name":"read","inputSchema":{"type":"object"},"_meta":{"io.github.mcpwire/partialResults":true}}]}`),
		"tools/call": func(string) (string, error) {
			parts++
			return fmt.Sprintf(`{"content":[{"type":"text","text":"%s"}],"nextResumeToken":"t%d"}`, text, parts), nil
		},
	})
	names(t, c.Tools(t.Context()), toolName)
	if _, err := c.CallTool(t.Context(), "read", nil); err == nil || !strings.Contains(err.Error(), "more than 67108864 bytes") || parts > 9 {
		t.Errorf("got %v after %d parts", err, parts)
	}
}

// The client stores hashes of elicitation ids, because a server may send ids as long as a message.
func TestLongElicitationIDsAreNotRetained(t *testing.T) {
	const size, calls = 1 << 20, 64
	long := strings.Repeat("x", size)
	n := 0
	open := func(context.Context, *client.URLRequest) (mcp.ElicitAction, error) { return "accept", nil }
	c, s := connect(t, &client.Options{Input: client.Input{OpenURL: open}}, map[string]func(string) (string, error){"tools/call": func(string) (string, error) {
		n++
		data := fmt.Sprintf(`{"elicitations":[{"mode":"url","message":"m","url":"https://example.com/","elicitationId":"%s%d"}]}`, long, n)
		return "", &jsonrpc.Error{Code: -32042, Message: "a page first", Data: json.RawMessage(data)}
	}})
	before := heap()
	for range calls {
		if _, err := c.CallTool(t.Context(), "open", nil); jsonrpc.CodeOf(err) != -32042 {
			t.Fatal(err)
		}
	}
	if held := int64(heap()) - int64(before); held > calls*size/2 {
		t.Errorf("%d bytes are retained after %d errors", held, calls)
	}
	id := long + "1"
	done := doneOf(t, c, id)
	if done == nil {
		t.Fatal("the first id is unknown")
	}
	to := mcp.NotifyClient{Notifier: s.Session}
	if err := to.ElicitationComplete(t.Context(), &mcp.ElicitationCompleteNotificationParams{ElicitationID: id}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-done:
	case <-t.Context().Done():
		t.Error("the channel was not closed")
	}
}

// A server that asks one user to visit very many pages does not make the client forget the pages of
// another one.
func TestPagesOfOneUserDoNotDisplaceThoseOfOthers(t *testing.T) {
	type user struct{}
	ann, eve := context.WithValue(t.Context(), user{}, "ann"), context.WithValue(t.Context(), user{}, "eve")
	pages, n := 1, 0
	c, _ := connect(t, &client.Options{
		Input: client.Input{OpenURL: func(context.Context, *client.URLRequest) (mcp.ElicitAction, error) { return "accept", nil }},
		Cache: client.Cache{Partition: func(ctx context.Context) string { return ctx.Value(user{}).(string) }},
	}, map[string]func(string) (string, error){"tools/call": func(string) (string, error) {
		var list []string
		for range pages {
			n++
			list = append(list, fmt.Sprintf(`{"mode":"url","message":"m","url":"https://example.com/","elicitationId":"%d"}`, n))
		}
		return "", &jsonrpc.Error{Code: -32042, Message: "pages first", Data: json.RawMessage(`{"elicitations":[` + strings.Join(list, ",") + `]}`)}
	}})
	call := func(ctx context.Context, times int) {
		t.Helper()
		for range times {
			if _, err := c.CallTool(ctx, "open", nil); jsonrpc.CodeOf(err) != -32042 {
				t.Fatal(err)
			}
		}
	}
	call(ann, 1)
	pages = 2000
	call(eve, 1)
	pages = 60
	call(eve, 30)
	if doneOf(t, c, "1") == nil {
		t.Error("the page of ann is forgotten")
	}
	if doneOf(t, c, "66") != nil {
		t.Error("more than 64 pages of one error are recorded")
	}
	if doneOf(t, c, fmt.Sprint(n)) == nil {
		t.Error("the latest page of eve is unknown")
	}
}

// doneOf returns the channel of an elicitation that a server requires, or nil if the client does
// not know its id.
func doneOf(t *testing.T, c *client.Client, id string) <-chan struct{} {
	t.Helper()
	list, ok := c.URLsRequired(&jsonrpc.Error{Code: -32042, Data: fmt.Appendf(nil, `{"elicitations":[{"mode":"url","message":"m","url":"https://example.com/","elicitationId":"%s"}]}`, id)})
	if !ok {
		t.Fatal("the error names no URL")
	}
	return list[0].Done
}

// heap returns the size of the allocated heap in bytes.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
