package receiver_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// recorder is a requestor that records its messages. It responds to input requests with {"a":1}.
type recorder struct {
	mu  sync.Mutex
	got []string
}

type streamKey struct{}

func (r *recorder) record(ctx context.Context, method string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if stream, ok := ctx.Value(streamKey{}).(string); ok {
		method += " on " + stream
	}
	r.got = append(r.got, method)
}

func (r *recorder) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.got, ", ")
}

func (r *recorder) Call(ctx context.Context, method string, params codec.Encoder) (json.RawMessage, error) {
	r.record(ctx, method)
	return json.RawMessage(`{"a":1}`), nil
}

func (r *recorder) Notify(ctx context.Context, method string, params codec.Encoder) error {
	r.record(ctx, method)
	return nil
}

func (r *recorder) Report(session.Progress) error { return nil }

// serve serves a request that belongs to no session, and returns its result.
func serve(t *testing.T, ctx context.Context, h session.Handler, rev mcp.Revision, method, params string) (string, error) {
	t.Helper()
	req := new(session.Request).Internals(boundary.Caller{}).Stored(codec.StringScalar("1"), method, json.RawMessage(params), rev)
	result, err := h(transport.WithPrincipal(ctx, "alice"), req)
	if err != nil {
		return "", err
	}
	text, err := codec.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), nil
}

func member(t *testing.T, object string, path ...string) string {
	t.Helper()
	raw := json.RawMessage(object)
	for _, name := range path {
		var ok bool
		if raw, ok = codec.Member(raw, name); !ok {
			t.Fatalf("%s has no member %s", object, strings.Join(path, "."))
		}
	}
	return strings.Trim(string(raw), `"`)
}

func newManager(t *testing.T, cfg task.Options) *task.Manager {
	t.Helper()
	cfg.Store = memory.New()
	m, err := task.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(context.Background()) })
	return m
}

func TestSessionsServesRequestsWithoutSession(t *testing.T) {
	for _, reachable := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			to := new(recorder)
			o := receiver.Options{Manager: newManager(t, task.Options{})}
			if reachable {
				o.Requestor = func(context.Context, *session.Request) task.Requestor { return to }
			}
			h := receiver.Middleware(o)(func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				peer, ok := session.PeerFrom(ctx)
				if !ok { // a plain request
					return session.Raw(`{"plain":true}`), nil
				}
				peer.Notify(ctx, "x/note", nil)
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				answer, err := peer.Call(ctx, mcp.MethodElicitationCreate, session.Raw(`{"message":"m"}`))
				return session.Raw(answer), err
			})
			const rev = mcp.Revision20251125
			if got, err := serve(t, t.Context(), h, rev, "tools/call", `{"name":"t"}`); got != `{"plain":true}` {
				t.Errorf("got %s, %v for a plain request", got, err)
			}
			created, err := serve(t, t.Context(), h, rev, "tools/call", `{"name":"t","task":{}}`)
			if err != nil {
				t.Fatal(err)
			}
			id := member(t, created, "task", "taskId")
			waiting := context.WithValue(t.Context(), streamKey{}, "result")
			got, err := serve(t, waiting, h, rev, "tasks/result", `{"taskId":"`+id+`"}`)
			if !reachable {
				if err == nil {
					t.Errorf("got %s although the peer cannot be reached", got)
				}
				return
			}
			if err != nil || member(t, got, "a") != "1" {
				t.Errorf("got %s, %v", got, err)
			}
			if got := to.all(); !strings.Contains(got, "elicitation/create on result") || !strings.HasPrefix(got, "x/note") {
				t.Errorf("the requestor got %s", got)
			}
			list, err := serve(t, t.Context(), h, rev, "tasks/list", `{}`)
			if err != nil || !strings.Contains(list, id) {
				t.Errorf("got %s, %v", list, err)
			}
		})
	}
}

// modernCall is a tools/call of a client with the Tasks extension.
const modernCall = `{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"` + tasks.ExtensionID + `":{}}}}}`

// extension returns a handler whose requests may become tasks after a minute.
func extension(m *task.Manager, tool func(ctx context.Context, pending rerun.Pending) (codec.Encoder, error)) session.Handler {
	o := receiver.Options{
		Manager: m,
		Support: func(context.Context, *session.Request) (receiver.Support, error) {
			return receiver.Support{Mode: mcp.TaskSupportOptional, After: time.Minute}, nil
		},
	}
	return receiver.Middleware(o)(func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		pending, _ := rerun.PendingFrom(ctx)
		return tool(ctx, pending)
	})
}

func TestPromote(t *testing.T) {
	promotable := func(p rerun.Pending) { p.BeforeTask(func(promote rerun.Promote) { promote(nil) }) }
	for name, test := range map[string]struct {
		cfg  task.Options
		tool func(ctx context.Context, p rerun.Pending) error
		want string // of the error of the tool; "task" if there is none and the call is a task
	}{
		"makes a task": {tool: func(ctx context.Context, p rerun.Pending) error {
			promotable(p)
			return p.Promote(ctx)
		}, want: "task"},
		"may be called twice": {tool: func(ctx context.Context, p rerun.Pending) error {
			promotable(p)
			return errors.Join(p.Promote(ctx), p.Promote(ctx))
		}, want: "task"},
		"returns nil for a task": {tool: func(ctx context.Context, p rerun.Pending) error {
			promotable(p)
			time.Sleep(2 * time.Minute)
			return p.Promote(ctx)
		}, want: "task"},
		"needs BeforeTask": {tool: func(ctx context.Context, p rerun.Pending) error { return p.Promote(ctx) }, want: "cannot become a task"},
		"respects the function of BeforeTask": {tool: func(ctx context.Context, p rerun.Pending) error {
			p.BeforeTask(func(rerun.Promote) {})
			return p.Promote(ctx)
		}, want: "cannot become a task"},
		"respects limits": {cfg: task.Options{Limits: task.Limits{Bytes: 1}}, tool: func(ctx context.Context, p rerun.Pending) error {
			promotable(p)
			return p.Promote(ctx)
		}, want: "limit"},
		"repeats the refusal": {cfg: task.Options{Limits: task.Limits{Bytes: 1}}, tool: func(ctx context.Context, p rerun.Pending) error {
			promotable(p)
			time.Sleep(2 * time.Minute)
			return p.Promote(ctx)
		}, want: "limit"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newManager(t, test.cfg)
				h := extension(m, func(ctx context.Context, p rerun.Pending) (codec.Encoder, error) {
					if err := test.tool(ctx, p); err != nil {
						return nil, err
					}
					return session.Raw(`{"content":[]}`), nil
				})
				ctx := session.WithPeer(t.Context(), new(recorder))
				start := time.Now()
				got, err := serve(t, ctx, h, mcp.Revision20260728, "tools/call", modernCall)
				if test.want != "task" {
					if err == nil || !strings.Contains(err.Error(), test.want) {
						t.Errorf("got %s, %v, want an error with %q", got, err, test.want)
					}
					return
				}
				if err != nil || member(t, got, "resultType") != "task" {
					t.Fatalf("got %s, %v", got, err)
				}
				if strings.HasPrefix(name, "ma") && time.Since(start) > 0 {
					t.Errorf("the task was created after %v", time.Since(start))
				}
				time.Sleep(time.Hour / 2)
				state, err := serve(t, ctx, h, mcp.Revision20260728, "tasks/get", `{"taskId":"`+member(t, got, "taskId")+`",`+modernCall[len(`{"name":"t",`):])
				if err != nil || member(t, state, "status") != "completed" {
					t.Errorf("got %s, %v", state, err)
				}
			})
		})
	}
}

func TestPromoteOfCancelledRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, task.Options{})
		var refusal error
		h := extension(m, func(ctx context.Context, p rerun.Pending) (codec.Encoder, error) {
			p.BeforeTask(func(promote rerun.Promote) { promote(nil) })
			<-ctx.Done()
			refusal = p.Promote(context.WithoutCancel(ctx))
			return nil, refusal
		})
		disconnected := errors.New("the client has disconnected")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(disconnected) })
		got, err := serve(t, session.WithPeer(ctx, new(recorder)), h, mcp.Revision20260728, "tools/call", modernCall)
		if !errors.Is(err, disconnected) || !errors.Is(refusal, disconnected) {
			t.Errorf("got %s, %v, and %v of Promote", got, err, refusal)
		}
		if list, _, err := m.List(t.Context(), "alice", ""); len(list) != 0 || err != nil {
			t.Errorf("got tasks %v, %v", list, err)
		}
	})
}

// Without a session, the methods of a request that need one do nothing.
func TestRequestWithoutSession(t *testing.T) {
	req := new(session.Request).Internals(boundary.Caller{}).Stored(jsonrpc.ID{}, "tools/call", json.RawMessage(modernCall), mcp.Revision20260728)
	if !req.Internals(boundary.Caller{}).Keep() || req.Session != nil || req.Internals(boundary.Caller{}).Progress() != nil || req.Internals(boundary.Caller{}).Connection() != nil {
		t.Error("the request belongs to a session")
	}
	req.Internals(boundary.Caller{}).EndOnShutdown()
	req.Internals(boundary.Caller{}).Detach(json.RawMessage(strings.Clone(modernCall)))
	if _, ok := req.Internals(boundary.Caller{}).ClientExtension(tasks.ExtensionID); !ok || !req.Traits().Sessionless {
		t.Error("the _meta of the request is not read")
	}
}

// endingStore fails to read a task, as a store does whose context has ended.
type endingStore struct{ task.Store }

func (s endingStore) Get(ctx context.Context, id string) (task.Record, error) {
	if err := ctx.Err(); err != nil {
		return task.Record{}, err
	}
	return s.Store.Get(ctx, id)
}

// A request that ends because the session shuts down fails with the error that says so.
func TestRequestFailsWithCauseOfItsEnd(t *testing.T) {
	m, err := task.New(t.Context(), task.Options{Store: endingStore{memory.New()}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(t.Context())
	h := receiver.Middleware(receiver.Options{Manager: m})(func(context.Context, *session.Request) (codec.Encoder, error) {
		return nil, nil
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&jsonrpc.Error{Code: session.CodeClosing, Message: "session is shutting down"})
	_, err = h(ctx, new(session.Request).Internals(boundary.Caller{}).Stored(codec.IntScalar(1), mcp.MethodTasksGet, json.RawMessage(`{"taskId":"x"}`), session.Revisions()[0]))
	if jsonrpc.CodeOf(err) != session.CodeClosing {
		t.Errorf("got %v", err)
	}
}
