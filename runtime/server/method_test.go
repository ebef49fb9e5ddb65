package server_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/server/servertest"
	"github.com/mcpwire/mcpwire/runtime/session"
)

type addends struct {
	Terms []int `json:"terms"`
}

type total struct {
	Total int `json:"total"`
}

func TestOwnMethodsAreTyped(t *testing.T) {
	noted := make(chan string, 10)
	waiting, cancelled := make(chan bool), make(chan bool)
	methods := map[string]session.Handler{
		"example.com/sum": server.Method(func(ctx context.Context, c *server.Call, p addends) (total, error) {
			var out total
			for i, n := range p.Terms {
				out.Total += n
				if err := c.Progress(float64(i+1), float64(len(p.Terms)), ""); err != nil {
					return out, err
				}
			}
			return out, nil
		}),
		"example.com/double": server.Method(func(ctx context.Context, c *server.Call, p addends) (total, error) {
			return server.Request[total](ctx, c, "example.com/clientSum", addends{append(p.Terms, p.Terms...)})
		}),
		"example.com/wait": server.Method(func(ctx context.Context, c *server.Call, _ struct{}) (*total, error) {
			close(waiting)
			<-ctx.Done()
			close(cancelled)
			return nil, nil
		}),
		"example.com/nothing": server.Method(func(context.Context, *server.Call, *mcp.RequestParams) (*total, error) { return nil, nil }),
		"example.com/fail": server.Method(func(context.Context, *server.Call, struct{}) (*total, error) {
			return nil, fmt.Errorf("because: %w", &jsonrpc.Error{Code: 7, Message: "no"})
		}),
		"example.com/note": server.Notification(func(ctx context.Context, c *server.Call, p total) error {
			noted <- fmt.Sprint(p.Total)
			return c.Notify(ctx, "example.com/noted", nil)
		}),
	}
	s := server.New("s", "1", &server.Options{Features: server.Features{Methods: methods}})
	o := &client.Options{Features: client.Features{Methods: map[string]session.Handler{
		"example.com/clientSum": client.Method(func(_ context.Context, p addends) (total, error) {
			var out total
			for _, n := range p.Terms {
				out.Total += n
			}
			return out, nil
		}),
		"example.com/noted": client.Notification(func(context.Context, struct{}) error { noted <- "back"; return nil }),
	}}}
	c := servertest.Connect(t, s, o)
	ctx := t.Context()

	var reports []float64
	got, err := client.Call[total](ctx, c, "example.com/sum", addends{[]int{1, 2, 3}}, session.OnProgress(func(p session.Progress) { reports = append(reports, p.Value) }))
	if err != nil || got.Total != 6 || len(reports) == 0 || reports[len(reports)-1] != 3 {
		t.Errorf("terms: got %v, %v, progress %v", got, err, reports)
	}
	if got, err := client.Call[total](ctx, c, "example.com/double", addends{[]int{1, 2}}); err != nil || got.Total != 6 {
		t.Errorf("double: got %v, %v", got, err)
	}
	if got, err := client.Call[map[string]any](ctx, c, "example.com/nothing", nil); err != nil || len(got) != 0 {
		t.Errorf("nothing: got %v, %v", got, err)
	}
	for method, code := range map[string]int64{"example.com/fail": 7, "example.com/note": jsonrpc.CodeMethodNotFound} {
		_, err := client.Call[total](ctx, c, method, struct{}{})
		if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != code {
			t.Errorf("%s: got %v, want code %d", method, err, code)
		}
	}
	_, err = client.Call[total](ctx, c, "example.com/sum", map[string]string{"terms": "1"})
	if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != jsonrpc.CodeInvalidParams {
		t.Errorf("invalid params: got %v", err)
	}
	short, cancel := context.WithCancel(ctx)
	go func() { // ends when the request is being served
		<-waiting
		cancel()
	}()
	if _, err := client.Call[total](short, c, "example.com/wait", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("wait: got %v", err)
	}
	<-cancelled
	if err := c.Notify(ctx, "example.com/note", total{5}); err != nil {
		t.Error(err)
	}
	for got := ""; got != "back"; {
		if got = <-noted; got != "5" && got != "back" {
			t.Errorf("got %s", got)
		}
	}
}

func TestOwnMethodsAreRateLimited(t *testing.T) {
	nothing := server.Method(func(context.Context, *server.Call, struct{}) (struct{}, error) { return struct{}{}, nil })
	s := server.New("s", "1", &server.Options{Limits: server.Limits{Calls: 0.001}, Features: server.Features{Methods: map[string]session.Handler{"example.com/nothing": nothing}}})
	c := servertest.Connect(t, s, nil)
	_, first := client.Call[struct{}](t.Context(), c, "example.com/nothing", nil)
	_, second := client.Call[struct{}](t.Context(), c, "example.com/nothing", nil)
	if e, ok := errors.AsType[*jsonrpc.Error](second); first != nil || !ok || e.Code != session.CodeOverloaded {
		t.Errorf("got %v, then %v", first, second)
	}
}
