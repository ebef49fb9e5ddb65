package bolt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/internal/taskcode"
)

// closingContext closes a store when its Done method is called. At that moment, submit has checked
// that the store is open, and is about to queue a write.
type closingContext struct {
	context.Context
	s *store
}

func (c closingContext) Done() <-chan struct{} {
	close(c.s.closing)
	<-c.s.stopped
	return nil
}

func TestWriteWhileClosingReturns(t *testing.T) {
	for range 20 { // the write is queued or not, at random
		synctest.Test(t, func(t *testing.T) {
			s, err := open(filepath.Join(t.TempDir(), "tasks"))
			if err != nil {
				t.Fatal(err)
			}
			defer s.db.Close()
			first := true
			err = s.submit(doneOnce{closingContext{t.Context(), s}, &first}, func(buckets) error { return nil }, func() {})
			if err != task.ErrClosed {
				t.Errorf("got %v", err)
			}
		})
	}
}

// doneOnce is a closingContext that closes the store at the first call of Done only.
type doneOnce struct {
	closingContext
	first *bool
}

func (c doneOnce) Done() <-chan struct{} {
	if *c.first {
		*c.first = false
		return c.closingContext.Done()
	}
	return nil
}

func TestFileSystemWithoutHardLinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks")
	if err := initialize(path, func(string, string) error { return errors.ErrUnsupported }); err != nil {
		t.Fatal(err)
	}
	s, err := open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Create(t.Context(), task.Record{ID: "a", Status: mcp.TaskStatusWorking}); err != nil {
		t.Error(err)
	}
}

// After many tasks were dropped, a transaction writes no more than before.
func TestFreePagesCostNothing(t *testing.T) {
	s, err := open(filepath.Join(t.TempDir(), "tasks"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	at := time.UnixMicro(0).UTC()
	r, err := s.Create(t.Context(), task.Record{ID: "one", Created: at, Updated: at})
	if err != nil {
		t.Fatal(err)
	}
	update := func() (written int64) {
		before := s.db.Stats()
		for range 10 {
			if r, err = s.Update(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		after := s.db.Stats()
		return after.TxStats.GetPageAlloc() - before.TxStats.GetPageAlloc()
	}
	before := update()
	const tasks = 2000
	err = s.db.Update(func(tx *bbolt.Tx) error {
		b, err := bucketsOf(tx)
		for n := range tasks {
			if err != nil {
				return err
			}
			r := task.Record{ID: fmt.Sprint("other ", n), TTL: time.Second, Created: at, Updated: at, Params: make([]byte, 3000)}
			err = b.create(&r)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for dropped := []task.Record{{}}; len(dropped) > 0; {
		if dropped, _, err = s.Sweep(t.Context(), at.Add(time.Hour), 256); err != nil {
			t.Fatal(err)
		}
	}
	update() // frees the pages of the last transactions
	after := update()
	if free := s.db.Stats().FreePageN; free < tasks || after > before {
		t.Errorf("with %d free pages, ten updates write %d bytes, and %d before", free, after, before)
	}
}

// Large params are written when a task is created, and by no change of it.
func TestChangesDoNotWriteParams(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks")
	s, err := open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Close() }()
	written := func(f func(r task.Record) (task.Record, error), r task.Record) (task.Record, int64) {
		t.Helper()
		before := s.db.Stats()
		r, err := f(r)
		if err != nil {
			t.Fatal(err)
		}
		after := s.db.Stats()
		return r, after.TxStats.GetPageAlloc() - before.TxStats.GetPageAlloc()
	}
	create := func(r task.Record) (task.Record, error) { return s.Create(t.Context(), r) }
	update := func(r task.Record) (task.Record, error) { return s.Update(t.Context(), r) }
	at := time.UnixMicro(0).UTC()
	params := json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	r, n := written(create, task.Record{ID: "a", Status: mcp.TaskStatusWorking, TTL: time.Hour, Created: at, Updated: at, Params: params, Durable: &task.Durable{Version: "v"}})
	if n < 1<<20 {
		t.Fatalf("the creation has written %d bytes", n)
	}
	const most = 64 << 10
	changes := func() {
		t.Helper()
		for n := range 6 {
			switch n % 3 {
			case 0:
				r.Durable = &task.Durable{Version: "v", Recorded: taskcode.Recorded(r.Durable) + 1, Entries: []task.Entry{{Kind: 2, Key: fmt.Sprint(n)}}}
			case 1:
				r.InputRequests = []task.InputRequest{{Number: uint64(n), Method: mcp.MethodRootsList}}
			case 2:
				r.Progress = new(float64(n))
			}
			var size int64
			if r, size = written(update, r); size > most {
				t.Errorf("change %d has written %d bytes", n, size)
			}
		}
	}
	changes()
	// Another process changes the record.
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = open(path); err != nil {
		t.Fatal(err)
	}
	if r, err = s.Get(t.Context(), "a"); err != nil || !bytes.Equal(r.Params, params) {
		t.Fatalf("%d bytes of params, %v", len(r.Params), err)
	}
	changes()
	keys := func() (n int) {
		err := s.view(func(b buckets) error {
			n = b.tasks.Tx().Bucket(paramsBucket).Stats().KeyN
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := keys(); n != 1 {
		t.Errorf("%d params are stored", n)
	}
	r.Status, r.Params, r.Durable = mcp.TaskStatusCompleted, nil, nil
	if r, _ = written(update, r); r.Params != nil || keys() != 0 {
		t.Errorf("%d bytes of params, %d are stored", len(r.Params), keys())
	}
	// A task that expires.
	written(create, task.Record{ID: "b", Status: mcp.TaskStatusWorking, TTL: time.Hour, Created: at, Updated: at, Params: params})
	if _, _, err := s.Sweep(t.Context(), at.Add(time.Hour), 10); err != nil || keys() != 0 {
		t.Errorf("%d params are stored after a sweep, %v", keys(), err)
	}
}

// If another process opens the file while it is reopened after a failure, the store does not go on
// to write to it.
func TestOtherProcessUsesFileAfterFailure(t *testing.T) {
	for _, acquires := range []bool{false, true} {
		t.Run(fmt.Sprint("acquires ", acquires), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "tasks")
				open := func() *store {
					t.Helper()
					s, err := open(path)
					if err != nil {
						t.Fatal(err)
					}
					return s
				}
				s := open()
				defer s.Close()
				release, err := s.Acquire()
				if err != nil {
					t.Fatal(err)
				}
				r, err := s.Create(t.Context(), task.Record{ID: "a", Status: mcp.TaskStatusWorking})
				if err != nil {
					t.Fatal(err)
				}
				// A transaction fails.
				fault := errors.New("disk full")
				s.fault.Store(&fault)
				s.db.Close() // as reopen does
				other := open()
				if acquires {
					if _, err := other.Acquire(); err != nil {
						t.Fatal(err)
					}
				}
				other.Close()
				for range 3 {
					_, err = s.Update(t.Context(), r)
					if acquires != errors.Is(err, task.ErrLocked) || !acquires && err != nil {
						t.Errorf("update: %v", err)
					}
					if _, err := s.Get(t.Context(), "unknown"); acquires != errors.Is(err, task.ErrLocked) {
						t.Errorf("get: %v", err)
					}
					r.Revision++
					time.Sleep(2 * retryPause)
				}
				if err := s.Health(); acquires != errors.Is(err, task.ErrLocked) {
					t.Errorf("health: %v", err)
				}
				if acquires { // another Manager may begin
					open().Close() // the file is free
					release()
					if _, err := s.Acquire(); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}
