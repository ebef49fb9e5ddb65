package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// step is an entry with a result of the given size.
func step(n, size int) task.Entry {
	return task.Entry{Kind: 2, Key: fmt.Sprint("step ", n), Occurrence: 1, Result: json.RawMessage(`"` + strings.Repeat("x", size-2) + `"`)}
}

// Restartable work that is re-run gets what it has recorded, and the entries with which its task
// was created.
func TestJournalSurvivesRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		var journals []string
		work := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			entries, requests, err := run.Journal(ctx)
			if err != nil {
				return nil, err
			}
			keys := ""
			for _, e := range entries {
				keys += e.Key + ";"
			}
			for _, q := range requests {
				keys += fmt.Sprintf("%s=%s;", q.Key, string(q.Result))
			}
			journals = append(journals, keys)
			if err := run.Record(ctx, step(len(entries), 10)); err != nil {
				return nil, err
			}
			if _, err := ask(ctx, run, "k"); err != nil || len(journals) == 3 {
				return raw(`{}`), err
			}
			return untilDone(ctx, run)
		}
		cfg := task.Options{Store: store, Updates: task.Updates{Quiet: true}, Recovery: task.Recovery{Recover: func(task.Record) task.Work { return work }}}
		m := newManager(t, cfg)
		id := create(t, m, task.Request{Restartable: true, Work: work, Version: "v1", Entries: []task.Entry{step(0, 10)}}).TaskID
		synctest.Wait()
		if r, err := store.Get(t.Context(), id); err != nil || r.Durable.Version != "v1" || r.Durable.Recorded != 2 || len(r.Durable.Entries) != 0 {
			t.Errorf("record %+v, %v", r.Durable, err)
		}
		m.Close(context.Background())
		m = newManager(t, cfg)
		synctest.Wait() // the work has read its journal
		ctx, cancel := context.WithCancel(t.Context())
		go m.Result(ctx, "alice", id, &peer{answer: echoMessage}) // ends with ctx
		synctest.Wait()
		cancel()
		m.Close(context.Background())
		m = newManager(t, cfg)
		if out := result(t, m, id); out.Error != nil {
			t.Error(out.Error)
		}
		checkEqual(t, "journals", []string{"step 0;", "step 0;step 1;k=;", `step 0;step 1;step 2;k="k";`}, journals)
		entries, err := store.Journal(t.Context(), id)
		if err != nil || len(entries) != 0 {
			t.Errorf("the terminal task has %d entries, %v", len(entries), err)
		}
		if r, err := store.Get(t.Context(), id); err != nil || r.Bytes > 700 {
			t.Errorf("the terminal task counts as %d bytes, %v", r.Bytes, err)
		}
	})
}

// A terminal task has no entries any longer. Work whose context has not ended yet must not take its
// journal for an empty one, and repeat its steps.
func TestJournalOfTerminalTaskFails(t *testing.T) {
	stored, read := make(chan struct{}), make(chan struct{})
	store := &hookedStore{Store: memory.New(), afterUpdate: func(r task.Record) {
		if task.Terminal(r.Status) {
			close(stored)
			<-read // before Cancel ends the work
		}
	}}
	m := newManager(t, task.Options{Store: store, Updates: task.Updates{Quiet: true}})
	recorded := make(chan struct{})
	created := create(t, m, task.Request{Restartable: true, Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
		defer close(read)
		if err := run.Record(ctx, step(0, 10)); err != nil {
			t.Error(err)
		}
		close(recorded)
		<-stored
		entries, _, err := run.Journal(ctx)
		if ctx.Err() != nil || !errors.Is(err, task.ErrCancelled) {
			t.Errorf("%d entries, %v", len(entries), err)
		}
		return nil, err
	}})
	<-recorded
	if _, err := m.Cancel(t.Context(), "alice", created.TaskID, nil); err != nil {
		t.Error(err)
	}
}

// A step takes one write of the record and no read of the journal.
func TestStepIsOneWrite(t *testing.T) {
	var writes atomic.Int64
	store := &journalCounter{Store: &hookedStore{Store: memory.New(), afterUpdate: func(task.Record) { writes.Add(1) }}}
	runInBubble(t, task.Options{Store: store, Updates: task.Updates{Quiet: true}}, func(t *testing.T, m *task.Manager) {
		const steps = 100
		var during int64
		created := create(t, m, task.Request{Restartable: true, Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			for n := range steps {
				if err := run.Record(ctx, step(n, 100)); err != nil {
					return nil, err
				}
			}
			during = writes.Load()
			return raw(`{}`), nil
		}})
		if out := result(t, m, created.TaskID); out.Error != nil {
			t.Fatal(out.Error)
		}
		if during != steps || store.reads.Load() != 0 {
			t.Errorf("%d steps took %d writes, %d reads of the journal", steps, during, store.reads.Load())
		}
	})
}

// journalCounter is a store that counts the calls of Journal.
type journalCounter struct {
	task.Store
	reads atomic.Int64
}

func (s *journalCounter) Journal(ctx context.Context, id string) ([]task.Entry, error) {
	s.reads.Add(1)
	return s.Store.Journal(ctx, id)
}

// A journal that is too large is an error that says what to do. What fits stays recorded, and the
// task can still end.
func TestJournalIsLimited(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg  task.Options
		fits int // number of steps of 1,000 bytes
	}{
		"default":        {task.Options{}, 949},
		"Limits.Journal": {task.Options{Limits: task.Limits{Journal: 5000}}, 4},
		"Limits.Bytes":   {task.Options{Limits: task.Limits{Bytes: 5000}}, 4},
		"none":           {task.Options{Limits: task.Limits{Journal: -1}}, 2000},
	} {
		t.Run(name, func(t *testing.T) {
			tt.cfg.Updates.Quiet = true
			runInBubble(t, tt.cfg, func(t *testing.T, m *task.Manager) {
				created := create(t, m, task.Request{Restartable: true, Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
					for n := range 2000 {
						err := run.Record(ctx, step(n, 1000))
						if err == nil {
							continue
						}
						entries, _, failed := run.Journal(ctx)
						if len(entries) != n || failed != nil {
							t.Errorf("%d steps are recorded after %d, %v", len(entries), n, failed)
						}
						if n != tt.fits {
							t.Errorf("%d steps fit, want %d", n, tt.fits)
						}
						return nil, err
					}
					return raw(`{}`), nil
				}})
				out := result(t, m, created.TaskID)
				switch {
				case tt.fits == 2000:
					if out.Error != nil {
						t.Error(out.Error)
					}
				case out.Error == nil:
					t.Error("no error")
				case name != "Limits.Bytes" && !strings.Contains(out.Error.Message, "raise Options.Limits.Journal"):
					t.Errorf("error %q", out.Error.Message)
				}
			})
		})
	}
}

// An answer that does not fit into the journal becomes an error that the work gets.
func TestAnswerTooLargeForJournalIsError(t *testing.T) {
	runInBubble(t, task.Options{Updates: task.Updates{Quiet: true}, Limits: task.Limits{Journal: 2000}}, func(t *testing.T, m *task.Manager) {
		created := create(t, m, task.Request{Restartable: true, Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			if _, err := ask(ctx, run, strings.Repeat("q", 3000)); !isJournalError(err) {
				t.Errorf("large input request: %v", err)
			}
			_, err := ask(ctx, run, "k")
			if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || !strings.Contains(e.Message, "Options.Limits.Journal") {
				t.Errorf("large answer: %v", err)
			}
			return raw(`{}`), nil
		}})
		out, err := m.Result(t.Context(), "alice", created.TaskID, &peer{answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			return step(0, 3000).Result, nil
		}})
		if err != nil || out.Error != nil {
			t.Error(out.Error, err)
		}
	})
}

// A request whose entries exceed the limit is refused for good.
func TestCreateRefusesLargeJournal(t *testing.T) {
	runInBubble(t, task.Options{Limits: task.Limits{Journal: 1000}}, func(t *testing.T, m *task.Manager) {
		entries := []task.Entry{{Key: "k", Occurrence: 1, Result: []byte(`"` + strings.Repeat("x", 1000) + `"`)}}
		_, err := m.Create(t.Context(), task.Request{Work: returns(`{}`), Restartable: true, Entries: entries})
		if !isJournalError(err) || len(task.WireError(err).Data) > 0 {
			t.Errorf("got %v, on the wire %+v", err, task.WireError(err))
		}
	})
}

func isJournalError(err error) bool {
	_, ok := errors.AsType[*task.JournalError](err)
	return ok
}

// Work that records after its task has ended gets an error, and nothing is recorded.
func TestNothingIsRecordedAfterEnd(t *testing.T) {
	store := memory.New()
	runInBubble(t, task.Options{Store: store, Updates: task.Updates{Quiet: true}}, func(t *testing.T, m *task.Manager) {
		work := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			<-ctx.Done()
			if err := run.Record(context.Background(), step(1, 10)); !errors.Is(err, task.ErrCancelled) && !errors.Is(err, task.ErrNotFound) {
				t.Errorf("recorded after %v: %v", context.Cause(ctx), err)
			}
			return nil, context.Cause(ctx)
		}
		cancelled := create(t, m, task.Request{Restartable: true, Work: work})
		create(t, m, task.Request{Restartable: true, Work: work}) // expires
		if _, err := m.Cancel(t.Context(), "alice", cancelled.TaskID, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if entries, err := store.Journal(t.Context(), cancelled.TaskID); err != nil || len(entries) > 0 {
			t.Errorf("%d entries, %v", len(entries), err)
		}
		time.Sleep(2 * time.Hour)
	})
}

// Work whose journal is damaged gets an error, and its task fails when the work returns it.
func TestDamagedJournalFailsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &damagedJournals{Store: memory.New()}
		work := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			_, _, err := run.Journal(ctx)
			if err == nil {
				err = run.Record(ctx, step(0, 10))
			}
			if err == nil {
				_, err = ask(ctx, run, "k")
			}
			return raw(`{}`), err
		}
		m := newManager(t, task.Options{Store: store, Updates: task.Updates{Quiet: true}, Recovery: task.Recovery{ParkAfter: time.Second, Recover: func(task.Record) task.Work { return work }}, Logger: slog.New(slog.DiscardHandler)})
		created := create(t, m, task.Request{Restartable: true, Work: work})
		out, err := m.Result(t.Context(), "alice", created.TaskID, &peer{answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			time.Sleep(time.Minute)
			return raw(`{}`).bytes(), nil
		}})
		if err != nil || out.Error == nil || status(t, m, created.TaskID) != mcp.TaskStatusFailed {
			t.Errorf("%s, %v, %v", out.Result, out.Error, err)
		}
	})
}

// damagedJournals is a store whose journals cannot be read.
type damagedJournals struct{ task.Store }

func (damagedJournals) Journal(context.Context, string) ([]task.Entry, error) {
	return nil, task.ErrCorrupt
}
