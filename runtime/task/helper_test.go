package task_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

var mcpToken = codec.StringScalar("token")

// raw is JSON text as a result or as params.
type raw string

func (r raw) EncodeJSON(w *codec.Writer) { w.Raw(json.RawMessage(r)) }

// bubble runs a test in a bubble with a Manager over a memory store.
func runInBubble(t *testing.T, cfg task.Config, test func(t *testing.T, m *task.Manager)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newManager(t, cfg)) })
}

// manager returns a Manager that is closed at the end, over a new memory store if there is none.
func newManager(t *testing.T, cfg task.Config) *task.Manager {
	t.Helper()
	if cfg.Store == nil {
		cfg.Store = memory.New()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	m, err := task.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return m
}

// start creates a task of the principal alice.
func start(t *testing.T, m *task.Manager, work task.Work) mcp.Task {
	t.Helper()
	return create(t, m, task.Request{Work: work})
}

func create(t *testing.T, m *task.Manager, q task.Request) mcp.Task {
	t.Helper()
	if q.Principal == "" {
		q.Principal = "alice"
	}
	if q.Method == "" {
		q.Method = "tools/call"
	}
	created, err := m.Create(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// get returns the state of a task of alice.
func get(t *testing.T, m *task.Manager, id string) mcp.Task {
	t.Helper()
	state, err := m.Get(t.Context(), "alice", id, nil)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// result waits for the outcome of a task of alice.
func result(t *testing.T, m *task.Manager, id string) task.Outcome {
	t.Helper()
	out, err := m.Result(t.Context(), "alice", id, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// returns is work that ends at once.
func returns(text string) task.Work {
	return func(context.Context, *task.Run) (codec.Encoder, error) { return raw(text), nil }
}

// untilDone is work that ends with its context.
func untilDone(ctx context.Context, run *task.Run) (codec.Encoder, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func checkEqual(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// code is that of the error which the peer gets.
func wireCode(err error) int64 {
	if err == nil {
		return 0
	}
	return task.WireError(err).Code
}

// peer is a requestor that notes what it gets, and answers with answer.
type peer struct {
	answer func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)

	mu       sync.Mutex
	messages []string // method and params
	reports  []float64
}

func (p *peer) add(method string, params codec.Encoder) json.RawMessage {
	text, err := codec.Marshal(params)
	if err != nil {
		panic(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.messages = append(p.messages, method+" "+string(text))
	return text
}

func (p *peer) received() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.messages...)
}

func (p *peer) Call(ctx context.Context, method string, params codec.Encoder) (json.RawMessage, error) {
	text := p.add(method, params)
	if p.answer == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: " + method}
	}
	return p.answer(ctx, method, text)
}

func (p *peer) Notify(ctx context.Context, method string, params codec.Encoder) error {
	text := p.add(method, params)
	if method != "notifications/progress" {
		return nil
	}
	var report struct{ Progress float64 }
	if err := json.Unmarshal(text, &report); err != nil {
		panic(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reports = append(p.reports, report.Progress)
	return nil
}

func (p *peer) progress() []float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]float64(nil), p.reports...)
}

func parseTime(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		t.Error(err)
	}
	return at
}
