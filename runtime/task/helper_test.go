package task_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

var progressToken = codec.StringScalar("token")

// raw is JSON text that implements codec.Encoder.
type raw string

func (r raw) EncodeJSON(w *wire.Writer) { w.Raw(json.RawMessage(r)) }

// runInBubble runs a test in a synctest bubble, with a Manager. The store defaults to a new memory
// store.
func runInBubble(t *testing.T, cfg task.Options, test func(t *testing.T, m *task.Manager)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newManager(t, cfg)) })
}

// newManager returns a Manager that is closed at the end of the test. The store defaults to a new
// memory store.
func newManager(t *testing.T, cfg task.Options) *task.Manager {
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

// start creates a task of the principal alice with the given work.
func start(t *testing.T, m *task.Manager, work task.Work) mcp.Task {
	t.Helper()
	return create(t, m, task.Request{Work: work})
}

// create creates a task. The principal defaults to alice, and the method to tools/call.
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

// returns is work that returns a result at once.
func returns(text string) task.Work {
	return func(context.Context, *task.Run) (codec.Encoder, error) { return raw(text), nil }
}

// untilDone is work that returns when its context ends.
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

// wireCode returns the code of the JSON-RPC error that the peer receives for err, or 0 for nil.
func wireCode(err error) int64 {
	if err == nil {
		return 0
	}
	return task.WireError(err).Code
}

// peer is a requestor that records the messages it receives. It answers requests with answer.
type peer struct {
	answer func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)

	mu       sync.Mutex
	messages []string  // method and params of each message
	reports  []float64 // values of the progress notifications
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

// hookedStore is a store that calls a function after it has created, read or updated a record,
// before it returns the record.
type hookedStore struct {
	task.Store
	afterCreate, afterGet, afterUpdate func(r task.Record)
}

func (s *hookedStore) Update(ctx context.Context, r task.Record) (task.Record, error) {
	r, err := s.Store.Update(ctx, r)
	if f := s.afterUpdate; err == nil && f != nil {
		f(r)
	}
	return r, err
}

func (s *hookedStore) Create(ctx context.Context, r task.Record) (task.Record, error) {
	r, err := s.Store.Create(ctx, r)
	if f := s.afterCreate; err == nil && f != nil {
		f(r)
	}
	return r, err
}

func (s *hookedStore) Get(ctx context.Context, id string) (task.Record, error) {
	r, err := s.Store.Get(ctx, id)
	if f := s.afterGet; err == nil && f != nil {
		f(r)
	}
	return r, err
}

// failingStore is a store whose methods fail while an error is set.
type failingStore struct {
	task.Store
	mu  sync.Mutex
	err error
}

// Acquire reserves nothing, because a process that is killed holds no reservation.
func (s *failingStore) Acquire() (release func(), err error) { return func() {}, nil }

func (s *failingStore) setError(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *failingStore) currentError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *failingStore) Create(ctx context.Context, r task.Record) (task.Record, error) {
	if err := s.currentError(); err != nil {
		return task.Record{}, err
	}
	return s.Store.Create(ctx, r)
}

func (s *failingStore) Get(ctx context.Context, id string) (task.Record, error) {
	if err := s.currentError(); err != nil {
		return task.Record{}, err
	}
	return s.Store.Get(ctx, id)
}

func (s *failingStore) Journal(ctx context.Context, id string) ([]task.Entry, error) {
	if err := s.currentError(); err != nil {
		return nil, err
	}
	return s.Store.Journal(ctx, id)
}

func (s *failingStore) Update(ctx context.Context, r task.Record) (task.Record, error) {
	if err := s.currentError(); err != nil {
		return task.Record{}, err
	}
	return s.Store.Update(ctx, r)
}

func (s *failingStore) List(ctx context.Context, owner string, after uint64, limit int) ([]task.Record, error) {
	if err := s.currentError(); err != nil {
		return nil, err
	}
	return s.Store.List(ctx, owner, after, limit)
}

// containsAll reports whether text contains all of the parts.
func containsAll(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}
