package bolt

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// closingContext closes a store when its Done method is called. At that moment, submit has checked
// that the store is open, and is about to queue a write.
type closingContext struct {
	context.Context
	s *Store
}

func (c closingContext) Done() <-chan struct{} {
	close(c.s.closing)
	<-c.s.stopped
	return nil
}

func TestWriteWhileClosingReturns(t *testing.T) {
	for range 20 { // the write is queued or not, at random
		synctest.Test(t, func(t *testing.T) {
			s, err := Open(filepath.Join(t.TempDir(), "tasks"))
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
	s, err := Open(path)
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
	s, err := Open(filepath.Join(t.TempDir(), "tasks"))
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
