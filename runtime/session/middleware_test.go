package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/runtime/internal/methods"
	"github.com/mcpwire/mcpwire/runtime/session"
)

func TestMiddlewareWrapsBothDirections(t *testing.T) {
	var mu sync.Mutex
	var trace []string
	record := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		trace = append(trace, fmt.Sprintf(format, args...))
	}
	receiving := func(name string) session.Middleware {
		return func(next session.Handler) session.Handler {
			return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				if !strings.HasPrefix(req.Method, "x/") {
					return next(ctx, req)
				}
				record("%s in: %s %s", name, req.Method, req.Params)
				changed := req.Clone()
				changed.Params = append(changed.Params[:len(changed.Params)-1:len(changed.Params)-1], `,"`+name+`":1}`...)
				result, err := next(ctx, changed)
				record("%s out: %v", name, err)
				return result, err
			}
		}
	}
	sending := func(name string) session.SendMiddleware {
		return func(next session.Sender) session.Sender {
			return func(ctx context.Context, call *session.Call) (json.RawMessage, error) {
				if !strings.HasPrefix(call.Method, "x/") {
					return next(ctx, call)
				}
				record("%s sends: %s", name, call.Method)
				call.SetMeta("by", codec.StringScalar(name))
				result, err := next(ctx, call)
				record("%s got: %s %v, id %v", name, string(result), err, call.ID)
				return result, err
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		server := toolServer(func(_ context.Context, req *session.Request) (codec.Encoder, error) {
			if req.IsNotification() {
				return nil, nil
			}
			meta, err := req.Meta()
			if err != nil {
				t.Error(err)
			}
			by, _ := meta.Extra.Get("by")
			record("handler: %s, by %s", req.Params, by)
			return session.Raw(`{"a":1}`), errors.New("handler failed")
		})
		server.Config.Hooks.Receiving = []session.Middleware{receiving("first"), receiving("second")}
		client := sessiontest.Side{Config: session.Options{Hooks: session.Hooks{Sending: []session.SendMiddleware{sending("outer"), sending("inner")}}}}
		c, _ := sessiontest.Pair(t, client, server)
		c.Call(t.Context(), "x/y", session.Raw(`{"p":1}`))
		c.Notify(t.Context(), "x/n", session.Raw(`{"p":2}`))
		synctest.Wait()
	})
	// Notify does not wait for the peer, so the log entries of the two sides have no common order.
	slices.SortStableFunc(trace[min(9, len(trace)):], func(a, b string) int {
		received := func(entry string) bool {
			return strings.HasPrefix(entry, "first ") || strings.HasPrefix(entry, "second ")
		}
		switch {
		case received(a) == received(b):
			return 0
		case received(b):
			return -1
		}
		return 1
	})
	want := []string{
		`outer sends: x/y`, `inner sends: x/y`,
		`first in: x/y {"_meta":{"by":"inner"},"p":1}`,
		`second in: x/y {"_meta":{"by":"inner"},"p":1,"first":1}`,
		`handler: {"_meta":{"by":"inner"},"p":1,"first":1,"second":1}, by "inner"`,
		`second out: handler failed`, `first out: handler failed`,
		`inner got:  jsonrpc: handler failed (code -32603), id 2`, `outer got:  jsonrpc: handler failed (code -32603), id 2`,
		`outer sends: x/n`, `inner sends: x/n`, `inner got:  <nil>, id `, `outer got:  <nil>, id `,
		`first in: x/n {"_meta":{"by":"inner"},"p":2}`, `second in: x/n {"_meta":{"by":"inner"},"p":2,"first":1}`,
		`second out: <nil>`, `first out: <nil>`,
	}
	if diff := cmp.Diff(want, trace); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAddMetaKeepsOtherMembers(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{``, `{"_meta":{"k":"v"}}`},
		{`{}`, `{"_meta":{"k":"v"}}`},
		{`{"b":1.0,"a":[1e3, {}]}`, `{"b":1.0,"a":[1e3, {}],"_meta":{"k":"v"}}`},
		{`{"b":1,"_meta":{},"a":2}`, `{"b":1,"_meta":{"k":"v"},"a":2}`},
		{`{"_meta":{"x":1,"k":{"old":1},"y":"ü"}}`, `{"_meta":{"x":1,"y":"ü","k":"v"}}`},
		{`{"_meta":7}`, ``},
		{`[]`, ``},
		{`{"a":1,"a":2}`, ``},
		{`{"a":1`, ``},
	} {
		got, err := methods.AddMeta(json.RawMessage(c.in), "k", codec.StringScalar("v"))
		if string(got) != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: got %s, %v", c.in, got, err)
		}
	}
}
